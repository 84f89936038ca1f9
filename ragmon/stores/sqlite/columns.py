"""Types of the columns: a damaged page, or a damaged schema, yields any type in any of them.

SQLite holds the declared types only for what it writes. What is read is therefore checked before it
is computed with, so that damage is told as such and where it is.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType, NoneType
from typing import Any

_Kinds = type | tuple[type, ...]

_NAMES: Mapping[type, str] = MappingProxyType(
    {
        int: "number first_sequence records sequence query_hash run first_hash tier bucket attempts"
        " deaths spans has_entry version promoted rowid closed parts size layout",
        float: "first_timestamp last_timestamp received at due buried_at since ends_at created_at"
        " samples",
        str: "name kind source sink event_id fingerprint error reason stage subject id episode"
        " incident change created_by provenance",
        bytes: "hashes observations body entries old new position trace trace_id queries",
    }
)
COLUMNS: Mapping[str, _Kinds] = MappingProxyType(
    {name: kind for kind, names in _NAMES.items() for name in names.split()}
    | {
        "min(at)": (float, NoneType),
        "min(due)": (float, NoneType),
        "min(first_sequence)": (int, NoneType),
        "length(body)": (int, NoneType),
    }
)
"""Types of columns as they are read, by name; one name has one type in all tables."""


def checked(cursor: sqlite3.Cursor) -> list[Any]:
    """Every row of a query, each value of the type of its column.

    Raises:
        TypeError: one is not.
    """
    rows = cursor.fetchall()
    names = [column[0] for column in cursor.description or ()]
    kinds = [COLUMNS.get(name, object) for name in names]
    for row in rows:
        for value, kind, name in zip(row, kinds, names, strict=True):
            if not isinstance(value, kind):
                raise TypeError(f"column {name} holds {type(value).__name__}")
    return rows


def checked_row(cursor: sqlite3.Cursor) -> Any:
    """The first row of a query, checked likewise; None without one.

    Raises:
        TypeError: a value is not of the type of its column.
    """
    rows = checked(cursor)
    return rows[0] if rows else None


def ascending(keys: Iterable[tuple[int, ...]], after: int) -> list[int]:
    """The first column of rows, which a query asked for in order and behind a number.

    A damaged table answers with others: whoever goes on behind the last would go round for ever.

    Raises:
        ValueError: one is not larger than the one before it.
    """
    numbers = [row[0] for row in keys]
    for before, number in pairwise((after, *numbers)):
        if number <= before:
            raise ValueError(f"the table is out of order: {number} behind {before}")
    return numbers
