"""The thread that reads a topic: gather, decode, commit with the position, go on.

Whatever goes wrong, what is in hand is thrown away and read again from the stored position: a
position that is committed with its records alone would not do, as a consumer that goes on behind a
failed batch loses it without an error anywhere.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from ragmon.errors import OverloadedError, RemoteError, SettingsError
from ragmon.loops import Loop, LoopOptions, LoopOwner, beat, wait_for
from ragmon.sources import IngestOutcome, SourceContext, Submission, count_outcome
from ragmon.sources.kafka.assignment import Assignment
from ragmon.sources.kafka.batches import REMEDIES, SOURCE, Due, count_refusals, leader_epoch
from ragmon.sources.kafka.lag import Lag, LogFigures
from ragmon.sources.kafka.log import Fetched, LogMessage, OpenLog, PartitionedLog
from ragmon.sources.kafka.messages import MessageBatch, MessageDecoder
from ragmon.sources.kafka.options import Options
from ragmon.sources.kafka.positions import Cause, KafkaPosition

_MOST_MESSAGES = 4_000  # of one commit
_MOST_BYTES = 8 << 20
_FIRST_FETCH = 10  # messages, until their size is known
_FETCH = 1_000
_RETRY_S = 0.5
_DESCRIBE_EVERY_S = 10.0
_SHOW_EVERY_S = 5.0
_MEASURE_EVERY_S = 1.0
_LONGEST_PAUSE_S = 30.0  # of brokers that do not answer
_END_S = 1.5


class KafkaSource(LoopOwner):
    """One thread and the position of every partition."""

    def __init__(self, options: Options, context: SourceContext, open_log: OpenLog) -> None:
        """Make it; nothing is connected before its first turn.

        Args:
            options: of the source.
            context: of the source.
            open_log: connects to the topic.

        Raises:
            SettingsError: traces are to be read, and nobody takes them.
        """
        if options.format != "queries" and context.spans is None:
            raise SettingsError("this program takes no traces", hint="Run `ragmon serve`")
        self.figures = LogFigures(options.topic)
        self.assignment = Assignment(options.name, context.offset)
        self._options = options
        self._context = context
        self._open_log = open_log
        self._decoder = MessageDecoder(options, context)
        self._connection: PartitionedLog | None = None
        self._lag = Lag()
        self._largest = 0  # bytes of the largest message of the last batch
        self._due = Due(context.clock.monotonic)
        self._log = structlog.get_logger("kafka").bind(topic=options.topic)
        self.loop = Loop(
            options.name,
            self._turn,
            self._log,
            options=LoopOptions(
                failed="cannot_read",
                is_left_at_end=True,
                first_pause_s=1.0,
                longest_pause_s=_LONGEST_PAUSE_S,
            ),
            finish=self.begin_again,
        )

    def stop(self) -> None:
        """End after the batch under way; brokers that do not answer are not waited for."""
        self.loop.stop(_END_S)

    def _turn(self) -> float:
        self.step()
        return 0.0

    def step(self) -> bool:
        """Read and commit one batch; False when there was nothing to read.

        Raises:
            RemoteError: the brokers did not answer, or refused.
            StoreError: nothing was kept.
        """
        try:
            return self._step()
        except BaseException:
            self.begin_again()
            raise

    def begin_again(self) -> None:
        """Throw away what is in hand: the next step reads on from the stored positions."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _step(self) -> bool:
        log = self._connection or self._connect()
        self._look_after(log)
        fetched = self._gather(log)
        batch = self._decoder.batch(fetched.messages, self.assignment.is_behind)
        if batch.last:
            self._commit(log, batch)
        for partition in fetched.lost_place:
            self._find_place(log, partition)
        for partition in fetched.cut_off:
            self._stop(log, partition, "went_back")
        if self._due.every(_MEASURE_EVERY_S, "measure"):
            self._measure(log)
        return bool(batch.last or fetched.lost_place or fetched.cut_off)

    def _connect(self) -> PartitionedLog:
        log = self._connection = self._open_log()
        topic = log.describe()
        self.assignment.load(topic.identity, topic.partitions)
        self.figures.partitions = topic.partitions
        self._due.begin("describe")
        self._assign(log)
        for partition, cause in self.assignment.stopped().items():
            self._log.error("partition_stopped", partition=partition, cause=cause)
        self._log.info("connected", partitions=topic.partitions)
        return log

    def _assign(self, log: PartitionedLog) -> None:
        log.assign(self.assignment.reading())
        causes = Counter(self.assignment.stopped().values())
        self.figures.stopped = {cause: causes.get(cause, 0) for cause in REMEDIES}

    def _look_after(self, log: PartitionedLog) -> None:
        """Notice a topic that was made anew or got more partitions; show Kafka the position."""
        if self._due.every(_DESCRIBE_EVERY_S, "describe"):
            topic = log.describe()
            if topic.identity != self.assignment.identity:
                raise RemoteError("the topic is another one now", hint="It is looked at anew")
            self.figures.partitions = topic.partitions
            if self.assignment.extend(topic.partitions):
                self._log.warning("partitions_added", partitions=topic.partitions)
                self._assign(log)
        if self._due.every(_SHOW_EVERY_S, "show"):
            reading = self.assignment.reading()
            log.show({each: place for each, place in reading.items() if place.offset >= 0})

    def _gather(self, log: PartitionedLog) -> Fetched:
        """Messages of one commit: as many as come within the time, or as fit."""
        clock = self._context.clock
        deadline = clock.monotonic() + self._options.linger_s
        messages: list[LogMessage] = []
        lost_place: list[int] = []
        cut_off: list[int] = []
        size = 0
        while self._has_room(len(messages), size) and not lost_place:
            left_s = deadline - clock.monotonic()
            if left_s <= 0.0 or self.loop.stopping.is_set():
                break
            fetched = log.fetch(self._room(len(messages), size), left_s)
            messages += fetched.messages
            lost_place += fetched.lost_place
            cut_off += fetched.cut_off
            size += self._size_of(fetched.messages)
        return Fetched(messages, lost_place, cut_off)

    def _has_room(self, messages: int, size: int) -> bool:
        return messages < _MOST_MESSAGES and size < _MOST_BYTES

    def _size_of(self, messages: Sequence[LogMessage]) -> int:
        """Bytes of messages that were just fetched; the largest tells how many to ask for."""
        beat()
        sizes = [len(message.value() or b"") for message in messages]
        self._largest = max(sizes, default=self._largest)
        return sum(sizes)

    def _room(self, messages: int, size: int) -> int:
        """Messages to ask for, so that large ones do not fill the memory."""
        most = min(_FETCH, _MOST_MESSAGES - messages)
        if not self._largest:
            return min(most, _FIRST_FETCH)
        return max(1, min(most, (_MOST_BYTES - size) // self._largest))

    def _commit(self, log: PartitionedLog, batch: MessageBatch) -> None:
        ends = {
            partition: (message.offset() + 1, leader_epoch(message))
            for partition, message in batch.last.items()
        }
        self._keep(log, batch, self.assignment.moved(ends))
        count_refusals(self._context, self.figures, batch, self._log)
        for partition, message in batch.last.items():
            self._lag.note(partition, message.timestamp()[1] / 1e3)

    def _keep(
        self, log: PartitionedLog, batch: MessageBatch, positions: Mapping[int, KafkaPosition]
    ) -> None:
        """Commit contents and positions together; nothing is fetched while the store is busy.

        Raises:
            RemoteError: ragmon ends.
            StoreError: nothing was kept.
        """
        offsets = self.assignment.packed(positions)
        sink = self._context.spans

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            return Submission(
                SOURCE,
                batch.size_bytes,
                reply,
                records=batch.records,
                changes=batch.changes,
                spans=batch.spans,
                offsets=offsets,
                quarantined=batch.quarantined,
            )

        def delivered(outcome: IngestOutcome) -> None:
            if outcome.error is None and batch.spans and sink is not None:
                sink.deliver(batch.spans)

        with _Paused(log) as paused:
            while sink is not None and batch.spans and sink.is_behind:
                self._wait(paused)
            outcome = self._submit(make, delivered, paused)
        self.assignment.take(positions)
        count_outcome(self._context.counters, SOURCE, outcome)

    def _submit(
        self,
        make: Callable[[Callable[[IngestOutcome], None]], Submission],
        delivered: Callable[[IngestOutcome], None],
        paused: "_Paused",
    ) -> IngestOutcome:
        """Hand over as soon as there is room, and wait until it is durable."""
        done = threading.Event()
        outcomes: list[IngestOutcome] = []

        def reply(outcome: IngestOutcome) -> None:
            delivered(outcome)
            outcomes.append(outcome)
            done.set()

        while True:
            try:
                self._context.sink.submit(make(reply))
                break
            except OverloadedError:
                self._wait(paused)
        wait_for(done)
        if outcomes[0].error is not None:
            raise outcomes[0].error
        return outcomes[0]

    def _wait(self, paused: "_Paused") -> None:
        paused.begin()
        if self.loop.stopping.wait(_RETRY_S):
            raise RemoteError("ragmon ends", hint="It is read again after the start")
        beat()

    def _find_place(self, log: PartitionedLog, partition: int) -> None:
        """Go on, or stop, at a partition that has no message at its position."""
        position = self.assignment.positions[partition]
        oldest, end = log.bounds(partition)
        if position.offset > end:
            self._stop(log, partition, "went_back")
        elif position.offset >= oldest or position.stopped:
            self._assign(log)  # it has one now
        elif self._options.on_gap == "stop":
            self._stop(log, partition, "gap")
        else:
            lost = oldest - max(0, position.offset)
            self._keep(log, MessageBatch(), self.assignment.skipped_to(partition, oldest))
            self.figures.lost += lost
            self._log.error(
                "messages_lost", partition=partition, after_offset=position.offset, lost=lost
            )
            self._assign(log)

    def _stop(self, log: PartitionedLog, partition: int, cause: Cause) -> None:
        """Read a partition no further, also after a restart."""
        position = self.assignment.positions[partition]
        self._keep(log, MessageBatch(), self.assignment.stopped_for(partition, cause))
        self._log.error(
            "partition_stopped",
            partition=partition,
            offset=position.offset,
            cause=cause,
            remedy=REMEDIES[cause],
        )
        self._assign(log)

    def _measure(self, log: PartitionedLog) -> None:
        reading = self.assignment.reading()
        ends = log.ends(sorted(reading))
        lag, seconds = self._lag.measure(reading, ends, self._context.clock.now())
        self.figures.lag, self.figures.lag_s = lag, seconds


class _Paused:
    """A log that fetches nothing from ``begin`` to the end of the block."""

    def __init__(self, log: PartitionedLog) -> None:
        self._log = log
        self._is_paused = False

    def __enter__(self) -> "_Paused":
        return self

    def begin(self) -> None:
        """Pause, unless it is paused."""
        if not self._is_paused:
            self._is_paused = True
            self._log.pause()

    def __exit__(self, *_: object) -> None:
        if self._is_paused:
            self._log.resume()
