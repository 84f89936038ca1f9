"""Detectors, alerts and silences: one transaction a minute holds all that belongs together."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from ragmon.alerts import AlertEvent
from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.silences import Silence
from ragmon.detectors.minutes import SavedMinute
from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores.compression import unzip
from ragmon.stores.protocols import SavedDetection, Turn
from ragmon.stores.sqlite.database import Database, decoded
from ragmon.stores.sqlite.outbox import SqliteOutbox

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS detection (name TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS minutes (
    tier INTEGER, bucket INTEGER, body BLOB, PRIMARY KEY (tier, bucket))""",
    """CREATE TABLE IF NOT EXISTS alert_events (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, at REAL, episode TEXT, change TEXT, body BLOB)""",
    "CREATE INDEX IF NOT EXISTS alert_events_by_episode ON alert_events (episode, number)",
    "CREATE INDEX IF NOT EXISTS alert_events_by_change ON alert_events (change, at)",
    """CREATE TABLE IF NOT EXISTS incident_notices (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, at REAL, incident TEXT, body BLOB)""",
    "CREATE INDEX IF NOT EXISTS notices_by_incident ON incident_notices (incident, number)",
    "CREATE TABLE IF NOT EXISTS silences (id TEXT PRIMARY KEY, ends_at REAL, body BLOB)",
)
_MINUTE = "SELECT body FROM minutes WHERE tier = ? AND bucket = ?"
_event = msgspec.msgpack.Decoder(AlertEvent)
_notice = msgspec.msgpack.Decoder(IncidentNotice)
_silence = msgspec.msgpack.Decoder(Silence)


class SqliteAlertLog:
    """See ``AlertLog`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._damage = database.damage
        self._damaged_position = False
        with database.transaction() as db:
            for statement in _SCHEMA:
                db.execute(statement)
        self.counted: Positions = {ONLY_SHARD: self._position()}

    def load(self) -> SavedDetection | None:
        """The state saved last; None before the first turn, and where the alerts are damaged.

        A damaged state of the detectors is empty: they begin anew, and the alerts go on.
        """
        rows: dict[str, bytes] = {}
        with self._damage.tolerated("detection", "all"):
            rows = dict(self._db.rows("SELECT name, body FROM detection"))
        if not rows or self._damaged_position:
            return None
        state = b""
        with self._damage.tolerated("detection", "state"), decoded(self._db.path):
            state = unzip(rows["state"])
        with self._damage.tolerated("detection", "book"), decoded(self._db.path):
            return SavedDetection(
                state=state,
                book=unzip(rows["book"]),
                catching_up=rows["mode"] == b"catching_up",
                positions=self.counted,
                buckets=self._buckets(),
            )
        return None

    def save(self, turn: Turn) -> None:
        """All or nothing, the notifications too."""
        state = {
            "state": self._db.zip(turn.state),
            "book": self._db.zip(turn.book),
            "mode": b"catching_up" if turn.catching_up else b"live",
            "position": msgspec.msgpack.encode(turn.positions[ONLY_SHARD]),
        }
        events = [
            (event.id, event.at, event.alert.episode, event.change, self._packed(event))
            for event in turn.events
        ]
        notices = [
            (notice.id, notice.at, notice.incident_id, self._packed(notice))
            for notice in turn.notices
        ]
        with self._db.transaction() as db:
            db.executemany("REPLACE INTO detection VALUES (?, ?)", state.items())
            if turn.begun_anew:
                db.execute("DELETE FROM minutes")
            db.executemany(
                "REPLACE INTO minutes VALUES (?, ?, ?)",
                ((tier, bucket, self._db.zip(body)) for tier, bucket, body in turn.buckets),
            )
            db.executemany(
                "DELETE FROM minutes WHERE tier = ? AND bucket < ?", enumerate(turn.oldest)
            )
            db.executemany(
                "INSERT OR IGNORE INTO alert_events (id, at, episode, change, body)"
                " VALUES (?, ?, ?, ?, ?)",
                events,
            )
            db.executemany(
                "INSERT OR IGNORE INTO incident_notices (id, at, incident, body)"
                " VALUES (?, ?, ?, ?)",
                notices,
            )
            SqliteOutbox.insert(db, turn.notifications)
        self.counted = turn.positions

    def ended(self, since: float, limit: int, pipeline: str = "") -> list[AlertEvent]:
        """The ends of alerts, of one pipeline or of all, the newest first."""
        ends = self._events(
            "SELECT number, body FROM alert_events WHERE change = 'resolved' AND at >= ?"
            " ORDER BY at DESC, number DESC",
            since,
        )
        matching = (each for each in ends if pipeline in ("", each.alert.key.stream.pipeline))
        return list(islice(matching, limit))

    def episode(self, name: str) -> list[AlertEvent]:
        """Every transition of one alert, in order."""
        sql = "SELECT number, body FROM alert_events WHERE episode = ? ORDER BY number"
        return list(self._events(sql, name))

    def notices(self, incidents: Iterable[str]) -> list[IncidentNotice]:
        """Every notice of these incidents, in order."""
        sql = "SELECT number, body FROM incident_notices WHERE incident = ? ORDER BY number"
        notices: list[IncidentNotice] = []
        for incident in incidents:
            with self._damage.tolerated("index", "incident_notices"), decoded(self._db.path):
                for number, body in self._db.rows(sql, incident):
                    with self._damage.tolerated("notice", number), decoded(self._db.path):
                        notices.append(_notice.decode(unzip(body)))
        return notices

    def silences(self) -> list[Silence]:
        """Every silence, those that are over too."""
        silences: list[Silence] = []
        for name, body in self._db.rows("SELECT id, body FROM silences ORDER BY ends_at, id"):
            with self._damage.tolerated("silence", name), decoded(self._db.path):
                silences.append(_silence.decode(body))
        return silences

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
        """Delete transitions, notices and silences that ended before."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM alert_events WHERE at < ?", (before,))
            db.execute("DELETE FROM incident_notices WHERE at < ?", (before,))
            db.execute("DELETE FROM silences WHERE ends_at < ?", (before,))

    def _position(self) -> Position:
        with self._damage.tolerated("detection", "position"), decoded(self._db.path):
            rows = self._db.rows("SELECT body FROM detection WHERE name = 'position'")
            return msgspec.msgpack.decode(rows[0][0], type=Position) if rows else Position()
        self._damaged_position = True
        return Position()

    def _buckets(self) -> Iterator[SavedMinute]:
        keys: list[tuple[int, int]] = []
        with self._damage.tolerated("index", "minutes"):
            keys = self._db.rows("SELECT tier, bucket FROM minutes ORDER BY tier, bucket")
        for tier, bucket in keys:
            with self._damage.tolerated("minute", f"{tier}/{bucket}"), decoded(self._db.path):
                rows = self._db.rows(_MINUTE, tier, bucket)
                yield SavedMinute(tier, bucket, unzip(rows[0][0]))

    def _events(self, sql: str, *values: str | float) -> Iterator[AlertEvent]:
        with self._damage.tolerated("index", "alert_events"), decoded(self._db.path):
            for number, body in self._db.connection.execute(sql, values):
                with self._damage.tolerated("event", number), decoded(self._db.path):
                    yield _event.decode(unzip(body))

    def _packed(self, event: AlertEvent | IncidentNotice) -> bytes:
        return self._db.zip(msgspec.msgpack.encode(event))
