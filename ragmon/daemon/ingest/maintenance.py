"""The work that keeps store and windows small: snapshots, retention, joining of blocks."""

import itertools
from collections.abc import Callable

from ragmon.clock import Clock
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.recounting import WindowRecounting
from ragmon.daemon.ingest.summaries import BlockSummarizer
from ragmon.daemon.schedule import Schedule

_EXPIRE_EVERY_S = 30.0
_COMPACT_EVERY_S = 20.0
_SUMMARIZE_EVERY_S = 30.0
_RECOUNT_EVERY_S = 10.0
_COMPACT_STEPS = 200
_TAKE_UP_STEPS = 200
_SAVE_EVERY_S = 600.0  # of what retention counts; a restart may lose so much
_REACHED = "retention_reached"


class StoreMaintenance:
    """Maintenance in short steps; commits go on in between."""

    def __init__(self, engine: Engine, clock: Clock, ending: Callable[[], bool]) -> None:
        """Plan nothing yet.

        Args:
            engine: to maintain.
            clock: of the daemon.
            ending: true once the daemon ends.
        """
        self._engine = engine
        self._clock = clock
        self._recounting = WindowRecounting(engine, clock, ending)
        self._remembered = engine.thread.bind(engine.state.remembered())
        self._saved_at = 0.0  # of the time that retention has reached
        self._ending = ending  # then the step under way is the last

    def plan(self, schedule: Schedule, snapshot_every_s: float) -> None:
        """Have it done at intervals."""
        # It also tries a store that refused, so it does not pause for long.
        schedule.every(snapshot_every_s, "snapshot", self.snapshot, longest_pause_s=0.0)
        schedule.every(_EXPIRE_EVERY_S, "expire", self.expire)
        schedule.every(_COMPACT_EVERY_S, "compact", self.compact)
        schedule.every(_RECOUNT_EVERY_S, "recount", self._recounting.turn)
        engine = self._engine
        summarizer = BlockSummarizer(
            engine.shard,
            engine.thread.bind(engine.shard.summaries()),
            engine.store.reader,
            engine.pipeline,
            ending=self._ending,
            monotonic=schedule.monotonic,
        )
        schedule.every(_SUMMARIZE_EVERY_S, "summarize", summarizer.turn)

    def snapshot(self) -> None:
        """Save the windows; commits go on while what is saved is made ready."""
        engine, thread = self._engine, self._engine.thread
        thread.ask(engine.index)
        taken = thread.ask(engine.begin_snapshot)
        if taken is not None:
            taken.prepare()
            thread.ask(lambda: engine.save_snapshot(taken))

    def expire(self) -> None:
        """Delete what retention no longer covers; changes that waited for a body come first.

        Those do not depend on the clock, which may be doubted for an hour.
        """
        self._step(lambda: self._engine.take_up(self._clock.now()), most=_TAKE_UP_STEPS)
        ages = self._engine.ages
        if not self._saved_at:
            saved = self._remembered.ask(lambda stored: stored.load(_REACHED))
            ages.resume(float(saved or 0.0))
        now = ages.now(self._engine.windows.watermark)
        if now is None:
            return
        if abs(now - self._saved_at) >= _SAVE_EVERY_S:
            body = str(now).encode()
            self._remembered.ask(lambda stored: stored.save(_REACHED, body))
            self._saved_at = now
        self._step(lambda: self._engine.expire(now))
        self._engine.thread.ask(lambda: self._engine.forget(now))

    def compact(self) -> None:
        """Join small blocks."""
        self._step(self._engine.compact, most=_COMPACT_STEPS)

    def _step(self, step: Callable[[], int], most: int | None = None) -> None:
        """Repeat a step until it finds nothing more to do."""
        for _ in itertools.count() if most is None else range(most):
            if self._ending() or not self._engine.thread.ask(step):
                return
