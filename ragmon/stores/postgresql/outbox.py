"""Notifications that no receiver has yet: written with what they tell of, gone once delivered."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
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

# At most one row an incident, its oldest: what came later waits, so that order holds.
_DUE = (
    "SELECT number, sink, event_id, incident_id, at, body, attempts FROM @.outbox WHERE number IN"
    " (SELECT min(number) FROM @.outbox WHERE sink = %s GROUP BY incident_id)"
    " AND (due <= %s OR due > %s) ORDER BY number LIMIT %s"
)
_NEXT = (
    "SELECT min(due) FROM @.outbox WHERE number IN"
    " (SELECT min(number) FROM @.outbox WHERE sink = %s GROUP BY incident_id)"
)
_INSERT = (
    "INSERT INTO @.outbox (sink, event_id, incident_id, at, body) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (sink, event_id) DO NOTHING"
)
_AGAIN = "UPDATE @.outbox SET due = %s, error = %s, attempts = attempts + 1 WHERE number = %s"
_BURY = (
    "INSERT INTO @.dead_letters"
    " (sink, event_id, incident_id, at, body, attempts, buried_at, reason)"
    " SELECT sink, event_id, incident_id, at, body, attempts + 1, %s, %s FROM @.outbox"
    " WHERE number = %s"
)
_DELETE = "DELETE FROM @.outbox WHERE number = ANY(%s::bigint[])"
_STRANGERS = "SELECT number, sink FROM @.outbox WHERE sink <> ALL(%s::text[]) ORDER BY number"
_DEAD = (
    "SELECT sink, event_id, incident_id, at, body, attempts, buried_at, reason, number"
    " FROM @.dead_letters"
)
_REVIVE = (  # counted from now, or it would be given up again at the first failure
    "INSERT INTO @.outbox (sink, event_id, incident_id, at, body)"
    " SELECT sink, event_id, incident_id, %s, body FROM @.dead_letters WHERE number = %s"
    " ON CONFLICT (sink, event_id) DO NOTHING"
)
_DELETE_DEAD = "DELETE FROM @.dead_letters WHERE number = %s"
_FORGET = "DELETE FROM @.dead_letters WHERE buried_at < %s"
_TRIM = (
    "DELETE FROM @.dead_letters WHERE number <= (SELECT number FROM @.dead_letters"
    " ORDER BY number DESC LIMIT 1 OFFSET %s)"
)


class PostgresOutbox:
    """See ``Outbox`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    @staticmethod
    def insert(database: PostgresDatabase, cursor: Cursor, rows: Iterable[Notification]) -> None:
        """Add notifications within a transaction of the caller's."""
        database.many(cursor, _INSERT, rows)

    def put(self, rows: Iterable[Notification]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        with self._db.transaction() as cursor:
            self.insert(self._db, cursor, rows)

    def due(self, sink: str, now: float, limit: int) -> DueNotifications:
        """Notifications to try now; without any, when one comes due.

        Raises:
            StoreFencedError: another process sends them now.
        """
        with self._db.transaction() as cursor:  # which ends with the fence
            values = (sink, now, now + LONGEST_WAIT_S, limit)
            rows = self._db.execute(cursor, _DUE, *values).fetchall()
            if rows:
                return DueNotifications([PendingNotification(*row) for row in rows], None)
            [(next_at,)] = self._db.execute(cursor, _NEXT, sink).fetchall()
            return DueNotifications([], next_at)

    def settle(self, outcomes: Sequence[Settled]) -> None:
        """Write down how attempts ended, all or nothing."""
        again = [(each.at, each.error, each.number) for each in outcomes if each.fate == "retried"]
        dead = [(each.at, each.error, each.number) for each in outcomes if each.fate == "dead"]
        over = [each.number for each in outcomes if each.fate != "retried"]
        with self._db.transaction() as cursor:
            self._db.many(cursor, _AGAIN, again)
            self._db.many(cursor, _BURY, dead)
            self._db.execute(cursor, _DELETE, over)
            if dead:
                sure = [each.at for each in outcomes if each.fate == "dead" and not each.is_doubted]
                self._db.execute(cursor, _FORGET, max(sure, default=0.0) - KEEP_DEAD_S)
                self._db.execute(cursor, _TRIM, MOST_DEAD)

    def abandon(self, known: Sequence[str], now: float, reason: str) -> Mapping[str, int]:
        """Bury what waits for sinks that are not among the known; returns how many of each."""
        strangers = self._db.rows(_STRANGERS, list(known))
        self.settle([Settled(number, "dead", now, reason, True) for number, _ in strangers])
        return Counter(sink for _, sink in strangers)

    def undelivered(self) -> Undelivered:
        """Number of notifications that wait, since when, and how many were given up."""
        [(length, oldest)] = self._db.rows("SELECT count(*), min(at) FROM @.outbox")
        return Undelivered(length, oldest, self._db.number("SELECT count(*) FROM @.dead_letters"))

    def dead(self, limit: int) -> list[DeadLetter]:
        """Notifications that were given up, the newest first."""
        rows = self._db.rows(f"{_DEAD} ORDER BY buried_at DESC, number DESC LIMIT %s", limit)
        return [DeadLetter(*row) for row in rows]

    def dead_letter(self, number: int) -> DeadLetter | None:
        """One notification that was given up; None when there is none."""
        rows = self._db.rows(f"{_DEAD} WHERE number = %s", number)
        return DeadLetter(*rows[0]) if rows else None

    def revive(self, number: int, now: float) -> bool:
        """Send one again, as if it were new; False when there is none."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _REVIVE, now, number)
            return self._db.execute(cursor, _DELETE_DEAD, number).rowcount > 0

    def forget_dead(self, number: int) -> bool:
        """Delete one that was given up; False when there is none."""
        with self._db.transaction() as cursor:
            return self._db.execute(cursor, _DELETE_DEAD, number).rowcount > 0
