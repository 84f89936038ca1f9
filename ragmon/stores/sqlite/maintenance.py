"""Keeping the file small: expiry by age and size, and joining the blocks of quiet hours.

Every call is one short step, so that commits wait little.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon.stores.sqlite.database import Database, decoded, unzip
from ragmon.stores.sqlite.reader import unpack_records
from ragmon.windows.observations import join

_EXPIRE_BLOCKS = 4
_VACUUM_PAGES = 500
_COMPACT_RECORDS = 512
_COMPACT_BYTES = 1 << 20  # compressed
_COMPACT_BLOCKS = 256


def expire(database: Database, before: float, max_bytes: int | None, below: int) -> int:
    """Delete up to four blocks that are too old, or the oldest while the file is too big.

    Args:
        database: where.
        before: unix seconds; blocks without a newer record are too old.
        max_bytes: what the file may hold, if that is limited.
        below: blocks from this sequence number on are left alone.

    Returns:
        How many records went.
    """
    expired = (
        "SELECT first_sequence, records FROM blocks WHERE last_timestamp < ?"
        " AND first_sequence < ? ORDER BY last_timestamp LIMIT ?"
    )
    rows = database.rows(expired, before, below, _EXPIRE_BLOCKS)
    if not rows and max_bytes is not None and database.used_bytes() > max_bytes:
        rows = database.rows(expired, float("inf"), below, _EXPIRE_BLOCKS)
    if rows:
        with database.transaction() as db:
            for first, records in rows:
                db.execute("DELETE FROM blocks WHERE first_sequence = ?", (first,))
                db.execute(
                    "DELETE FROM amendments WHERE sequence >= ? AND sequence < ?",
                    (first, first + records),
                )
    database.shrink(_VACUUM_PAGES)
    return sum(records for _, records in rows)


def compact(database: Database, start: int, below: int) -> tuple[int, int]:
    """Join one stretch of neighbouring small blocks.

    Args:
        database: where.
        start: sequence number to look from.
        below: blocks from here on are left alone.

    Returns:
        How many blocks were joined, and where to look next; that is ``below`` at the end.
    """
    sizes = np.array(
        database.rows(
            "SELECT first_sequence, records, length(body) FROM blocks WHERE first_sequence >= ?"
            " AND first_sequence < ? AND records < ? ORDER BY first_sequence LIMIT ?",
            start,
            below,
            _COMPACT_RECORDS // 2,
            _COMPACT_BLOCKS,
        ),
        dtype=np.int64,
    ).reshape(-1, 3)
    stretch = _neighbours(sizes)
    if len(stretch) > 1:
        _join(database, int(stretch[0, 0]), int(stretch[-1, 0]))
    at_the_end = len(stretch) == len(sizes) < _COMPACT_BLOCKS
    return len(stretch), below if at_the_end else int(stretch[-1, 0]) + 1


def _neighbours(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows (first, records, bytes) from the start that touch and make at most one block."""
    follows = np.r_[True, sizes[1:, 0] == sizes[:-1, 0] + sizes[:-1, 1]]
    fits = np.cumsum(sizes[:, 1]) <= 2 * _COMPACT_RECORDS
    light = np.cumsum(sizes[:, 2]) <= _COMPACT_BYTES
    good = follows & fits & light
    return sizes[: len(sizes) if good.all() else max(1, int(np.argmin(good)))]


def _join(database: Database, first: int, last: int) -> None:
    rows = database.rows(
        "SELECT records, first_timestamp, last_timestamp, hashes, observations, body FROM blocks"
        " WHERE first_sequence BETWEEN ? AND ? ORDER BY first_sequence",
        first,
        last,
    )
    records: list[msgspec.Raw] = []
    with decoded(database.path):
        for row in rows:
            records += unpack_records(row[5])
        joined = join([unzip(row[4]) for row in rows])
    with database.transaction() as db:
        db.execute("DELETE FROM blocks WHERE first_sequence BETWEEN ? AND ?", (first, last))
        db.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                first,
                len(records),
                min(row[1] for row in rows),
                max(row[2] for row in rows),
                b"".join(row[3] for row in rows),
                database.zip(joined),
                database.zip(msgspec.msgpack.encode(records)),
            ),
        )
