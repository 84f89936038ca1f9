"""Detectors, alerts and silences: one transaction a minute holds all that belongs together."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from ragmon.alerts import AlertEvent
from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.silences import Silence
from ragmon.detectors.minutes import SavedMinute
from ragmon.records import Positions
from ragmon.stores.compression import unzip
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.outbox import PostgresOutbox
from ragmon.stores.postgresql.positions import DETECTION, read_positions, save_positions
from ragmon.stores.postgresql.takeovers import CountedTakeovers
from ragmon.stores.protocols import SavedDetection, Turn

_PUT = (
    "INSERT INTO @.detection VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET body = excluded.body"
)
_PUT_MINUTE = (
    "INSERT INTO @.minutes VALUES (%s, %s, %s)"
    " ON CONFLICT (tier, bucket) DO UPDATE SET body = excluded.body"
)
_OLD_MINUTES = "DELETE FROM @.minutes WHERE tier = %s AND bucket < %s"
_MINUTES = "SELECT tier, bucket FROM @.minutes ORDER BY tier, bucket"
_MINUTE = "SELECT body FROM @.minutes WHERE tier = %s AND bucket = %s"
_EVENT = (
    "INSERT INTO @.alert_events (id, at, episode, change, body) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (id) DO NOTHING"
)
_NOTICE = (
    "INSERT INTO @.incident_notices (id, at, incident, body) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (id) DO NOTHING"
)
_ENDED = (
    "SELECT number, body FROM @.alert_events WHERE change = 'resolved' AND at >= %s"
    " ORDER BY at DESC, number DESC"
)
_EPISODE = "SELECT number, body FROM @.alert_events WHERE episode = %s ORDER BY number"
_NOTICES = "SELECT number, body FROM @.incident_notices WHERE incident = %s ORDER BY number"
_SILENCES = "SELECT id, body FROM @.silences ORDER BY ends_at, id"
_PUT_SILENCE = (
    "INSERT INTO @.silences VALUES (%s, %s, %s)"
    " ON CONFLICT (id) DO UPDATE SET ends_at = excluded.ends_at, body = excluded.body"
)
_DELETE_SILENCE = "DELETE FROM @.silences WHERE id = %s"
_EXPIRE = (
    "DELETE FROM @.alert_events WHERE at < %s",
    "DELETE FROM @.incident_notices WHERE at < %s",
    "DELETE FROM @.silences WHERE ends_at < %s",
)
_event = msgspec.msgpack.Decoder(AlertEvent)
_notice = msgspec.msgpack.Decoder(IncidentNotice)
_silence = msgspec.msgpack.Decoder(Silence)


class PostgresAlertLog:
    """See ``AlertLog`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, epoch: int, takeovers: CountedTakeovers) -> None:
        self._db = database
        self._epoch = epoch
        self._takeovers = takeovers
        self._damage = database.damage
        self.counted: Positions = read_positions(database, DETECTION)

    def load(self) -> SavedDetection | None:
        """The state saved last; None before the first turn, and where the alerts are damaged.

        A damaged state of the detectors is empty: they begin anew, and the alerts go on.
        """
        rows = dict(self._db.rows("SELECT name, body FROM @.detection"))
        if not rows:
            return None
        state = b""
        with self._damage.tolerated("detection", "state"), self._db.decoded():
            state = unzip(rows["state"])
        with self._damage.tolerated("detection", "book"), self._db.decoded():
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
        }
        minutes = ((tier, bucket, self._db.zip(body)) for tier, bucket, body in turn.buckets)
        events = (
            (event.id, event.at, event.alert.episode, event.change, self._packed(event))
            for event in turn.events
        )
        notices = (
            (notice.id, notice.at, notice.incident_id, self._packed(notice))
            for notice in turn.notices
        )
        with self._db.transaction() as cursor:
            self._db.many(cursor, _PUT, state.items())
            if turn.begun_anew:
                self._db.execute(cursor, "DELETE FROM @.minutes")
            self._db.many(cursor, _PUT_MINUTE, minutes)
            self._db.many(cursor, _OLD_MINUTES, enumerate(turn.oldest))
            self._db.many(cursor, _EVENT, events)
            self._db.many(cursor, _NOTICE, notices)
            PostgresOutbox.insert(self._db, cursor, turn.notifications)
            save_positions(self._db, cursor, DETECTION, turn.positions, self._epoch)
            self._takeovers.require(self._db, cursor, turn.positions)
        self.counted = turn.positions

    def ended(self, since: float, limit: int, pipeline: str = "") -> list[AlertEvent]:
        """The ends of alerts, of one pipeline or of all, the newest first."""
        ends = self._events(_ENDED, since)
        matching = (each for each in ends if pipeline in ("", each.alert.key.stream.pipeline))
        return list(islice(matching, limit))

    def episode(self, name: str) -> list[AlertEvent]:
        """Every transition of one alert, in order."""
        return list(self._events(_EPISODE, name))

    def notices(self, incidents: Iterable[str]) -> list[IncidentNotice]:
        """Every notice of these incidents, in order."""
        notices: list[IncidentNotice] = []
        for incident in incidents:
            for number, body in self._db.rows(_NOTICES, incident):
                with self._damage.tolerated("notice", number), self._db.decoded():
                    notices.append(_notice.decode(unzip(body)))
        return notices

    def silences(self) -> list[Silence]:
        """Every silence, those that are over too."""
        silences: list[Silence] = []
        for name, body in self._db.rows(_SILENCES):
            with self._damage.tolerated("silence", name), self._db.decoded():
                silences.append(_silence.decode(body))
        return silences

    def add_silence(self, silence: Silence) -> None:
        """Keep one; of the same id it takes the place."""
        row = (silence.id, silence.ends_at, msgspec.msgpack.encode(silence))
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PUT_SILENCE, *row)

    def delete_silence(self, name: str) -> bool:
        """Delete one; False when there was none."""
        with self._db.transaction() as cursor:
            return self._db.execute(cursor, _DELETE_SILENCE, name).rowcount > 0

    def expire(self, before: float) -> None:
        """Delete transitions, notices and silences that ended before."""
        with self._db.transaction() as cursor:
            for sql in _EXPIRE:
                self._db.execute(cursor, sql, before)

    def _buckets(self) -> Iterator[SavedMinute]:
        for tier, bucket in self._db.rows(_MINUTES):
            for (body,) in self._db.rows(_MINUTE, tier, bucket):
                with self._damage.tolerated("minute", f"{tier}/{bucket}"), self._db.decoded():
                    yield SavedMinute(tier, bucket, unzip(body))

    def _events(self, sql: str, *values: str | float) -> Iterator[AlertEvent]:
        for number, body in self._db.rows(sql, *values):
            with self._damage.tolerated("event", number), self._db.decoded():
                yield _event.decode(unzip(body))

    def _packed(self, event: AlertEvent | IncidentNotice) -> bytes:
        return self._db.zip(msgspec.msgpack.encode(event))
