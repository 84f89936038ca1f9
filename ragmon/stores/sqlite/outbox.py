"""Notifications that no receiver has yet: written with what they tell of, gone once delivered."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragmon.stores.protocols import (
    KEEP_DEAD_S,
    LONGEST_WAIT_S,
    MOST_DEAD,
    DeadLetter,
    DueNotifications,
    Notification,
    PendingNotification,
    Settled,
    Undelivered,
)
from ragmon.stores.sqlite.database import Database

# At most one row an incident, its oldest: what came later waits, so that order holds.
_DUE = (
    "SELECT number, sink, event_id, fingerprint, at, body, attempts FROM outbox WHERE number IN"
    " (SELECT min(number) FROM outbox WHERE sink = ? GROUP BY fingerprint)"
    " AND (due <= ? OR due > ?) ORDER BY number LIMIT ?"
)
_NEXT = (
    "SELECT min(due) FROM outbox WHERE number IN"
    " (SELECT min(number) FROM outbox WHERE sink = ? GROUP BY fingerprint)"
)
_BURY = (
    "INSERT INTO dead_letters (sink, event_id, fingerprint, at, body, attempts, buried_at, reason)"
    " SELECT sink, event_id, fingerprint, at, body, attempts + 1, ?, ? FROM outbox"
    " WHERE number = ?"
)
_DEAD = (
    "SELECT sink, event_id, fingerprint, at, body, attempts, buried_at, reason, number"
    " FROM dead_letters"
)
_REVIVE = (  # counted from now, or it would be given up again at the first failure
    "INSERT OR IGNORE INTO outbox (sink, event_id, fingerprint, at, body)"
    " SELECT sink, event_id, fingerprint, ?, body FROM dead_letters WHERE number = ?"
)


class SqliteOutbox:
    """See ``Outbox`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @staticmethod
    def insert(connection: sqlite3.Connection, rows: Iterable[Notification]) -> None:
        """Add notifications within a transaction of the caller's."""
        connection.executemany(
            "INSERT OR IGNORE INTO outbox (sink, event_id, fingerprint, at, body)"
            " VALUES (?, ?, ?, ?, ?)",
            rows,
        )

    def put(self, rows: Iterable[Notification]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        with self._db.transaction() as db:
            self.insert(db, rows)

    def due(self, sink: str, now: float, limit: int) -> DueNotifications:
        """Notifications to try now; without any, when one comes due."""
        rows = self._db.rows(_DUE, sink, now, now + LONGEST_WAIT_S, limit)
        if rows:
            return DueNotifications([PendingNotification(*row) for row in rows], None)
        return DueNotifications([], self._db.rows(_NEXT, sink)[0][0])

    def settle(self, outcomes: Sequence[Settled]) -> None:
        """Write down how attempts ended, all or nothing."""
        again = [(each.at, each.error, each.number) for each in outcomes if each.fate == "retried"]
        dead = [(each.at, each.error, each.number) for each in outcomes if each.fate == "dead"]
        over = [(each.number,) for each in outcomes if each.fate != "retried"]
        with self._db.transaction() as db:
            db.executemany(
                "UPDATE outbox SET due = ?, error = ?, attempts = attempts + 1 WHERE number = ?",
                again,
            )
            db.executemany(_BURY, dead)
            db.executemany("DELETE FROM outbox WHERE number = ?", over)
            if dead:
                sure = [each.at for each in outcomes if each.fate == "dead" and not each.is_doubted]
                _forget_dead(db, max(sure, default=0.0))

    def abandon(self, known: Sequence[str], now: float, reason: str) -> Mapping[str, int]:
        """Bury what waits for sinks that are not among the known; returns how many of each."""
        marks = ", ".join("?" * len(known))
        sql = f"SELECT number, sink FROM outbox WHERE sink NOT IN ({marks})"  # noqa: S608 - only marks
        strangers = self._db.rows(sql, *known)
        self.settle([Settled(number, "dead", now, reason, True) for number, _ in strangers])
        return Counter(sink for _, sink in strangers)

    def undelivered(self) -> Undelivered:
        """Number of notifications that wait, since when, and how many were given up."""
        [(length, oldest)] = self._db.rows("SELECT count(*), min(at) FROM outbox")
        return Undelivered(length, oldest, self._db.number("SELECT count(*) FROM dead_letters"))

    def dead(self, limit: int) -> list[DeadLetter]:
        """Notifications that were given up, the newest first."""
        rows = self._db.rows(f"{_DEAD} ORDER BY buried_at DESC, number DESC LIMIT ?", limit)
        return [DeadLetter(*row) for row in rows]

    def dead_letter(self, number: int) -> DeadLetter | None:
        """One notification that was given up; None when there is none."""
        rows = self._db.rows(f"{_DEAD} WHERE number = ?", number)
        return DeadLetter(*rows[0]) if rows else None

    def revive(self, number: int, now: float) -> bool:
        """Send one again, as if it were new; False when there is none."""
        with self._db.transaction() as db:
            db.execute(_REVIVE, (now, number))
            return _delete_dead(db, number)

    def forget_dead(self, number: int) -> bool:
        """Delete one that was given up; False when there is none."""
        with self._db.transaction() as db:
            return _delete_dead(db, number)


def _delete_dead(db: sqlite3.Connection, number: int) -> bool:
    return db.execute("DELETE FROM dead_letters WHERE number = ?", (number,)).rowcount > 0


def _forget_dead(db: sqlite3.Connection, now: float) -> None:
    """Keep a month of dead letters, and not too many."""
    db.execute("DELETE FROM dead_letters WHERE buried_at < ?", (now - KEEP_DEAD_S,))
    db.execute(
        "DELETE FROM dead_letters WHERE number <= (SELECT number FROM dead_letters"
        " ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (MOST_DEAD,),
    )
