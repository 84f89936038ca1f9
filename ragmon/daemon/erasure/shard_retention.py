"""Retention per pipeline in the shards of a worker, a block at a time between its commits.

How far it has come stands beside the position of the topic, and moves with the shard to its next
owner.
"""

from collections.abc import Iterator, Mapping

import msgspec
import structlog

from ragmon.clock import Clock
from ragmon.daemon.erasure.blocks import ErasureCounts, ShardEraser
from ragmon.daemon.erasure.retention import RetentionPass, candidates, expired
from ragmon.daemon.erasure.shard_requests import WorkerErasedShard
from ragmon.daemon.worker_inbox import OwnedShard
from ragmon.records import sequence_of, shard_of

_EVERY_S = 300.0
_STEP_S = 0.1
_NAME = "retention:pipelines"

_pass = msgspec.json.Decoder(RetentionPass)


class ShardRetention:
    """Erases what the settings of a pipeline no longer cover; for the thread of the source."""

    def __init__(self, rules: Mapping[str, float], clock: Clock) -> None:
        """Make it.

        Args:
            rules: seconds, by name or glob of pipelines.
            clock: of the process.
        """
        self.erased = 0
        self._rules = dict(rules)
        self._clock = clock
        self._due: dict[int, float] = {}  # monotonic seconds of the next pass, by shard
        self._under_way: dict[int, tuple[OwnedShard, Iterator[None]]] = {}
        self._log = structlog.get_logger("retention")

    def step(self, owned: Mapping[int, OwnedShard]) -> None:
        """Go on for a moment.

        Raises:
            StoreError: what was not erased is by the next pass.
        """
        if not self._rules:
            return
        now = self._clock.monotonic()
        for number, place in owned.items():
            under_way = self._under_way.get(number)
            if under_way is None or under_way[0] is not place:
                if now < self._due.get(number, now):
                    continue
                self._due[number] = now + _EVERY_S
                under_way = self._under_way[number] = place, self._pass(place)
            for _ in under_way[1]:
                if self._clock.monotonic() >= now + _STEP_S:
                    return
            del self._under_way[number]

    def _pass(self, place: OwnedShard) -> Iterator[None]:
        """One pass over the blocks that may hold something, a step each."""
        stored = place.shard.offset(_NAME)
        done = _pass.decode(stored) if stored else RetentionPass(self._rules)
        if done.rules != self._rules:
            done = RetentionPass(self._rules)
        goal = RetentionPass(self._rules, self._clock.now(), place.shard.next_sequence)
        with place.reader() as reader:
            times = [
                block._replace(first_sequence=sequence_of(block.first_sequence))
                for block in reader.block_times()
                if shard_of(block.first_sequence) == place.shard.number
            ]
        eraser, counts = ShardEraser(WorkerErasedShard(place)), ErasureCounts()
        for first in reversed(candidates(times, done, goal)):
            for _ in eraser.erase(expired(done, goal), counts, start=first, until=first + 1):
                yield
        place.committer.send(offsets=[(_NAME, msgspec.json.encode(goal))])
        if counts.records:
            self.erased += counts.records
            self._log.info("pipelines_expired", shard=place.shard.number, records=counts.records)
