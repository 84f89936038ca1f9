"""Rows of files of many forms, each as a line of JSON, one at a time.

Only a JSON array is read as a whole; Parquet needs pyarrow, of the extra ``parquet``.
"""

import base64
import csv
import io
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import IO, Any

import msgspec

from ragmon.errors import SettingsError
from ragmon.files import unpacked

FORMS = ("jsonl", "json", "csv", "tsv", "parquet")
_BY_ENDING = {f".{form}": form for form in FORMS} | {".ndjson": "jsonl", ".pq": "parquet"}
_PACKED = (".gz", ".zst")
_ROWS = 500  # of Parquet, that are decoded together
_MOST_CELL = 16 << 20  # characters

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
            "Parquet needs pyarrow, which is not installed", hint="pip install 'ragmon[parquet]'"
        ) from None


def rows(file: IO[bytes], form: str) -> Iterator[bytes]:
    """The rows of a file from its beginning; blank lines of JSON lines are left out.

    Args:
        file: at its beginning; it can be sought in.
        form: one of ``FORMS``.

    Raises:
        SettingsError: it is not of that form.
        OSError: it cannot be read, as the other exceptions of ``files.BROKEN``.
    """
    if form == "parquet":
        yield from _parquet(file)
        return
    with unpacked(file) as stream:
        if form == "json":
            yield from _array(stream.read())
        elif form in ("csv", "tsv"):
            yield from _table(stream, "\t" if form == "tsv" else ",")
        else:
            for line in stream:
                if text := line.strip():
                    yield text


def _array(content: bytes) -> Iterator[bytes]:
    try:
        for element in msgspec.json.decode(content, type=list[msgspec.Raw]):
            yield bytes(element)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(
            f"not an array of JSON: {error}", hint="Is it of JSON lines? Say so by --format jsonl"
        ) from None


def _table(stream: IO[bytes], delimiter: str) -> Iterator[bytes]:
    """Rows of CSV; an empty cell is not there."""
    csv.field_size_limit(_MOST_CELL)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.DictReader(text, delimiter=delimiter, strict=True)
    try:
        for row in reader:
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


def _parquet(file: IO[bytes]) -> Iterator[bytes]:
    require_parquet()
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - optional

    try:
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS):
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                yield _encode(plain(row))
    except ArrowException as error:
        raise SettingsError(f"not Parquet: {' '.join(str(error).split())[:200]}") from None


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
