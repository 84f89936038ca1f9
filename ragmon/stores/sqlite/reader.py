"""Reading beside the writer: SQLite's write-ahead log gives every reader its own snapshot."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

import msgspec
import numpy as np

from ragmon.errors import StoreError
from ragmon.stores import Block, Hashes, StoredBlock
from ragmon.stores.sqlite.database import decoded, translated, unzip


class _Rows(Protocol):
    def execute(self, sql: str, values: tuple[object, ...] = ..., /) -> sqlite3.Cursor: ...


def read_block(db: _Rows, sequence: int) -> tuple[int, list[bytes]] | None:
    """The block that holds a record: its first sequence number and its records.

    Raises:
        ValueError: the block is damaged.
    """
    row = db.execute(
        "SELECT first_sequence, records, body FROM blocks WHERE first_sequence <= ?"
        " ORDER BY first_sequence DESC LIMIT 1",
        (sequence,),
    ).fetchone()
    if row is None or sequence >= row[0] + row[1]:
        return None
    records = unpack_records(row[2])
    if len(records) != row[1]:
        raise ValueError(f"block {row[0]} holds {len(records)} records, not {row[1]}")
    return row[0], [bytes(each) for each in records]


def unpack_records(body: bytes) -> list[msgspec.Raw]:
    """The encoded records of a stored block; each keeps all of them in memory.

    Raises:
        msgspec.MsgspecError: the block is damaged.
        zstandard.ZstdError: likewise.
    """
    return msgspec.msgpack.decode(unzip(body), type=list[msgspec.Raw])


class SqliteReader:
    """A read-only connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with translated(path):
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, the one with the newest record first.

        Until the last of them is done with, the reader sees one moment.
        """
        with decoded(self._path), self._moment():
            rows = self._db.execute(
                "SELECT first_sequence, records, last_timestamp, observations FROM blocks"
                " WHERE last_timestamp >= ? AND first_timestamp <= ? ORDER BY last_timestamp DESC",
                (since, until),
            )
            for first, records, newest, observations in rows:
                amended = self._db.execute(
                    "SELECT sequence, body FROM amendments WHERE sequence >= ? AND sequence < ?",
                    (first, first + records),
                )
                yield Block(first, newest, unzip(observations), dict(amended))

    def records(self, first_sequence: int) -> list[bytes]:
        """The records of one block; none when it was deleted meanwhile."""
        with decoded(self._path):
            block = read_block(self._db, first_sequence)
        # It may also have been joined to its neighbours: then some of theirs follow.
        return [] if block is None else block[1][first_sequence - block[0] :]

    def record(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """One record with its amendments."""
        with decoded(self._path):
            block = read_block(self._db, sequence)
            amended = self._db.execute(
                "SELECT body FROM amendments WHERE sequence = ?", (sequence,)
            ).fetchone()
        if block is None:
            return None
        return block[1][sequence - block[0]], amended[0] if amended else None

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        with decoded(self._path):
            row = self._db.execute(
                "SELECT first_sequence, hashes FROM blocks WHERE first_sequence + records > ?"
                " AND first_sequence >= coalesce((SELECT max(first_sequence) FROM blocks"
                " WHERE first_sequence <= ?), 0) ORDER BY first_sequence LIMIT 1",
                (sequence, sequence),
            ).fetchone()
        return None if row is None else (row[0], np.frombuffer(row[1], dtype=np.uint64))

    def stored_block(self, sequence: int) -> StoredBlock | None:
        """The block with that record, or the next one, as it is stored."""
        with decoded(self._path):
            row = self._db.execute(
                "SELECT first_sequence, hashes, observations, body FROM blocks"
                " WHERE first_sequence + records > ? AND first_sequence >= coalesce("
                "(SELECT max(first_sequence) FROM blocks WHERE first_sequence <= ?), 0)"
                " ORDER BY first_sequence LIMIT 1",
                (sequence, sequence),
            ).fetchone()
            if row is None:
                return None
            hashes = np.frombuffer(row[1], dtype=np.uint64)
            return StoredBlock(row[0], hashes, unzip(row[2]), row[3], unzip(row[3]))

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[bytes]:
        """Bodies of the saved buckets ``first`` to ``last`` of a tier, from old to new."""
        with decoded(self._path):
            rows = self._db.execute(
                "SELECT body FROM windows WHERE tier = ? AND bucket BETWEEN ? AND ?"
                " ORDER BY bucket",
                (tier, first, last),
            )
            for (body,) in rows:
                yield unzip(body)

    @contextmanager
    def _moment(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def backup(self, target: Path) -> None:
        """Copy everything committed into a new file, while the writer goes on.

        Raises:
            StoreError: the target exists, or cannot be written.
        """
        if target.exists():
            raise StoreError(f"{target} exists", hint="Name a new file")
        partial = target.with_name(target.name + ".partial")
        with translated(target):
            copy = sqlite3.connect(partial)
            try:
                self._db.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            finally:
                copy.close()
        partial.rename(target)

    def close(self) -> None:
        """Release the connection."""
        self._db.close()
