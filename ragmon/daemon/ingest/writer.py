"""The one thread that writes: it groups what waits into one commit, and owns the windows.

What needs the windows or the store runs between two commits, by way of ``WriterThread``.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.daemon.ingest.parts import size_of, split
from ragmon.errors import OverloadedError, StoreError
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOptions
from ragmon.sources import IngestOutcome, Submission
from ragmon.threads import Call, WriterThread

_GROUP_RECORDS = 4_000
_PART_RECORDS = 2_000  # of a submission that is larger than a group
_LINGER_S = 0.002  # under load a group this much larger costs less than it waits
_RETRY_AFTER_S = 2
_LOOP = LoopOptions(failed="writer_failed", first_pause_s=0.05, longest_pause_s=5.0)
_ENDED = "the writer has ended"


class Commits(Protocol):
    """Makes groups of submissions durable."""

    def commit(self, group: Sequence[Submission], now: float) -> None:
        """Make the group durable and count it, or raise StoreError and keep nothing."""
        ...


class WriterStats(Struct):
    """Counts of the writer, read by the exposition."""

    failures: int = 0
    version: int = 0  # changes whenever the windows may have
    stored_at: dict[str, float] = {}  # unix seconds of the last batch, by source


class Writer:
    """A bounded queue and the thread that empties it."""

    def __init__(
        self,
        commits: Commits,
        clock: Clock,
        *,
        queue_bytes: int,
        on_commit: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Make the thread; it does not run yet.

        Args:
            commits: makes a group of submissions durable.
            clock: of the daemon.
            queue_bytes: of submissions that may wait; more are refused.
            on_commit: called with the seconds that each commit took.
        """
        self.stats = WriterStats()
        self.queued_bytes = 0
        self.last_error: StoreError | None = None
        self.failing_since = 0.0  # unix seconds; while there is a last error
        self.commits = commits
        self._on_commit = on_commit
        self._clock = clock
        self._limit = queue_bytes
        self._submissions: deque[Submission] = deque()
        self._calls: deque[Call[Any]] = deque()
        self._group: list[Submission] = []  # under way, not answered yet
        self._called: list[Call[Any]] = []  # under way
        self._wake = threading.Condition()
        self._stopping = False
        self._ended = False
        self._busy = False
        self._log = structlog.get_logger("writer")
        self.loop = Loop(
            "writer",
            self._turn,
            self._log,
            options=_LOOP,
            finish=self._finish,
            died=self._fail_all,
        )
        self.thread = WriterThread(self._enqueue, lambda: self.loop.thread)

    def start(self) -> None:
        """Begin."""
        self.loop.start()

    def submit(self, submission: Submission) -> None:
        """Queue a batch; its ``reply`` is called on the writer's thread once it is durable.

        Raises:
            OverloadedError: the queue is full; nothing was kept.
        """
        with self._wake:
            if self.loop.has_ended:
                raise OverloadedError(_ENDED, retry_after_s=_RETRY_AFTER_S)
            full = self.queued_bytes + submission.size_bytes > self._limit
            if self._stopping or (full and self._submissions):
                raise OverloadedError("the ingest queue is full", retry_after_s=_RETRY_AFTER_S)
            self.queued_bytes += submission.size_bytes
            self._submissions.append(submission)
            self._wake.notify()

    def stop(self, timeout_s: float) -> bool:
        """Commit what is queued, refuse what comes, end; False when time ran out."""
        with self._wake:
            self._stopping = True
            self.loop.stop(0.0)
            self._wake.notify()
        return self.loop.stop(timeout_s)

    def note_write(self, error: StoreError | None) -> None:
        """Remember how a write ended: until one succeeds ragmon is not ready."""
        if error is not None and self.last_error is None:
            self.failing_since = self._clock.now()
        self.last_error = error

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self.loop.is_alive

    def _enqueue(self, call: Call[Any]) -> None:
        with self._wake:
            if self._ended or self.loop.has_ended:
                raise StoreError(_ENDED)
            self._calls.append(call)
            self._wake.notify()

    def _turn(self) -> float:
        """Wait for work and do what waits; whatever ends a turn, nobody waits for it in vain."""
        with self._wake:
            if not (self._submissions or self._calls or self._stopping):
                self._wake.wait(BEAT_EVERY_S)
            if not (self._submissions or self._calls):
                return 0.0
            linger = self._busy and not self._stopping
        if linger:
            self._clock.sleep(_LINGER_S)
        try:
            self._work()
        except BaseException as error:
            self._fail_taken(StoreError(f"internal error: {type(error).__name__}"))
            raise
        return 0.0

    def _work(self) -> None:
        with self._wake:
            self._called = list(self._calls)
            self._calls.clear()
            self._group = self._take()
        if self._group:
            self._commit(self._group)
        for call in self._called:
            call()
        self._group, self._called = [], []

    def _finish(self) -> None:
        """Do what still waits, then refuse."""
        try:
            while True:
                with self._wake:
                    if not (self._submissions or self._calls):
                        self._ended = True
                        return
                self._turn()
        finally:  # nothing waits, unless a turn failed
            self._ended = True
            self._fail_all()

    def _fail_taken(self, error: StoreError) -> None:
        """Answer what was taken from the queues and is not done."""
        taken, called = self._group, self._called
        self._group, self._called = [], []
        for call in called:
            call.fail(error)
        unanswered = [batch for batch in taken if not batch.is_answered]
        if unanswered:
            self._fail(unanswered, error)

    def _fail_all(self) -> None:
        """Answer everything that waits for a thread that has ended."""
        with self._wake:
            self._called += self._calls
            self._calls.clear()
            self._group += self._submissions
            self._submissions.clear()
        self._fail_taken(StoreError(_ENDED))

    def _take(self) -> list[Submission]:
        """Take the next group; of a large submission a part, and the rest waits behind others.

        A submission with an offset is whole: the offset stands for all of it.
        """
        group: list[Submission] = []
        room = _GROUP_RECORDS
        while self._submissions and room > 0:
            size = size_of(self._submissions[0])
            if group and size > room:
                break
            submission = self._submissions.popleft()
            if size > _GROUP_RECORDS and not submission.offsets:
                submission, rest = split(submission, _PART_RECORDS)
                self._submissions.append(rest)
            room -= size_of(submission)
            group.append(submission)
        self._busy = len(group) > 1
        return group

    def _commit(self, group: list[Submission]) -> None:
        started = self._clock.monotonic()
        try:
            self.commits.commit(group, self._clock.now())
            self.note_write(None)
        except StoreError as error:
            self._fail(group, error)
        except BaseException as error:  # noqa: BLE001 - it is logged and counted, and others go on
            self._isolate(group, error)
        else:
            self._succeed(group, self._clock.monotonic() - started)

    def _succeed(self, group: list[Submission], seconds: float) -> None:
        self.stats.version += 1
        self._on_commit(seconds)
        now = self._clock.now()
        for batch in group:
            self.stats.stored_at[batch.source] = now
            accepted = len(batch.records) + len(batch.changes)
            accepted -= batch.duplicates + len(batch.refused)
            self._reply(batch, IngestOutcome(accepted, batch.duplicates, batch.refused))

    def _fail(self, group: list[Submission], error: StoreError) -> None:
        self.stats.failures += 1
        self.note_write(error)
        self._log.error("commit_failed", reason=error.reason, error=str(error))
        for batch in group:
            self._reply(batch, IngestOutcome(error=error))

    def _isolate(self, group: list[Submission], error: BaseException) -> None:
        """A defect of ours in one batch must not refuse its neighbours."""
        if len(group) == 1:
            self._log.exception("commit_defect", source=group[0].source)
            self._fail(group, StoreError(f"internal error: {type(error).__name__}"))
            return
        for batch in group:
            batch.duplicates = 0
            batch.refused.clear()
            self._commit([batch])

    def _reply(self, submission: Submission, outcome: IngestOutcome) -> None:
        submission.is_answered = True
        with self._wake:
            self.queued_bytes -= submission.size_bytes
        try:
            submission.reply(outcome)
        except Exception as error:  # noqa: BLE001 - such as a closed event loop; of the sender alone
            self._log.warning("reply_failed", source=submission.source, error=str(error))
