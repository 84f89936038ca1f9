"""Commits of workers, counted by the evaluator as if it had made them itself.

It reads the observations of new blocks and of restatements, which is all that windows and
detectors need, and hands them to the writer's thread. Minutes are judged up to the frontier: the
time until which every shard is complete. A shard that stands still holds it up for a while only.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.elsewhere import Elsewhere
from ragmon.daemon.ingest.engine import Engine
from ragmon.errors import SettingsError, StoreError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Loop, LoopOptions, LoopOwner, beat
from ragmon.stores import JournalEntry, ShardProgress
from ragmon.stores.sharing import Follower

STALLED_AFTER_S = 300.0
"""For which a shard that stands still holds up the judgement of all others."""

_EVERY_S = 0.25
_AT_ONCE = 32  # entries that the writer's thread counts before commits have their turn
_HAND_OVER_EVERY_S = 2.0
_LOOK_AT_ALL_EVERY_S = 600.0  # queries: some could not be read when a change for them came
_NEVER = -math.inf


class Frontier:
    """The time until which all shards are complete, without those that stand still."""

    def __init__(self) -> None:
        self.stalled: tuple[int, ...] = ()
        self._moved: dict[int, tuple[float, float]] = {}  # by shard: complete until, seen when

    def advance(self, progress: Mapping[int, ShardProgress], now: float) -> float:
        """Unix seconds; infinite while there are no shards.

        Args:
            progress: of the shards.
            now: monotonic seconds.
        """
        stalled = []
        frontier = math.inf
        for number, shard in progress.items():
            until = _NEVER if shard.complete_until is None else shard.complete_until
            before = self._moved.get(number)
            if before is None or until > before[0]:
                before = self._moved[number] = until, now
            if now - before[1] > STALLED_AFTER_S:
                stalled.append(number)
            elif until > _NEVER:
                frontier = min(frontier, until)
        self.stalled = tuple(stalled)
        return frontier


class Listener(Protocol):
    """Part of the daemon that is told of each commit."""

    is_listening: bool  # once everything counted before was replayed


class Following(LoopOwner):
    """Component of an evaluator, with a thread that reads."""

    def __init__(
        self, engine: Engine, clock: Clock, own: OwnMetrics, is_ready: Callable[[], bool]
    ) -> None:
        """Take the frontier as it is; nothing is counted yet.

        Args:
            engine: of the daemon.
            clock: of the daemon.
            own: metrics of the daemon.
            is_ready: tells whether everything counted before was replayed.
        """
        self.frontier = Frontier()
        self._engine = engine
        self._clock = clock
        self._is_ready = is_ready
        self._follower: Follower | None = engine.store.follower()
        self._current_at = clock.monotonic()  # when all that was committed was counted
        self._log = structlog.get_logger("following")
        self._stalled: tuple[int, ...] = ()
        self._hand_over_at = clock.monotonic()
        self._handed = 0  # changes that wait for their owner, when last counted
        self._look_at_all_at = clock.monotonic()  # for queries that changes wait for
        self.loop = Loop(
            "following",
            self._turn,
            self._log,
            LoopOptions(failed="cannot_follow", first_pause_s=0.5, longest_pause_s=5.0),
        )
        self._use(self._follower.progress())
        watch_following(
            own,
            lag_s=lambda: max(0.0, clock.monotonic() - self._current_at),
            complete_until=lambda: 0.0 if math.isinf(engine.frontier) else engine.frontier,
            stalled=lambda: len(self.frontier.stalled),
            handed=lambda: self._handed,
        )

    def stop(self) -> None:
        """End; what was not counted is counted after the start."""
        self.loop.stop(2.0)
        if self._follower is not None:
            self._follower.close()
            self._follower = None
        if self._engine.others is not None:
            self._engine.others.close()

    def _turn(self) -> float:
        follower = self._follower
        if follower is not None and self._is_ready():
            self.step(follower)
            self._hand_over()
        return _EVERY_S

    def _hand_over(self) -> None:
        """Hand feedback and labels that came before their query to whoever stored it since."""
        engine, now = self._engine, self._clock.monotonic()
        if now < self._hand_over_at or engine.others is None:
            return
        self._hand_over_at = now + _HAND_OVER_EVERY_S
        if engine.shard.waiting_count():
            commit = functools.partial(
                engine.committer.hand_over,
                self._clock.now(),
                newest_only=now < self._look_at_all_at,
            )
            engine.thread.ask(commit)
            if now >= self._look_at_all_at:
                self._look_at_all_at = now + _LOOK_AT_ALL_EVERY_S
        self._handed = engine.others.handed_count()

    def step(self, follower: Follower) -> None:
        """Count what was committed since the last time.

        Raises:
            StoreError: it could not be read, or counted.
        """
        started = self._clock.monotonic()
        entries: list[JournalEntry] = []
        for entry in follower.follow(dict(self._engine.counting.positions)):
            if isinstance(entry, JournalEntry):
                entries.append(entry)
                if len(entries) < _AT_ONCE:
                    continue
            self._count(entries)
            entries = []
            if isinstance(entry, dict):
                self._use(entry)
                self._current_at = started

    def _count(self, entries: list[JournalEntry]) -> None:
        if self.loop.stopping.is_set():
            raise StoreError("ragmon ends", hint="It is counted after the start")
        if entries:
            self._engine.thread.ask(lambda: self._engine.follow(entries))
        beat()

    def _use(self, progress: Mapping[int, ShardProgress]) -> None:
        self._engine.frontier = self.frontier.advance(progress, self._clock.monotonic())
        stalled = self.frontier.stalled
        if stalled != self._stalled:
            self._stalled = stalled
            self._log.warning(
                "shards_stalled",
                partitions=[number - 1 for number in stalled],
                remedy="judging goes on without them; see that workers run",
            )


def build_following(
    engine: Engine, settings: Settings, clock: Clock, own: OwnMetrics, listener: Listener
) -> list[Following]:
    """Counting of the commits of workers; nothing where this process does it all.

    Args:
        engine: of the daemon.
        settings: of the daemon.
        clock: of the daemon.
        own: metrics of the daemon.
        listener: is told of each commit that is counted.

    Raises:
        SettingsError: workers share this store, and this process would count none of theirs.
    """
    if settings.replica.role == "evaluator":
        engine.store.share()
        engine.others = engine.store.others()
        engine.committer.elsewhere = Elsewhere(
            engine.others, engine.store.reader, engine.shard.hash
        )
        return [Following(engine, clock, own, lambda: listener.is_listening)]
    if engine.store.is_shared:
        raise SettingsError(
            "workers share this store: a ragmon that does not follow them would count some of"
            " their queries and miss the others",
            hint="Set replica.role: evaluator, or another store.schema_name",
        )
    return []


def watch_following(
    own: OwnMetrics,
    *,
    lag_s: Callable[[], float],
    complete_until: Callable[[], float],
    stalled: Callable[[], float],
    handed: Callable[[], float],
) -> None:
    """Have an evaluator asked at each scrape."""
    own.watch(
        "ragmon_follow_lag_seconds",
        "Seconds since everything that workers had committed was counted. Growing: the evaluator "
        "counts slower than workers commit, or cannot read the store.",
        lag_s,
    )
    own.watch(
        "ragmon_complete_until_timestamp_seconds",
        "Time until which the log is read, committed and counted by all workers, without "
        "partitions that stand still: alerts judge minutes up to it. Far behind: see "
        "ragmon_kafka_lag_seconds of the workers. 0 without workers.",
        complete_until,
    )
    own.watch(
        "ragmon_shards_stalled",
        "Partitions whose worker has not come further for five minutes; judging goes on without "
        "them. More than 0 is bad: no worker has the partition, or its worker is stuck.",
        stalled,
    )
    own.watch(
        "ragmon_handed_changes",
        "Feedback, labels and verdicts that wait in the store for the worker that has their query. "
        "More than 0 for minutes: no worker has the partition.",
        handed,
    )
