"""Stored form of a query's changes: what is known of it now, and which signals they moved.

The moved signals stand beside, so that a search over many blocks need not open every record.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import xxhash
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.records import LATEST, Amendments

Row = NDArray[np.float64]


class Amended(Struct, array_like=True, frozen=True):
    """One amended query, as stored."""

    known: Amendments
    layout: int  # hash of the columns that ``at`` counts in
    at: bytes  # uint16 positions of the observations that differ from those in the block
    values: bytes  # float64


class Moved(Struct, array_like=True, frozen=True):
    """An amended query of which the signals alone were read."""

    known: msgspec.Raw
    layout: int
    at: bytes
    values: bytes


_REVISION = b"revision"  # the name of the field, which most amendments do not hold
_decode = msgspec.msgpack.Decoder(Amended).decode
decode_moved = msgspec.msgpack.Decoder(Moved).decode
"""Read the signals of what ``encode`` wrote, for a tenth of what ``decode`` costs."""


def layout_of(columns: tuple[str, ...]) -> int:
    """Tells whether positions still mean the same columns."""
    return xxhash.xxh3_64_intdigest("\0".join(columns).encode()) >> 1


def encode(known: Amendments, layout: int, original: Row, row: Row) -> bytes:
    """An amended query whose observations were ``original`` and are ``row``."""
    moved = ~((original == row) | (np.isnan(original) & np.isnan(row)))
    at = np.flatnonzero(moved).astype(np.uint16)
    return msgspec.msgpack.encode(Amended(known, layout, at.tobytes(), row[moved].tobytes()))


def decode(body: bytes) -> Amended:
    """Read what ``encode`` wrote."""
    try:
        return _decode(body)
    except msgspec.ValidationError:
        return _decode(mended(body))


def rewrite(body: bytes, change: Callable[[Amendments], Amendments]) -> bytes:
    """A stored change with something else known of the query, which moves the same signals."""
    amended = decode(body)
    return msgspec.msgpack.encode(replace(amended, known=change(amended.known)))


def revised(body: bytes) -> bytes | None:
    """The record of an amended query that was mapped again; None where the stored one stands."""
    if _REVISION not in body:
        return None
    revision = decode(body).known.revision
    return None if revision is None else msgspec.msgpack.encode(revision)


def mended(body: bytes) -> bytes:
    """Stored feedback, labels and verdicts with times that a record may have.

    An older release stored times before 1970 and after the year 9999, which nothing can read.
    """
    return msgspec.msgpack.encode(_mend(msgspec.msgpack.decode(body)))


def _mend(value: Any) -> Any:
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _mended_time(item) if key == "timestamp" else _mend(item)
        for key, item in value.items()
    }


def _mended_time(seconds: float) -> float:
    return seconds if 0.0 <= seconds <= LATEST else 0.0  # any readable one is newer


def apply(amended: Moved, row: Row, places: NDArray[np.intp]) -> None:
    """Move the observations of a block, in place, to what they are now.

    Args:
        amended: of one record.
        row: its observations, of some columns.
        places: of every column in the row; -1 for those that the row leaves out.

    Raises:
        ValueError: the amendment is damaged.
    """
    at = np.frombuffer(amended.at, dtype=np.uint16)
    if at.size and at.max() >= len(places):
        raise ValueError(f"an amendment of column {at.max()}, of {len(places)}")
    to, values = places[at], np.frombuffer(amended.values)
    row[to[to >= 0]] = values[to >= 0]


def apply_all(
    changes: Sequence[tuple[int, Moved]], rows: NDArray[np.float64], places: NDArray[np.intp]
) -> None:
    """``apply`` for many records of a block, for a tenth of the time.

    Args:
        changes: row and amendment of each record, no row twice.
        rows: observations, of some columns; shape (records, columns).
        places: of every column in a row; -1 for those that the rows leave out.

    Raises:
        ValueError: an amendment is damaged.
    """
    if not changes:
        return
    lengths = [len(moved.at) // 2 for _, moved in changes]
    if any(len(moved.values) != 8 * n for n, (_, moved) in zip(lengths, changes, strict=True)):
        raise ValueError("an amendment has not a value for each column")
    at = np.frombuffer(b"".join([moved.at for _, moved in changes]), dtype=np.uint16)
    if at.size and at.max() >= len(places):
        raise ValueError(f"an amendment of column {at.max()}, of {len(places)}")
    values = np.frombuffer(b"".join([moved.values for _, moved in changes]))
    to, row = places[at], np.repeat([row for row, _ in changes], lengths)
    kept = to >= 0
    rows[row[kept], to[kept]] = values[kept]
