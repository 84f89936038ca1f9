"""Send logged queries from files to a running daemon, at the speed of the log or faster.

Files are JSON lines, may be compressed with gzip or zstd; of the lines that `ragmon export` wrote
the queries are sent. A line without a query_id gets one from its position, so that sending a file
twice counts it once.
"""

import argparse
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import Progress, TaskID

from ragmon.api_schema import IngestAnswer, RejectedRecord
from ragmon.cli import remote
from ragmon.cli.console import say, say_json, warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.input_files import check_files
from ragmon.cli.progress import byte_bar
from ragmon.cli.results import SentRecords
from ragmon.cli.sender import Delivered, Sender, SendListener
from ragmon.clock import Clock, SystemClock
from ragmon.errors import SettingsError
from ragmon.files import unpacked

_BATCH = 200
_EXPORTED = b'{"record":{'
"""Beginning of a line of ``ragmon export``: what is known of a query, with the query itself."""

_CONNECTIONS = 4
_SHOWN_ERRORS = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="JSON lines, may be compressed with gzip or zstd",
    )
    remote.arguments(parser, "--to")
    parser.add_argument(
        "--records",
        choices=("queries", "feedback", "labels"),
        default="queries",
        help="kind of the records (default queries)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        metavar="N",
        help="N times the speed of the log (default: as fast as possible)",
    )
    parser.add_argument(
        "--until-now",
        action="store_true",
        help="shift the timestamps so that the newest of the first file is now",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Send every file; 1 when records were rejected."""
    if args.speed is not None and args.speed <= 0:
        raise SettingsError("--speed must be above 0", hint="Omit it for full speed")
    check_files(args.files)
    refusals = Refusals()
    listener = SendListener(answered=refusals.note, delayed=_print_trouble)
    delivery = Sender(args.url, remote.bulk_session(args), listener=listener)
    total = sum(path.stat().st_size for path in args.files)
    with byte_bar() as progress:
        replay = Replay(args, delivery, progress, progress.add_task("Replaying", total=total))
        for path in args.files:
            replay.send(path)
    refusals.show_all(delivery.done, as_json=args.json)
    return ExitCode.FINDING if delivery.done.rejected else ExitCode.OK


def _print_trouble(trouble: str) -> None:
    warn(trouble)


class Refusals:
    """The first refusals, for the end."""

    def __init__(self) -> None:
        self._first: list[RejectedRecord] = []
        self._ignored: dict[str, str | None] = {}

    def note(self, answer: IngestAnswer) -> None:
        """Remember the first rejections and every ignored field."""
        self._first += answer.rejected[: _SHOWN_ERRORS - len(self._first)]
        self._ignored |= answer.ignored_fields or {}

    def show_all(self, done: Delivered, *, as_json: bool) -> None:
        """Print the counts, and the first refusals."""
        if as_json:
            say_json(
                SentRecords(
                    accepted=done.accepted,
                    duplicates=done.duplicates,
                    rejected=done.rejected,
                    first_rejected=self._first,
                    ignored_fields=self._ignored,
                )
            )
            return
        counts = f"{done.accepted:,} accepted, {done.duplicates:,} duplicates"
        say(f"{counts}, {done.rejected:,} rejected")
        for record in self._first:
            field = record.field or "line"
            warn(f"rejected: {field}: {record.error}; {record.remedy}")
        for name, near in self._ignored.items():
            remedy = f", did you mean {near}?" if near else ""
            warn(f"ignored field: {name}{remedy}")


class Replay:
    """Batches of lines over a few connections, as fast as asked for."""

    def __init__(
        self, args: argparse.Namespace, delivery: Sender, progress: Progress, task: TaskID
    ) -> None:
        self._speed: float | None = args.speed
        self._shifts: bool = args.until_now
        self._path = f"/v1/{args.records}"
        self._queries: bool = args.records == "queries"
        self._delivery = delivery
        self._progress = progress
        self._task = task
        self._clock: Clock = SystemClock()
        self._shift_s: float | None = None
        self._began: tuple[float, float] | None = None  # (monotonic, timestamp) of the first line

    def send(self, path: Path) -> None:
        """One file, in order of its lines; batches overlap only at full speed."""
        if self._shifts and self._shift_s is None:
            self._shift_s = self._clock.now() - _last_timestamp(path)
        connections = 1 if self._speed else _CONNECTIONS
        with ThreadPoolExecutor(connections) as pool:
            waiting: list[Future[None]] = []
            try:
                for batch in self._batches(path):
                    waiting.append(pool.submit(self._delivery.post, self._path, b"\n".join(batch)))
                    while len(waiting) > 2 * connections or (waiting and waiting[0].done()):
                        waiting.pop(0).result()
                for future in waiting:
                    future.result()
            except BaseException:
                self._delivery.stop.set()  # or the pool would retry for minutes after Ctrl-C
                raise

    def _batches(self, path: Path) -> Iterator[list[bytes]]:
        most = 1 if self._speed else _BATCH
        batch: list[bytes] = []
        with path.open("rb") as raw, unpacked(raw) as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    batch.append(self._prepare(line.rstrip(b"\r\n"), path, number))
                if len(batch) >= most:
                    self._progress.update(self._task, completed=raw.tell())
                    yield batch
                    batch = []
            self._progress.update(self._task, completed=raw.tell())
        if batch:
            yield batch

    def _prepare(self, line: bytes, path: Path, number: int) -> bytes:
        """The line as it is sent; a broken one is sent as it is, so that ragmon answers why."""
        named = not self._queries or b'"query_id"' in line
        is_exported = self._queries and line.startswith(_EXPORTED)
        if named and not is_exported and not self._shifts and not self._speed:
            return line
        record = _record(line)
        if record is None:
            return line
        if not record.get("query_id") and self._queries:
            record["query_id"] = uuid.uuid5(uuid.NAMESPACE_URL, f"{path.name}:{number}").hex
        timestamp = _timestamp(record)
        if timestamp is not None:
            self._pace(timestamp)
            if self._shift_s is not None:
                record["timestamp"] = timestamp + self._shift_s
        return msgspec.json.encode(record)

    def _pace(self, timestamp: float) -> None:
        if not self._speed:
            return
        if self._began is None:
            self._began = (self._clock.monotonic(), timestamp)
        due = self._began[0] + (timestamp - self._began[1]) / self._speed
        wait = due - self._clock.monotonic()
        if wait > 0:
            self._clock.sleep(wait)


def _record(line: bytes) -> dict[str, Any] | None:
    """The record of a line, also of one that was exported; None where it is none."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    inner = record.get("record") if line.startswith(_EXPORTED) else None
    return inner if isinstance(inner, dict) else record


def _last_timestamp(path: Path) -> float:
    last = None
    with path.open("rb") as raw, unpacked(raw) as stream:
        for line in stream:
            record = _record(line)
            moment = None if record is None else _timestamp(record)
            last = moment if last is None or (moment is not None and moment > last) else last
    if last is None:
        raise SettingsError(f"{path} has no timestamps", hint="Omit --until-now")
    return last


def _timestamp(record: dict[str, Any]) -> float | None:
    value = record.get("timestamp")
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
