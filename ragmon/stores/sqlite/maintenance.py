"""Keeping the file small: expiry by age and size, and joining the blocks of quiet hours.

Every call is one short step, so that commits wait little.
"""

import json

import numpy as np
from numpy.typing import NDArray

from ragmon.stores import joining
from ragmon.stores.joining import StoredRow, opened_bytes
from ragmon.stores.packing import BlockSpan, block_row
from ragmon.stores.sqlite.columns import ascending
from ragmon.stores.sqlite.database import Database, decoded
from ragmon.stores.sqlite.summaries import delete_summaries

_EXPIRE_BLOCKS = 4
_VACUUM_PAGES = 500
UNDELETABLE = "undeletable"


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
    rows = _expired(database, before, below)
    if not rows and max_bytes is not None and database.used_bytes() > max_bytes:
        rows = _expired(database, float("inf"), below)
    deleted = 0
    for first, records in rows:
        with database.damage.tolerated(UNDELETABLE, first):
            with database.transaction() as db:
                db.execute("DELETE FROM blocks WHERE first_sequence = ?", (first,))
                delete_summaries(db, first, first)
                db.execute(
                    "DELETE FROM amendments WHERE sequence >= ? AND sequence < ?",
                    (first, first + records),
                )
            deleted += records
    with database.damage.tolerated("index", "free pages"):
        database.shrink(_VACUUM_PAGES)
    return deleted


def _expired(database: Database, before: float, below: int) -> list[tuple[int, int]]:
    """The oldest blocks without a newer record, as first number and number of records.

    Some that are damaged cannot be deleted; they are left where they are.
    """
    left = [int(row.name) for row in database.damage.rows() if row.what == UNDELETABLE]
    sql = (
        "SELECT first_sequence, records FROM blocks WHERE last_timestamp < ?"
        " AND first_sequence < ? AND first_sequence NOT IN (SELECT value FROM json_each(?))"
        " ORDER BY last_timestamp LIMIT ?"
    )
    with database.damage.tolerated("index", "blocks_by_time"):
        return database.rows(sql, before, below, json.dumps(left), _EXPIRE_BLOCKS)
    return []


def compact(database: Database, start: int, below: int) -> tuple[int, int]:
    """Join one stretch of neighbouring small blocks.

    Args:
        database: where.
        start: sequence number to look from.
        below: blocks from here on are left alone.

    Returns:
        How many blocks were joined, and where to look next; that is ``below`` at the end.
    """
    sizes = _small_blocks(database, start, below)
    stretch = joining.neighbours(sizes)
    if len(stretch) > 1:
        first, last = int(stretch[0, 0]), int(stretch[-1, 0])
        with database.damage.tolerated("block", f"{first} to {last}"):
            _join(database, first, last)
    at_the_end = len(stretch) == len(sizes) < joining.MOST_BLOCKS
    return len(stretch), below if at_the_end else int(stretch[-1, 0]) + 1


def _small_blocks(database: Database, start: int, below: int) -> NDArray[np.int64]:
    """Rows (first, records, opened bytes) of what could be joined; none of a damaged table."""
    rows: list[tuple[int, int, int]] = []
    with database.damage.tolerated("index", "blocks"), decoded(database.path):
        stored = database.rows(
            "SELECT first_sequence, records, coalesce(CAST(substr(body, 1, ?) AS BLOB), x'')"
            " AS body FROM blocks"
            " WHERE first_sequence >= ? AND first_sequence < ? AND records < ?"
            " ORDER BY first_sequence LIMIT ?",
            joining.HEAD_BYTES,
            start,
            below,
            joining.RECORDS // 2,
            joining.MOST_BLOCKS,
        )
        ascending(stored, start - 1)
        rows = [(first, records, opened_bytes(head)) for first, records, head in stored]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _join(database: Database, first: int, last: int) -> None:
    rows = database.rows(
        "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes, observations,"
        " body FROM blocks WHERE first_sequence BETWEEN ? AND ? ORDER BY first_sequence",
        first,
        last,
    )
    with decoded(database.path):
        block = joining.joined([StoredRow(BlockSpan(*row[:4]), *row[4:]) for row in rows])
    observations, body = database.zip(block.observations), database.zip(block.body)
    with database.transaction() as db:
        db.execute("DELETE FROM blocks WHERE first_sequence BETWEEN ? AND ?", (first, last))
        delete_summaries(db, first, last)
        db.execute(
            "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
            block_row(block.span, block.hashes, observations, body),
        )
