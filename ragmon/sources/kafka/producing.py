"""Queries into a topic: what arrives over HTTP is durable in the log, keyed by its id.

One thread sends and hears of what was delivered. A batch is answered once all of its messages
are in the topic; where one is not, nothing of it is promised: whoever sends it again sends some
messages twice, which whoever reads the topic knows by their ids.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog

from ragmon.clock import Clock
from ragmon.errors import LogWriteError, OverloadedError, RagmonError
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOptions, LoopOwner, beat
from ragmon.records import QueryRecord
from ragmon.sources import IngestOutcome, Submission
from ragmon.sources.kafka.producer import MessageTooLargeError, TopicProducer

TOO_LARGE = "too_large_for_topic"
"""Reason of a query that the topic has no room for."""

_POLL_S = 0.02
_STOP_S = 2.0
_RETRY_AFTER_S = 2
_OPTIONS = LoopOptions(failed="produce_failed", is_vital=False, longest_pause_s=5.0)
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class _Batch:
    """A submission under way."""

    submission: Submission
    began_at: float  # monotonic seconds
    left: int  # messages whose outcome is not known
    refused: list[tuple[int, str]] = field(default_factory=list)
    error: RagmonError | None = None


class TopicWriter(LoopOwner):
    """Implements ``ragmon.sources.RecordSink`` for queries."""

    def __init__(
        self,
        connect: Callable[[], TopicProducer],
        admit: Callable[[QueryRecord], QueryRecord],
        clock: Clock,
        *,
        queue_bytes: int,
        on_batch: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Make the thread; it does not run yet.

        Args:
            connect: makes a producer of the topic.
            admit: a query as it may be stored, with its texts redacted.
            clock: of the daemon.
            queue_bytes: of batches that may wait; more are refused.
            on_batch: called with the seconds that each batch took.
        """
        self.produced = {"delivered": 0, "failed": 0, "too_large": 0}
        """Messages, by outcome."""
        self.last_error: RagmonError | None = None
        self.failing_since = 0.0  # unix seconds; while there is a last error
        self._connect = connect
        self._admit = admit
        self._clock = clock
        self._limit = queue_bytes
        self._on_batch = on_batch
        self._queued_bytes = 0
        self._waiting: deque[Submission] = deque()
        self._under_way: set[_Batch] = set()
        self._lock = threading.Lock()
        self._has_ended = False
        self._producer: TopicProducer | None = None
        log = structlog.get_logger("produce")
        self.loop = Loop(
            "produce", self.step, log, _OPTIONS, finish=self._finish, died=self._give_up
        )

    def submit(self, submission: Submission) -> None:
        """Queue a batch of queries; its ``reply`` is called once all are in the topic.

        Raises:
            OverloadedError: the queue is full; nothing was kept.
        """
        with self._lock:
            full = self._queued_bytes + submission.size_bytes > self._limit
            if self._has_ended or (full and self._queued_bytes):
                message = "the queue of queries for the topic is full"
                raise OverloadedError(message, retry_after_s=_RETRY_AFTER_S)
            self._queued_bytes += submission.size_bytes
            self._waiting.append(submission)
        self.loop.wake()

    def stop(self) -> None:
        """Send what waits, for a moment, and end; whatever is not in the topic then is refused."""
        self.loop.stop(2 * _STOP_S)

    def step(self) -> float:
        """Send what waits and hear of what was delivered; returns the seconds to wait."""
        producer = self._producer if self._under_way else None
        if producer is None:
            producer = self._ready()
        while self._waiting:
            self._send(producer, self._waiting.popleft())
        producer.poll(_POLL_S if self._under_way else 0.0)
        return 0.0 if self._under_way else BEAT_EVERY_S

    def _ready(self) -> TopicProducer:
        """The producer, or another where it can send no more; after a failure brokers answer it.

        Otherwise everybody who sends would wait for as long as a message may take.
        """
        try:
            if self._producer is None or self._producer.is_broken:
                self._producer = self._connect()
            if self.last_error is not None:
                self._producer.check()
        except RagmonError as error:
            self._note(error)
            self._refuse_waiting(error)
            raise
        self.last_error = None
        return self._producer

    def _send(self, producer: TopicProducer, submission: Submission) -> None:
        records = submission.records
        batch = _Batch(submission, self._clock.monotonic(), len(records))
        self._under_way.add(batch)
        try:
            messages = [(each.query_id.encode(), _encode(self._admit(each))) for each in records]
        except BaseException:
            self._answer(batch, LogWriteError("a query could not be encoded"))
            raise
        for at, (key, value) in enumerate(messages):
            while not producer.send(key, value, partial(self._delivered, batch, at)):
                producer.poll(_POLL_S)
                beat()

    def _delivered(self, batch: _Batch, at: int, error: RagmonError | None) -> None:
        batch.left -= 1
        if error is None:
            self.produced["delivered"] += 1
        elif isinstance(error, MessageTooLargeError):
            self.produced["too_large"] += 1
            batch.refused.append((at, TOO_LARGE))
        else:
            self.produced["failed"] += 1
            batch.error = error
        if not batch.left and batch in self._under_way:
            self._note(batch.error)
            self._answer(batch, batch.error)

    def _answer(self, batch: _Batch, error: RagmonError | None) -> None:
        self._under_way.discard(batch)
        self._on_batch(self._clock.monotonic() - batch.began_at)
        self._reply(batch.submission, error, batch.refused)

    def _reply(
        self, submission: Submission, error: RagmonError | None, refused: list[tuple[int, str]]
    ) -> None:
        with self._lock:
            self._queued_bytes -= submission.size_bytes
        if error is None:
            accepted = len(submission.records) - len(refused)
            submission.reply(IngestOutcome(accepted, refused=sorted(refused)))
        else:
            submission.reply(IngestOutcome(error=LogWriteError(str(error))))

    def _note(self, error: RagmonError | None) -> None:
        """Remember how the last batch ended: until one succeeds ragmon is not ready."""
        if error is not None and self.last_error is None:
            self.failing_since = self._clock.now()
        self.last_error = error

    def _refuse_waiting(self, error: RagmonError) -> None:
        while self._waiting:
            self._reply(self._waiting.popleft(), error, [])

    def _give_up(self) -> None:
        """Answer everybody, since the thread has ended."""
        error = LogWriteError("the thread that writes to the topic has ended")
        for batch in list(self._under_way):
            self._answer(batch, error)
        self._refuse_waiting(error)

    def _finish(self) -> None:
        """Wait for what is under way, and take no more."""
        until = self._clock.monotonic() + _STOP_S
        while (self._waiting or self._under_way) and self._clock.monotonic() < until:
            self.step()
        with self._lock:
            self._has_ended = True
        self._give_up()
