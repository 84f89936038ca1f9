"""Detectors, alerts and silences: one transaction a minute holds all that belongs together."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from ragmon.alerts import AlertEvent
from ragmon.alerts.silences import Silence
from ragmon.detectors.minutes import SavedMinute
from ragmon.records import Position
from ragmon.stores.protocols import SavedDetection, Turn
from ragmon.stores.sqlite.database import Database, decoded, unzip
from ragmon.stores.sqlite.outbox import SqliteOutbox

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS detection (name TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS minutes (
    tier INTEGER, bucket INTEGER, body BLOB, PRIMARY KEY (tier, bucket))""",
    """CREATE TABLE IF NOT EXISTS alert_events (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, at REAL, episode TEXT, change TEXT, body BLOB)""",
    "CREATE INDEX IF NOT EXISTS alert_events_by_episode ON alert_events (episode, number)",
    "CREATE INDEX IF NOT EXISTS alert_events_by_change ON alert_events (change, at)",
    "CREATE TABLE IF NOT EXISTS silences (id TEXT PRIMARY KEY, ends_at REAL, body BLOB)",
)
_event = msgspec.msgpack.Decoder(AlertEvent)
_silence = msgspec.msgpack.Decoder(Silence)


class SqliteAlertLog:
    """See ``AlertLog`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            for statement in _SCHEMA:
                db.execute(statement)
        self.counted = self._position()

    def load(self) -> SavedDetection | None:
        """The state saved last; None before the first turn."""
        with decoded(self._db.path):
            rows = dict(self._db.rows("SELECT name, body FROM detection"))
            if not rows:
                return None
            return SavedDetection(
                state=unzip(rows["state"]),
                book=unzip(rows["book"]),
                catching_up=rows["mode"] == b"catching_up",
                position=self.counted,
                buckets=self._buckets(),
            )

    def save(self, turn: Turn) -> None:
        """All or nothing, the notifications too."""
        state = {
            "state": self._db.zip(turn.state),
            "book": self._db.zip(turn.book),
            "mode": b"catching_up" if turn.catching_up else b"live",
            "position": msgspec.msgpack.encode(turn.position),
        }
        buckets = [(tier, bucket, self._db.zip(body)) for tier, bucket, body in turn.buckets]
        events = [
            (event.id, event.at, event.alert.episode, event.change, self._packed(event))
            for event in turn.events
        ]
        with self._db.transaction() as db:
            db.executemany("REPLACE INTO detection VALUES (?, ?)", state.items())
            db.executemany("REPLACE INTO minutes VALUES (?, ?, ?)", buckets)
            db.executemany(
                "DELETE FROM minutes WHERE tier = ? AND bucket < ?", enumerate(turn.oldest)
            )
            db.executemany(
                "INSERT OR IGNORE INTO alert_events (id, at, episode, change, body)"
                " VALUES (?, ?, ?, ?, ?)",
                events,
            )
            SqliteOutbox.insert(db, turn.notifications)
        self.counted = turn.position

    def ended(self, since: float, limit: int, pipeline: str = "") -> list[AlertEvent]:
        """The ends of alerts, of one pipeline or of all, the newest first."""
        ends = self._events(
            "SELECT body FROM alert_events WHERE change = 'resolved' AND at >= ?"
            " ORDER BY at DESC, number DESC",
            since,
        )
        matching = (each for each in ends if pipeline in ("", each.alert.key.stream.pipeline))
        return list(islice(matching, limit))

    def episode(self, name: str) -> list[AlertEvent]:
        """Every transition of one alert, in order."""
        sql = "SELECT body FROM alert_events WHERE episode = ? ORDER BY number"
        return list(self._events(sql, name))

    def silences(self) -> list[Silence]:
        """Every silence, those that are over too."""
        rows = self._db.rows("SELECT body FROM silences ORDER BY ends_at, id")
        with decoded(self._db.path):
            return [_silence.decode(body) for (body,) in rows]

    def add_silence(self, silence: Silence) -> None:
        """Keep one; of the same id it takes the place."""
        row = (silence.id, silence.ends_at, msgspec.msgpack.encode(silence))
        with self._db.transaction() as db:
            db.execute("REPLACE INTO silences VALUES (?, ?, ?)", row)

    def delete_silence(self, name: str) -> bool:
        """Delete one; False when there was none."""
        with self._db.transaction() as db:
            return db.execute("DELETE FROM silences WHERE id = ?", (name,)).rowcount > 0

    def expire(self, before: float) -> None:
        """Delete transitions and silences that ended before."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM alert_events WHERE at < ?", (before,))
            db.execute("DELETE FROM silences WHERE ends_at < ?", (before,))

    def _position(self) -> Position:
        rows = self._db.rows("SELECT body FROM detection WHERE name = 'position'")
        with decoded(self._db.path):
            return msgspec.msgpack.decode(rows[0][0], type=Position) if rows else Position()

    def _buckets(self) -> Iterator[SavedMinute]:
        with decoded(self._db.path):
            for tier, bucket, body in self._db.connection.execute(
                "SELECT tier, bucket, body FROM minutes ORDER BY tier, bucket"
            ):
                yield SavedMinute(tier, bucket, unzip(body))

    def _events(self, sql: str, *values: str | float) -> Iterator[AlertEvent]:
        with decoded(self._db.path):
            for (body,) in self._db.connection.execute(sql, values):
                yield _event.decode(unzip(body))

    def _packed(self, event: AlertEvent) -> bytes:
        return self._db.zip(msgspec.msgpack.encode(event))
