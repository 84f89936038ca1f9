"""Answers drawn for the sampled judge: written with the draw, gone with the verdict."""

import sqlite3
from collections.abc import Iterable

from ragmon.stores import Commit
from ragmon.stores.protocols import Awaited
from ragmon.stores.sqlite.database import Database

_SCHEMA = "CREATE TABLE IF NOT EXISTS awaited (sequence INTEGER PRIMARY KEY, since REAL)"


class SqliteAwaitedAnswers:
    """See ``AwaitedAnswers`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            db.execute(_SCHEMA)

    @staticmethod
    def write(connection: sqlite3.Connection, commit: Commit) -> None:
        """Write what a commit draws and what it judges, within its transaction."""
        if commit.awaited:
            connection.executemany("INSERT OR IGNORE INTO awaited VALUES (?, ?)", commit.awaited)
        if commit.judged:
            gone = ((each,) for each in commit.judged)
            connection.executemany("DELETE FROM awaited WHERE sequence = ?", gone)

    def awaited(self, skip: int, limit: int) -> list[Awaited]:
        """Some of those that wait, in a fixed order that has nothing to do with time."""
        # An odd factor, so that every remainder modulo 2^32 comes up once.
        shuffled = "(sequence * 2654435761) & 4294967295"
        sql = f"SELECT sequence, since FROM awaited ORDER BY {shuffled} LIMIT ? OFFSET ?"  # noqa: S608
        return [Awaited(*row) for row in self._db.rows(sql, limit, skip)]

    def overdue(self, before: float, limit: int) -> list[Awaited]:
        """Some of those that were drawn before a moment."""
        sql = "SELECT sequence, since FROM awaited WHERE since < ? ORDER BY since LIMIT ?"
        return [Awaited(*row) for row in self._db.rows(sql, before, limit)]

    def awaited_count(self) -> int:
        """Number of answers that wait."""
        return self._db.number("SELECT count(*) FROM awaited")

    def abandon(self, sequences: Iterable[int]) -> None:
        """Await these no longer: their records are gone."""
        gone = [(each,) for each in sequences]
        with self._db.transaction() as db:
            db.executemany("DELETE FROM awaited WHERE sequence = ?", gone)
