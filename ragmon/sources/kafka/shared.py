"""The thread of a worker: partitions of a topic that it shares with others of its group.

Messages of a partition become commits of its shard, each with the position behind it, on this
thread. A commit that is refused, because another worker has the shard now, changes nothing; the
worker then leaves the group and joins it again.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

from ragmon.errors import RemoteError, SettingsError
from ragmon.sources import IngestOutcome, SourceContext, Submission, count_outcome
from ragmon.sources.kafka.batches import REMEDIES, SOURCE, count_refusals, leader_epoch
from ragmon.sources.kafka.group import GroupLog, GroupMembership
from ragmon.sources.kafka.log import Fetched, LogMessage
from ragmon.sources.kafka.messages import MessageBatch
from ragmon.sources.kafka.options import Options
from ragmon.sources.kafka.positions import Cause, KafkaPosition
from ragmon.sources.kafka.source import KafkaSource

MOST_PARTITIONS = 256
"""Of a topic that workers share."""

_MEASURE_EVERY_S = 2.0
_DESCRIBE_EVERY_S = 10.0
_SHOW_EVERY_S = 5.0


class PartitionShard(Protocol):
    """The part of the store that one partition goes to; for the thread of the source."""

    def offset(self, name: str) -> bytes | None:
        """The position up to which it was read; None before the first."""
        ...

    def commit(self, submission: Submission) -> IngestOutcome:
        """Make it durable, with its position.

        Raises:
            StoreError: nothing was kept.
        """
        ...


class PartitionShards(Protocol):
    """The parts of the store that this worker owns."""

    def check(self) -> None:
        """Raise StoreError while workers may not take any."""
        ...

    def take(self, partition: int) -> PartitionShard:
        """Own the part of a partition."""
        ...

    def let_go(self, partition: int) -> None:
        """Own it no longer."""
        ...

    def complete(self, until: Mapping[int, float]) -> None:
        """Note the times until which the log is committed, by partition."""
        ...

    def check_owned(self) -> None:
        """Raise StoreError where another process has taken a part of this one since."""
        ...

    def maintain(self) -> None:
        """Do what is due between two commits."""
        ...


OpenGroup = Callable[[GroupMembership], GroupLog]


class SharedSource(KafkaSource):
    """See ``KafkaSource``; its partitions come and go."""

    def __init__(
        self,
        options: Options,
        context: SourceContext,
        shards: PartitionShards,
        open_log: OpenGroup,
    ) -> None:
        """Make it; nothing is connected before its first turn.

        Args:
            options: of the source.
            context: of the source; its sink is not used.
            shards: of the store.
            open_log: connects to the topic, as a member of the group.
        """
        super().__init__(options, context, lambda: open_log(self))
        self.last_turn_at: float | None = None  # monotonic seconds of the last turn that succeeded
        self._shards = shards
        self._owned: dict[int, PartitionShard] = {}
        self._written_at: dict[int, float] = {}  # unix seconds of the last message, by partition
        self._void: set[int] = set()  # partitions that came or went while messages were gathered

    @property
    def partitions(self) -> list[int]:
        """Those that it owns; for any thread."""
        return sorted(self._owned)

    def take(self, partition: int) -> KafkaPosition | None:
        """Own a partition that the group assigned; see ``GroupMembership``."""
        shard = self._shards.take(partition)
        position = self.assignment.add(partition, shard.offset(self.assignment.key(partition)))
        self._void.add(partition)
        self._owned[partition] = shard
        self._show_stopped()
        if position.stopped:
            self._log.error("partition_stopped", partition=partition, cause=position.stopped)
            return None
        return position

    def let_go(self, partition: int) -> None:
        """Own a partition no longer; see ``GroupMembership``."""
        self._void.add(partition)
        self._owned.pop(partition, None)
        self._written_at.pop(partition, None)
        self.assignment.remove(partition)
        self._shards.let_go(partition)
        self._show_stopped()

    def begin_again(self) -> None:
        """Throw away what is in hand, and leave the group; the next step joins it again."""
        super().begin_again()
        for partition in [*self._owned]:
            self.let_go(partition)

    def _step(self) -> bool:
        log = self._group()
        fetched = self._gather(log)
        log.check()
        by_partition: dict[int, list[LogMessage]] = defaultdict(list)
        for message in fetched.messages:
            if message.partition() in self._owned:
                by_partition[message.partition()].append(message)
        for partition, messages in by_partition.items():
            self._commit_partition(partition, messages)
        for partition in {*fetched.lost_place} & self._owned.keys():
            self._find_place(log, partition)
        for partition in {*fetched.cut_off} & self._owned.keys():
            self._stop(log, partition, "went_back")
        self._look_after(log)
        self.last_turn_at = self._context.clock.monotonic()
        return bool(fetched.messages)

    def _group(self) -> GroupLog:
        if self._connection is not None:
            assert isinstance(self._connection, GroupLog)
            return self._connection
        self._shards.check()
        opened = self._open_log()
        assert isinstance(opened, GroupLog)
        self._connection = opened
        topic = opened.describe()
        if topic.partitions > MOST_PARTITIONS:
            raise SettingsError(
                f"topic {self._options.topic} has {topic.partitions:,} partitions, and workers"
                f" share at most {MOST_PARTITIONS}",
                hint="Each takes a connection to the store; use a topic with 16 to 64",
            )
        self.assignment.identity = topic.identity
        self._partitions = self.figures.partitions = topic.partitions
        self._due.begin("describe")
        opened.join()
        self._log.info("joined", group=self._options.group, partitions=topic.partitions)
        return opened

    def _gather(self, log: GroupLog) -> Fetched:  # type: ignore[override]
        """Messages of one turn, without those that were gathered before their partition moved."""
        clock = self._context.clock
        deadline = clock.monotonic() + self._options.linger_s
        kept = Fetched([], [], [])
        size = 0
        while self._has_room(len(kept.messages), size) and not kept.lost_place:
            left_s = deadline - clock.monotonic()
            if left_s <= 0.0 or self.loop.stopping.is_set():
                break
            self._void.clear()
            fetched = log.fetch(self._room(len(kept.messages), size), left_s)
            before = [each for each in kept.messages if each.partition() not in self._void]
            kept = Fetched(
                [*before, *fetched.messages],
                [*kept.lost_place, *fetched.lost_place],
                [*kept.cut_off, *fetched.cut_off],
            )
            size += self._size_of(fetched.messages)
        return kept

    def _commit_partition(self, partition: int, messages: list[LogMessage]) -> None:
        batch = self._decoder.batch(messages, self.assignment.is_behind)
        last = batch.last.get(partition)
        if last is None:
            return
        ends = {partition: (last.offset() + 1, leader_epoch(last))}
        self._keep_in(partition, batch, self.assignment.moved(ends))
        count_refusals(self._context, self.figures, batch, self._log)
        self._written_at[partition] = last.timestamp()[1] / 1e3
        self._lag.note(partition, last.timestamp()[1] / 1e3)

    def _keep_in(
        self, partition: int, batch: MessageBatch, positions: Mapping[int, KafkaPosition]
    ) -> None:
        submission = Submission(
            SOURCE,
            batch.size_bytes,
            lambda _: None,
            records=batch.records,
            changes=batch.changes,
            offsets=self.assignment.packed(positions),
            quarantined=batch.quarantined,
        )
        outcome = self._owned[partition].commit(submission)
        self.assignment.take(positions)
        count_outcome(self._context.counters, SOURCE, outcome)

    def _find_place(self, log: GroupLog, partition: int) -> None:  # type: ignore[override]
        position = self.assignment.positions[partition]
        oldest, end = log.bounds(partition)
        if position.offset > end:
            self._stop(log, partition, "went_back")
        elif position.offset >= oldest:
            log.move(partition, position)
        elif self._options.on_gap == "stop":
            self._stop(log, partition, "gap")
        else:
            lost = oldest - max(0, position.offset)
            skipped = self.assignment.skipped_to(partition, oldest)
            self._keep_in(partition, MessageBatch(), skipped)
            self.figures.lost += lost
            self._log.error(
                "messages_lost", partition=partition, after_offset=position.offset, lost=lost
            )
            log.move(partition, skipped[partition])

    def _stop(self, log: GroupLog, partition: int, cause: Cause) -> None:  # type: ignore[override]
        offset = self.assignment.positions[partition].offset
        self._keep_in(partition, MessageBatch(), self.assignment.stopped_for(partition, cause))
        self._log.error(
            "partition_stopped",
            partition=partition,
            offset=offset,
            cause=cause,
            remedy=REMEDIES[cause],
        )
        log.drop(partition)
        self._show_stopped()

    def _look_after(self, log: GroupLog) -> None:  # type: ignore[override]
        if self._due.every(_DESCRIBE_EVERY_S, "describe"):
            self._shards.check_owned()
            topic = log.describe()
            if topic.identity != self.assignment.identity:
                raise RemoteError("the topic is another one now", hint="It is looked at anew")
            if topic.partitions != self._partitions:
                self._partitions = self.figures.partitions = topic.partitions
                self._log.warning("partitions_added", partitions=topic.partitions)
        if self._due.every(_SHOW_EVERY_S, "show"):
            reading = self.assignment.reading()
            shown = {each: place for each, place in reading.items() if place.offset >= 0}
            if shown:
                log.show(shown)
        if self._due.every(_MEASURE_EVERY_S, "measure"):
            self._measure_group(log)
        self._shards.maintain()

    def _measure_group(self, log: GroupLog) -> None:
        """Ask the brokers how far partitions go: what is cached may be of before an outage."""
        until: dict[int, float] = {}
        ends: dict[int, int] = {}
        reading = self.assignment.reading()
        for partition, position in reading.items():
            asked_at = self._context.clock.now()
            oldest, end = log.bounds(partition)
            ends[partition] = end
            if position.offset >= end or end == oldest:
                until[partition] = asked_at
            elif partition in self._written_at:
                until[partition] = self._written_at[partition]
        now = self._context.clock.now()
        self.figures.lag, self.figures.lag_s = self._lag.measure(reading, ends, now)
        self._shards.complete(until)

    def _show_stopped(self) -> None:
        causes = list(self.assignment.stopped().values())
        self.figures.stopped = {cause: causes.count(cause) for cause in REMEDIES}
