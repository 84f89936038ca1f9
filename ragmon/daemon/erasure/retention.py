"""Retention per pipeline: what is shorter than ``retention.records`` is erased within its blocks.

Blocks hold several pipelines and are deleted as a whole when their newest record is too old. So
the records of a pipeline with a shorter retention are emptied in place, as an erasure does. Each
run looks at the blocks over which a limit has moved since the run before, and at new ones.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import structlog
from msgspec import Struct

from ragmon.access import matches
from ragmon.daemon.component import Context
from ragmon.daemon.erasure.blocks import BlockEraser, Chooser, ErasureCounts, with_content
from ragmon.daemon.erasure.evidence import EvidenceEraser
from ragmon.records import shard_of
from ragmon.stores import BlockTimes, StoredBlock
from ragmon.windows.observations import unpack

_EVERY_S = 300.0
_TURN_S = 60.0  # what is left is done by the next run
_NAME = "pipeline_retention"


class RetentionPass(Struct, frozen=True):
    """Records before the limits of their pipelines and of a sequence number are erased."""

    rules: dict[str, float]  # seconds, by name or glob of pipelines
    now: float = 0.0  # from which ages were counted
    sequence: int = 0  # records before it were looked at

    def limits(self) -> dict[str, float]:
        """Unix seconds before which records are erased, by rule."""
        return {glob: self.now - seconds for glob, seconds in self.rules.items()}


_pass = msgspec.json.Decoder(RetentionPass)


class PipelineRetention:
    """Component that erases what the settings of a pipeline no longer cover."""

    def __init__(self, context: Context, evidence: EvidenceEraser) -> None:
        self._context = context
        self._engine = context.engine
        self._evidence = evidence
        pipelines = context.settings.retention.pipelines
        self._rules = {glob: retention.records for glob, retention in pipelines.items()}
        self._eraser = BlockEraser(context.engine)
        self._remembered = context.engine.thread.bind(context.engine.state.remembered())
        self._under_way: tuple[RetentionPass, list[int]] | None = None
        self._ending = False
        self.erased = 0
        self._log = structlog.get_logger("retention")
        context.own.watch_total(
            "ragmon_pipeline_retention_records",
            "Queries whose content was erased because retention.pipelines no longer covers it.",
            lambda: self.erased,
        )

    def start(self) -> None:
        """Begin, if any pipeline has a retention of its own."""
        if self._rules:
            self._context.schedule.every(_EVERY_S, "expire_pipelines", self.run)

    def stop(self) -> None:
        """End after the block under way; the next start goes on."""
        self._ending = True

    def run(self) -> None:
        """Erase what has become too old, for at most a minute."""
        done = self._load()
        if self._under_way is None:
            now = self._engine.ages.now(self._engine.windows.watermark)
            if now is None:
                return
            goal = RetentionPass(self._rules, now, self._engine.shard.next_sequence)
            self._under_way = goal, self._candidates(done, goal)
        goal, left = self._under_way
        clock = self._context.clock
        until, counts = clock.monotonic() + _TURN_S, ErasureCounts()
        choose = expired(done, goal)
        while left and not self._ending and clock.monotonic() < until:
            first = left.pop()
            for _ in self._eraser.erase(choose, counts, start=first, until=first + 1):
                pass
        self.erased += counts.records
        if counts.records:
            self._log.info("pipelines_expired", records=counts.records)
        if counts.records or self._engine.others is not None:  # workers erase theirs themselves
            self._evidence.erase()
        if not left:
            self._under_way = None
            body = msgspec.json.encode(goal)
            self._remembered.ask(lambda stored: stored.save(_NAME, body))

    def _load(self) -> RetentionPass:
        """The last pass; the beginning of time after the rules have changed."""
        body = self._remembered.ask(lambda stored: stored.load(_NAME))
        done = _pass.decode(body) if body else None
        fresh = RetentionPass(self._rules)
        return done if done is not None and done.rules == self._rules else fresh

    def _candidates(self, done: RetentionPass, goal: RetentionPass) -> list[int]:
        """First sequence numbers of the blocks that may hold something, the oldest last."""
        own = self._engine.shard.number
        with self._engine.store.reader() as reader:
            times = [each for each in reader.block_times() if shard_of(each.first_sequence) == own]
        return candidates(times, done, goal)


def candidates(times: Sequence[BlockTimes], done: RetentionPass, goal: RetentionPass) -> list[int]:
    """First sequence numbers of the blocks that may hold something, the oldest last.

    Args:
        times: of the blocks of a shard, in order.
        done: the pass before.
        goal: the pass under way.
    """
    before, since = max(goal.limits().values()), min(done.limits().values())
    return [
        block.first_sequence
        for block in reversed(times)
        if block.first_timestamp < before
        and (block.last_timestamp >= since or block.first_sequence + block.records > done.sequence)
    ]


def expired(done: RetentionPass, goal: RetentionPass) -> Chooser:
    """A chooser of the records that the pass before left and this one does not.

    Args:
        done: the pass before.
        goal: the pass under way.
    """
    before, limits = done.limits(), goal.limits()

    def choose(block: StoredBlock) -> list[int]:
        observed = unpack(block.observations, ())
        rules = [rule_of(dims[0], goal.rules) for dims in observed.dims]
        newest = np.array([limits.get(rule, -np.inf) for rule in rules])[observed.dim_index]
        oldest = np.array([before.get(rule, -np.inf) for rule in rules])[observed.dim_index]
        sequences = block.first_sequence + np.arange(len(observed))
        is_new = (observed.timestamps >= oldest) | (sequences >= done.sequence)
        chosen = np.flatnonzero((observed.timestamps < newest) & is_new).tolist()
        return with_content(block, chosen)

    return choose


def rule_of(pipeline: str, rules: Mapping[str, float]) -> str:
    """The rule of a pipeline: its name, else the first glob that matches, else none."""
    if pipeline in rules:
        return pipeline
    return next((glob for glob in rules if matches(glob, pipeline)), "")
