"""Tables of block summaries: written beside the blocks, deleted with what they sum up.

A row names the number of records and the stored size of its block, so that one that a release
without these tables left behind is not believed.
"""

import sqlite3
from collections.abc import Sequence

from ragmon.stores.sealing import seal
from ragmon.stores.sqlite.database import Database
from ragmon.stores.summaries import DueSummary, SummaryRow

TABLES = ("block_facts", "block_keys")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS block_facts (
    first_sequence INTEGER PRIMARY KEY, records INTEGER, size INTEGER, layout INTEGER, body BLOB);
CREATE TABLE IF NOT EXISTS block_keys (
    first_sequence INTEGER PRIMARY KEY, records INTEGER, size INTEGER, body BLOB)"""
_PUT_FACTS = (
    "REPLACE INTO block_facts SELECT first_sequence, records, length(body), ?, ? FROM blocks"
    " WHERE first_sequence = ? AND records = ?"
)
_PUT_KEYS = (
    "REPLACE INTO block_keys SELECT first_sequence, records, length(body), ? FROM blocks"
    " WHERE first_sequence = ? AND records = ?"
)
_REVISION = b"revision"  # the name of the field of an amendment that changes texts


def delete_summaries(db: sqlite3.Connection, first: int, last: int) -> None:
    """Delete the summaries of the blocks that begin at ``first`` to ``last``."""
    for table in TABLES:
        sql = f"DELETE FROM {table} WHERE first_sequence BETWEEN ? AND ?"  # noqa: S608 - ours
        db.execute(sql, (first, last))


class SqliteSummaries:
    """See ``Summaries`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._watched: dict[int, int] = {}  # first sequence number to records
        with database.transaction() as db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
        self._end = 0  # of the blocks that have facts, or are watched
        with database.damage.tolerated("index", "block_facts"):
            self._end = database.number("SELECT max(first_sequence + records) FROM block_facts")

    def begin(self, blocks: Sequence[DueSummary]) -> None:
        """Watch these blocks, and no others."""
        self._watched = {block.first_sequence: block.records for block in blocks}
        self._end = max(self._end, *(block.first_sequence + block.records for block in blocks), 0)

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Keep the summaries of blocks that did not change since ``begin``; returns how many."""
        kept = [row for row in rows if row.first_sequence in self._watched]
        with self._db.unsynced_transaction() as db:  # what is lost is made again
            for first, layout, facts, keys in kept:
                records = self._watched[first]
                body = seal(self._db.zip(facts), "block_facts", first)
                db.execute(_PUT_FACTS, (layout, body, first, records))
                if keys is not None:
                    db.execute(_PUT_KEYS, (seal(keys, "block_keys", first), first, records))
        self._watched = {}
        return len(kept)

    def amended(self, db: sqlite3.Connection, changed: Sequence[tuple[int, bytes]]) -> None:
        """Delete what amendments make wrong; within the transaction of the commit."""
        if all(sequence >= self._end for sequence, _ in changed):
            return  # as almost always: the newest blocks have no summaries yet
        done = -1  # end of the block seen to
        for sequence, body in sorted(changed):
            if _REVISION in body:
                self._delete(db, "block_keys", sequence)
            if done <= sequence < self._end:
                done = max(self._delete(db, "block_facts", sequence), sequence + 1)
        for first, records in [*self._watched.items()]:
            if any(first <= sequence < first + records for sequence, _ in changed):
                del self._watched[first]

    def let_go(self) -> None:
        """Watch nothing, because records were erased."""
        self._watched = {}

    @staticmethod
    def _delete(db: sqlite3.Connection, table: str, sequence: int) -> int:
        """Delete the row of the block that holds a record; returns where that block ends."""
        sql = (
            f"SELECT first_sequence, records FROM {table} WHERE first_sequence <= ?"  # noqa: S608 - ours
            " ORDER BY first_sequence DESC LIMIT 1"
        )
        row = db.execute(sql, (sequence,)).fetchone()
        if row is None or not isinstance(row[1], int) or sequence >= row[0] + row[1]:
            return 0
        db.execute(f"DELETE FROM {table} WHERE first_sequence = ?", (row[0],))  # noqa: S608 - ours
        return int(row[0] + row[1])
