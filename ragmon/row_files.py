"""Rows of files of many forms, each as a line of JSON, one at a time.

A file of kilobytes may hold gigabytes once it is unpacked, so what is read at a time has a limit.
Only a JSON array is read as a whole; Parquet needs pyarrow, of the extra ``parquet``.
"""

import base64
import csv
import io
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import IO, Any

import msgspec

from ragmon.errors import SettingsError, extra_hint
from ragmon.files import unpacked
from ragmon.json_scan import count_elements

FORMS = ("jsonl", "json", "csv", "tsv", "parquet")
_BY_ENDING = {f".{form}": form for form in FORMS} | {".ndjson": "jsonl", ".pq": "parquet"}
_PACKED = (".gz", ".zst")
_ROWS = 16  # of Parquet, that are decoded together: they may share one large text
MOST_ROW = 16 << 20
"""Bytes of one row; of a longer one only so many and one more are given, to be refused."""
_MOST_SKIPPED = 1 << 30  # bytes of a longer line after them
_MOST_TABLE_LINE = 2 * MOST_ROW  # characters of the lines of one row
_MOST_ARRAY = 1 << 30  # bytes
_LEAST_ELEMENT = 64  # bytes, on average: each takes some seventy beside its own
_MOST_BATCH = 512 << 20  # bytes of rows of Parquet that are decoded together
_PART = 1 << 20

_encode = msgspec.json.Encoder().encode


def form_of(name: str) -> str:
    """The form of a file by its name, also under .gz or .zst; empty where it does not say."""
    path = PurePath(name)
    inner = PurePath(path.stem) if path.suffix in _PACKED else path
    return _BY_ENDING.get(inner.suffix.lower(), "")


def require_parquet() -> None:
    """Import pyarrow, so that its absence is told before anything is read.

    Raises:
        SettingsError: it is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - optional
    except ImportError:
        raise SettingsError(
            "Parquet needs pyarrow, which is not installed", hint=extra_hint("parquet")
        ) from None


def rows(file: IO[bytes], form: str, most_array: int = _MOST_ARRAY) -> Iterator[bytes]:
    """The rows of a file from its beginning; blank lines of JSON lines are left out.

    Args:
        file: at its beginning; it can be sought in.
        form: one of ``FORMS``.
        most_array: bytes of a JSON array.

    Raises:
        SettingsError: it is not of that form.
        OSError: it cannot be read, as the other exceptions of ``files.BROKEN``.
    """
    if form == "parquet":
        yield from _parquet(file)
        return
    with unpacked(file) as stream:
        if form == "json":
            yield from _array(stream.read(most_array + 1), most_array)
        elif form in ("csv", "tsv"):
            yield from _table(stream, "\t" if form == "tsv" else ",")
        else:
            yield from _lines(stream)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(MOST_ROW + 1):
        if len(line) > MOST_ROW and not line.endswith(b"\n"):
            _skip_line(stream)
            yield line
        elif text := line.strip():
            yield text


def _skip_line(stream: IO[bytes]) -> None:
    skipped = 0
    while (part := stream.readline(_PART)) and not part.endswith(b"\n"):
        skipped += len(part)
        if skipped > _MOST_SKIPPED:
            raise SettingsError("a line has more than a gigabyte", hint="Is it of JSON lines?")


def _array(content: bytes, most_bytes: int) -> Iterator[bytes]:
    most = most_bytes // _LEAST_ELEMENT
    if len(content) > most_bytes or count_elements(content, most) > most:
        raise SettingsError(
            f"an array of more than {most_bytes >> 20} MiB or {most:,} elements",
            hint="Write JSON lines, which may be of any number",
        )
    try:
        for element in msgspec.json.decode(content, type=list[msgspec.Raw]):
            yield bytes(element)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(
            f"not an array of JSON: {error}", hint="Is it of JSON lines? Say so by --format jsonl"
        ) from None


def _table(stream: IO[bytes], delimiter: str) -> Iterator[bytes]:
    """Rows of CSV; an empty cell is not there."""
    csv.field_size_limit(MOST_ROW)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    table_lines = _TableLines(text)
    reader = csv.DictReader(table_lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            table_lines.begin_row()
            if None in row:
                raise SettingsError(
                    f"row at line {reader.line_num} has more cells than the first line has names",
                    hint="Put cells that hold commas, quotes or line breaks in quotes",
                )
            yield _encode({name: cell for name, cell in row.items() if cell})
    except (csv.Error, UnicodeDecodeError) as error:
        raise SettingsError(f"not CSV near line {reader.line_num}: {error}") from None
    finally:
        text.detach()


class _TableLines:
    """Lines of a table; those of one row, which may hold line breaks, have a limit together."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._size = 0  # of the row under way

    def begin_row(self) -> None:
        """Count anew."""
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        """The lines; raises SettingsError where a row is too long."""
        while line := self._text.readline(_MOST_TABLE_LINE + 1):
            self._size += len(line)
            if self._size > _MOST_TABLE_LINE:
                raise SettingsError(
                    f"a row has more than {_MOST_TABLE_LINE >> 20} million characters",
                    hint="Is a quote or a line break missing?",
                )
            yield line


def _parquet(file: IO[bytes]) -> Iterator[bytes]:
    require_parquet()
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - optional

    try:
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS):
            if batch.nbytes > _MOST_BATCH:
                raise SettingsError(f"{_ROWS} rows have more than {_MOST_BATCH >> 20} MiB")
            for at in range(batch.num_rows):
                yield _parquet_row(batch.slice(at, 1))
    except ArrowException as error:
        raise SettingsError(f"not Parquet: {' '.join(str(error).split())[:200]}") from None


def _parquet_row(one: Any) -> bytes:
    try:
        (row,) = one.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        return _unreadable(error)
    return line_of(row)


def line_of(row: Mapping[str, Any]) -> bytes:
    """A row of a table or database as JSON; where it cannot be, words that say why, and no JSON."""
    try:
        return _encode(plain(row))
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        return _unreadable(error)


def _unreadable(error: Exception) -> bytes:
    return f"the row cannot be read: {' '.join(str(error).split())[:200]}".encode()


def plain(value: Any) -> Any:
    """A value of a table or database as JSON has it; times are UTC where they name no zone."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    for kinds, change in _PLAIN:
        if isinstance(value, kinds):
            return change(value)
    return str(value)


_PLAIN: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((str, int, float, type(None)), lambda value: value),
    (datetime, lambda value: value.replace(tzinfo=value.tzinfo or UTC).isoformat()),
    ((date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
    (Decimal, float),
    ((bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode()),
)
