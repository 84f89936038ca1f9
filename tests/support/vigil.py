"""Detection over a real store and writer; a test moves the clock and kills the process."""

import itertools
from pathlib import Path

import msgspec

from ragmon.alerts import AlertEvent
from ragmon.alerts.notices import IncidentNotice
from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.audit import build_audit
from ragmon.daemon.build import build_engine
from ragmon.daemon.component import Context
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.notify.routing import build_routes
from ragmon.daemon.schedule import Schedule
from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection
from ragmon.exposition.own import OwnMetrics
from ragmon.memory import MemoryBudget
from ragmon.sources import Submission
from ragmon.stores.compression import unzip
from ragmon.web.auth import Authorizer
from tests.support.stores import copied


def _none(_now: float) -> tuple[()]:
    return ()


class Vigil:
    """One process after another over the same data."""

    def __init__(
        self, root: Path, now: float, base: Path | None = None, *, other_findings=_none, **fields
    ) -> None:
        self.root = root
        self._other_findings = other_findings
        self.clock = ManualClock(now)
        self._fields = {"detectors": {"first_days": 0}} | fields
        self._generation = itertools.count()
        self.directory = root / str(next(self._generation))
        if base is None:
            self.directory.mkdir(parents=True)
        else:
            copied(base, self.directory)
        self.start()

    def start(self) -> None:
        self.settings = settings = Settings(data_dir=self.directory, **self._fields)
        self.engine = build_engine(settings, self.clock)
        own, thread = OwnMetrics(), self.engine.thread
        schedule = Schedule(self.clock, lambda _job: None)
        memory, authorizer = MemoryBudget(1 << 30), Authorizer((), self.clock)
        audit = build_audit(settings, self.clock, own)
        context = Context(
            settings, self.clock, self.engine, own, schedule, authorizer, memory, audit
        )
        routes = build_routes(settings, self.clock, 8321)
        outbox = thread.bind(self.engine.state.outbox())
        self.delivery = Delivery(outbox, routes, self.clock, counters=own)
        self.alerting = Alerting(context, self.delivery, other_findings=self._other_findings)
        self.own = own
        self.engine.writer.start()
        thread.ask(self.engine.restore)
        thread.ask(self.alerting.restore)

    def commit(self, records=(), changes=()) -> None:
        group = [Submission("test", 0, lambda _: None, records=records, changes=changes)]
        commit = self.engine.writer.commits.commit
        self.engine.thread.submit(lambda: commit(group, self.clock.now())).result()

    def snapshot(self) -> None:
        """Save the windows, which lets go of the journal they no longer need."""
        self.engine.thread.submit(self.engine.snapshot).result()

    def tick(self, seconds: float = 0.0) -> None:
        """Some time later, what is due is judged."""
        self.clock.sleep(seconds)
        self.alerting.turn()

    def end(self) -> None:
        assert self.engine.writer.stop(10)
        self.engine.store.close()

    def crash(self) -> None:
        """What kill -9 leaves: the files as they are, and nothing of the memory."""
        left = self.root / str(next(self._generation))
        self.engine.thread.submit(lambda: copied(self.directory, left)).result()
        self.end()
        self.directory = left
        self.start()

    def events(self) -> list[AlertEvent]:
        """Every transition that was saved, in order."""
        db = self.engine.store._db
        rows = self.engine.thread.submit(
            lambda: db.rows("SELECT body FROM alert_events ORDER BY number")
        ).result()
        return [msgspec.msgpack.decode(unzip(body), type=AlertEvent) for (body,) in rows]

    def notices(self) -> list[IncidentNotice]:
        """Every notice that was saved, in order."""
        db = self.engine.store._db
        rows = self.engine.thread.submit(
            lambda: db.rows("SELECT body FROM incident_notices ORDER BY number")
        ).result()
        return [msgspec.msgpack.decode(unzip(body), type=IncidentNotice) for (body,) in rows]

    def notified(self) -> list[tuple[str, str]]:
        """Sink and event of what waits in the outbox, in order."""
        db = self.engine.store._db
        return self.engine.thread.submit(
            lambda: db.rows("SELECT sink, event_id FROM outbox ORDER BY number")
        ).result()

    def state(self) -> dict[StreamKey, list[bytes]]:
        """Everything that the detectors know of each stream, whatever row it has."""
        return self.engine.thread.submit(lambda: known_by_stream(self.alerting.detection)).result()


def known_by_stream(detection: Detection) -> dict[StreamKey, list[bytes]]:
    """Everything that detectors know of each stream, whatever row it has."""
    log, references = detection.log, detection.references
    tables = [(references, references._FIELDS)]
    tables += [(state, state._FIELDS) for _, state in detection._rules if hasattr(state, "_FIELDS")]
    arrays = [getattr(table, name) for table, fields in tables for name in fields]
    assert len(arrays) > 20
    by_bucket = [ring.read(ring.epochs) for ring in log._rings] + [log.excluded]
    return {
        key: [
            log.carry[row].tobytes(),
            *(cells[:, row].tobytes() for cells in by_bucket),
            *(array[row].tobytes() for array in arrays if len(array) > row),
        ]
        for key, row in detection.streams.rows.items()
    }
