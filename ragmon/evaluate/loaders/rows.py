"""JSON Lines, JSON and CSV files as numbered rows of plain data."""

import ast
import csv
import gzip
import tokenize
import zlib
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from ragmon.evaluate.errors import DataError

Row = dict[str, Any]

_ONE_A_LINE = 'Write an object for each case, in JSON Lines one a line: {"query": …}'
_QUOTE = "Put cells that hold commas, quotes or line breaks in quotes"


def ending(path: Path) -> str:
    """The ending that says what a file holds; of ``x.csv.gz`` that is ``.csv``."""
    inner = Path(path.stem).suffix if path.suffix == ".gz" else ""
    return inner or path.suffix


def rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(line, row) of a JSON Lines, JSON or CSV file; of a JSON array the number of the element.

    Raises:
        DataError: unreadable, malformed, or of a kind that is not known.
    """
    kind = ending(path)
    if kind in (".csv", ".tsv"):
        return _csv_rows(path)
    if kind in (".jsonl", ".ndjson"):
        return _json_lines(path)
    if kind == ".json":
        return _json_array(path, read_json(path))
    raise DataError(
        f"has an unknown ending {kind!r}",
        path=path,
        hint="Use .jsonl, .json, .csv, .tsv, .qrels, .run (also with .gz) or a BEIR folder",
    )


def read_text(path: Path) -> str:
    """A whole UTF-8 file, unpacked where it ends in ``.gz``.

    Raises:
        DataError: it is not there, not UTF-8 or not gzip.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"is not gzip: {error}", path=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 at byte {error.start}"
        raise DataError(message, path=path, hint="Save it as UTF-8") from error


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
                raise DataError(
                    f"is not JSON: {error}", path=path, line=line, hint=_ONE_A_LINE
                ) from error
            yield line, _object(row, path, line)


def _json_array(path: Path, content: Any) -> Iterator[tuple[int, Row]]:
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else [content]
    for number, row in enumerate(content if isinstance(content, list) else [content], 1):
        yield number, _object(row, path, number)


def _object(row: Any, path: Path, line: int) -> Row:
    if not isinstance(row, dict):
        message = f"expected an object, got {type(row).__name__}"
        raise DataError(message, path=path, line=line, hint=_ONE_A_LINE)
    return row


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    lines = read_text(path).splitlines(keepends=True)
    reader = csv.DictReader(lines, delimiter="\t" if ending(path) == ".tsv" else ",", strict=True)
    try:
        for row in reader:
            if None in row:
                message = "has more cells than the header"
                raise DataError(message, path=path, line=reader.line_num, hint=_QUOTE)
            yield reader.line_num, {key: cell(text) for key, text in row.items() if text}
    except csv.Error as error:
        message = f"is not CSV: {error}"
        raise DataError(message, path=path, line=reader.line_num, hint=_QUOTE) from error


def cell(text: str) -> Any:
    """A CSV cell: a list or an object, in JSON or as pandas writes it, else text."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _literal(text)


def _literal(text: str) -> Any:
    """The value of a Python literal; the text itself where it is none."""
    try:
        kinds = [
            token.type
            for token in tokenize.generate_tokens(StringIO(text).readline)
            if token.type != tokenize.NL
        ]
        # numpy leaves the commas out, and Python would make one string of two passages.
        if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
            return text
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, tokenize.TokenError, RecursionError):
        return text
