"""Files as numbered rows of plain data."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ragmon.evaluate.errors import DataError

Row = dict[str, Any]


def rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(line, row) of a JSON Lines, JSON or CSV file; of a JSON array the number of the element.

    Raises:
        DataError: unreadable, malformed, or of a kind that is not known.
    """
    if path.suffix in (".csv", ".tsv"):
        return _csv_rows(path)
    if path.suffix in (".jsonl", ".ndjson"):
        return _json_lines(path)
    if path.suffix == ".json":
        return _json_array(path, read_json(path))
    raise DataError(
        f"has an unknown ending {path.suffix!r}",
        path=path,
        hint="Use .jsonl, .json, .csv, .tsv, .qrels, .run or a BEIR folder",
    )


def read_text(path: Path) -> str:
    """A whole UTF-8 file.

    Raises:
        DataError: it is not there, or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 at byte {error.start}", path=path) from error


def read_json(path: Path) -> Any:
    """A whole JSON file.

    Raises:
        DataError: unreadable or malformed.
    """
    try:
        return msgspec.json.decode(read_text(path))
    except msgspec.DecodeError as error:
        raise DataError(f"is not JSON: {error}", path=path) from error


def _json_lines(path: Path) -> Iterator[tuple[int, Row]]:
    decode = msgspec.json.Decoder().decode
    for line, text in enumerate(read_text(path).split("\n"), 1):
        if text.strip():
            try:
                row = decode(text)
            except msgspec.DecodeError as error:
                raise DataError(f"is not JSON: {error}", path=path, line=line) from error
            yield line, _object(row, path, line)


def _json_array(path: Path, held: Any) -> Iterator[tuple[int, Row]]:
    if isinstance(held, dict):
        inside = [value for value in held.values() if isinstance(value, list)]
        held = inside[0] if len(inside) == 1 else [held]
    for number, row in enumerate(held if isinstance(held, list) else [held], 1):
        yield number, _object(row, path, number)


def _object(row: Any, path: Path, line: int) -> Row:
    if not isinstance(row, dict):
        raise DataError(f"is a {type(row).__name__}, not an object", path=path, line=line)
    return row


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    lines = read_text(path).splitlines(keepends=True)
    reader = csv.DictReader(lines, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
    try:
        for row in reader:
            if None in row:
                raise DataError("has more cells than the header", path=path, line=reader.line_num)
            yield reader.line_num, {key: cell(text) for key, text in row.items() if text}
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", path=path, line=reader.line_num) from error


def cell(text: str) -> Any:
    """A CSV cell: JSON where it is a list or an object, else text."""
    if text[:1] in "[{":
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text
