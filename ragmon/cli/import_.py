"""Send records from files to a running daemon: JSON lines, JSON, CSV or Parquet, mapped on the way.

--map names a YAML file of fields of the record and JMESPath expressions that find them in the
original, such as `query: input.question`. --dry-run sends nothing and shows the first ten records
beside their originals, and what would be refused of all. A query without an id gets one from its
file and position, so that sending a file twice counts it once.
"""

import argparse
import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from rich import box
from rich.table import Table

from ragmon import row_files
from ragmon.cli import remote
from ragmon.cli.console import say, warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.input_files import check_files
from ragmon.cli.progress import byte_bar
from ragmon.cli.replay import Refusals
from ragmon.cli.rich_output import standard_output
from ragmon.cli.sender import Sender, SendListener
from ragmon.clock import Clock, SystemClock
from ragmon.config.yaml_text import parse, where
from ragmon.decode import Decoder, ignored_fields
from ragmon.errors import RecordError, SettingsError
from ragmon.event_time import Bounds
from ragmon.files import BROKEN
from ragmon.mapping import KINDS, RecordMapping
from ragmon.terminal import json_text, printable

_BATCH = 200
_BATCH_BYTES = 1 << 20
_SHOWN = 10
_MOST_TEXT = 160  # characters of a text that is shown
_MOST_ITEMS = 3  # of a list that is shown
_AHEAD_S = 3_600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="JSON lines, JSON, CSV, TSV (also compressed with gzip or zstd) or Parquet",
    )
    parser.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help="YAML: an expression for each field, as in the setting mapping of a source",
    )
    parser.add_argument(
        "--records",
        choices=tuple(KINDS),
        default="queries",
        help="kind of the records (default queries)",
    )
    parser.add_argument(
        "--format", choices=row_files.FORMS, help="form of the files (default: by their names)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="send nothing; show records beside originals"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON; with --dry-run JSON lines"
    )
    remote.arguments(parser)


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Send or show; 1 when records were refused."""
    clock = clock or SystemClock()
    mapping = _mapping(args.map, args.records) if args.map else None
    check_files(args.files)
    reading = MappedFiles(args, mapping)
    if args.dry_run:
        return DryRun(reading, clock.now(), as_json=args.json).show(args.files)
    return _send(args, reading)


def _mapping(path: Path, kind: str) -> RecordMapping:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(f"cannot read {path}: {reason}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not YAML: {where(error)}") from error
    if isinstance(content, dict) and isinstance(content.get("mapping"), dict):
        content = content["mapping"]
    if not isinstance(content, dict):
        raise SettingsError(
            f"{path} must hold fields and expressions", hint="Such as `query: input.question`"
        )
    try:
        return RecordMapping({str(key): value for key, value in content.items()}, kind)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


class Row(NamedTuple):
    """One row of a file: its original, and the record or the reason that there is none."""

    original: bytes
    record: bytes | None
    refusal: RecordError | None = None


class MappedFiles:
    """Rows of files, mapped and given an id."""

    def __init__(self, args: argparse.Namespace, mapping: RecordMapping | None) -> None:
        self.kind: str = args.records
        self.mapping = mapping
        self._form: str | None = args.format

    def rows(self, path: Path) -> Iterator[Row]:
        """The rows of one file.

        Raises:
            SettingsError: it cannot be read, or is of another form.
        """
        form = self._form or row_files.form_of(path.name) or "jsonl"
        try:
            with path.open("rb") as file:
                for number, line in enumerate(row_files.rows(file, form), 1):
                    yield self._row(line, f"{path.name}:{number}")
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        except BROKEN as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error

    def _row(self, line: bytes, place: str) -> Row:
        try:
            record = line if self.mapping is None else self.mapping.line(line)
        except RecordError as error:
            return Row(line, None, error)
        if self.kind == "queries" and b'"query_id"' not in record:
            record = _with_id(record, uuid.uuid5(uuid.NAMESPACE_URL, place).hex)
        return Row(line, record)


def _with_id(record: bytes, query_id: str) -> bytes:
    """The record with an id; one that cannot be decoded as it is, to be refused with its reason."""
    try:
        fields = msgspec.json.decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return record
    return (
        msgspec.json.encode(fields | {"query_id": query_id}) if isinstance(fields, dict) else record
    )


def _send(args: argparse.Namespace, reading: MappedFiles) -> int:
    refusals, unmapped = Refusals(), 0
    listener = SendListener(answered=refusals.note, delayed=warn)
    sender = Sender(args.url, remote.bulk_session(args), listener=listener)
    total = sum(path.stat().st_size for path in args.files)
    with byte_bar() as progress:
        task = progress.add_task("Importing", total=total)
        for path in args.files:
            batch: list[bytes] = []
            for row in reading.rows(path):
                progress.advance(task, len(row.original) + 1)
                if row.record is None:
                    unmapped += 1
                    _warn(unmapped, row)
                    continue
                batch.append(row.record)
                if len(batch) == _BATCH or sum(map(len, batch)) > _BATCH_BYTES:
                    sender.post(f"/v1/{args.records}", b"\n".join(batch))
                    batch = []
            if batch:
                sender.post(f"/v1/{args.records}", b"\n".join(batch))
    done = msgspec.structs.replace(sender.done, rejected=sender.done.rejected + unmapped)
    refusals.show_all(done, as_json=args.json)
    _say_missing(reading.mapping)
    return ExitCode.FINDING if done.rejected else ExitCode.OK


def _warn(number: int, row: Row) -> None:
    if number <= _SHOWN and row.refusal is not None:
        warn(f"rejected: {row.refusal.field or 'line'}: {row.refusal}")


def _say_missing(mapping: RecordMapping | None) -> None:
    missing = mapping.take_missing() if mapping else Counter()
    for field, count in missing.most_common():
        warn(f"{field}: not found in {count:,} originals")


class DryRun:
    """The first records beside their originals, and the refusals of all."""

    def __init__(self, reading: MappedFiles, now: float, *, as_json: bool) -> None:
        self._reading = reading
        self._now = now
        self._bounds = Bounds(0.0, now + _AHEAD_S)
        self._as_json = as_json
        self._decode: Decoder[Any] = Decoder(KINDS[reading.kind])
        self._reasons: Counter[str] = Counter()
        self._ignored: dict[str, str | None] = {}
        self._good = 0

    def show(self, files: list[Path]) -> int:
        """Print them; 1 when some would be refused."""
        checked = (self._checked(row) for path in files for row in self._reading.rows(path))
        first = list(itertools.islice(checked, _SHOWN))
        if self._as_json:
            for row in first:
                say(msgspec.json.encode(_content(row)).decode())
        else:
            standard_output(markup=False).print(_side_by_side(first))
        for _ in checked:
            pass
        refused = self._reasons.total()
        warn(f"{self._good + refused:,} rows: {self._good:,} can be sent, {refused:,} are refused")
        for reason, count in self._reasons.most_common():
            warn(f"refused: {count:,} times {reason}")
        for name, near in self._ignored.items():
            warn(f"ignored field: {name}" + (f", did you mean {near}?" if near else ""))
        _say_missing(self._reading.mapping)
        return ExitCode.FINDING if refused else ExitCode.OK

    def _checked(self, row: Row) -> Row:
        """The row, refused where the daemon would refuse it whatever its age."""
        refusal = row.refusal
        if row.record is not None:
            try:
                self._decode(row.record, self._now, self._bounds)
                if len(self._ignored) < _SHOWN:
                    self._ignored |= ignored_fields(row.record, KINDS[self._reading.kind])
            except RecordError as error:
                refusal = error
        if refusal is None:
            self._good += 1
        else:
            self._reasons[f"{refusal.field or 'line'}: {refusal}"[:200]] += 1
        return row._replace(refusal=refusal)


def _content(row: Row) -> dict[str, Any]:
    content: dict[str, Any] = {"original": _decoded(row.original)}
    if row.record is not None:
        content["record"] = _decoded(row.record)
    if row.refusal is not None:
        content |= {"refused": str(row.refusal), "field": row.refusal.field}
    return content


def _side_by_side(rows: list[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    table.add_column("original", ratio=1, overflow="fold")
    table.add_column("record", ratio=1, overflow="fold")
    for row in rows:
        shown = "" if row.record is None else json_text(_short(_decoded(row.record)))
        if row.refusal is not None:
            shown += f"\nrefused: {row.refusal.field or 'line'}: {row.refusal}"
        table.add_row(printable(json_text(_short(_decoded(row.original)))), printable(shown))
    return table


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return line.decode("utf-8", "replace")


def _short(value: Any) -> Any:
    """A value with its texts and lists cut to what a person reads."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else []
        return [_short(inner) for inner in value[:_MOST_ITEMS]] + more
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        return value[:_MOST_TEXT] + "…"
    return value
