"""Answers in quarantine that are judged again, one after another, while nobody waits for it.

A language model may take minutes for one answer. An entry whose retry has begun stays in the
quarantine until the verdict is durable, and keeps the reason when judging fails again; after a
restart it is as it was before.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.identities import stored_id
from ragmon.daemon.ingest.lookup import stored_query
from ragmon.errors import StoreError
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOptions, LoopOwner
from ragmon.privacy import Policy
from ragmon.quarantine import AnswerContent, AnswerRetry, RetryFailedError, explain
from ragmon.records import Amendments, QueryRecord
from ragmon.sources import IngestOutcome, Submission, deliver
from ragmon.stores import amendments

_VERDICT_BYTES = 2_000  # about, for the queue's account
_LOOP = LoopOptions(
    failed="retry_paused", stall_s=900.0, is_vital=False, is_left_at_end=True
)  # a request may take minutes

_decode_record = msgspec.msgpack.Decoder(QueryRecord).decode


class _Task(NamedTuple):
    number: int  # of the entry
    content: AnswerContent


class AnswerRetries(LoopOwner):
    """Judges the answers of entries again, on its thread."""

    def __init__(self, engine: Engine, judges: Mapping[str, AnswerRetry], text: Policy) -> None:
        """Make it; nothing runs yet.

        Args:
            engine: with the quarantine.
            judges: those that are configured, by name.
            text: privacy of errors, which can quote an answer.
        """
        self._engine = engine
        self._entries = engine.thread.bind(engine.quarantine)
        self._judges = judges
        self._text = text
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._under_way: set[int] = set()
        self._lock = threading.Lock()
        self._log = structlog.get_logger("quarantine")
        self.loop = Loop("quarantine-retry", self._turn, self._log, options=_LOOP)

    def stop(self) -> None:
        """End; what is being judged is left to itself, and its entry stays."""
        self.loop.stop(0.0)

    def is_under_way(self, number: int) -> bool:
        """True from when a retry of an entry was asked for until its outcome is kept."""
        return number in self._under_way

    def check(self, content: AnswerContent) -> None:
        """Refuse at once what cannot be judged; it reads the store.

        Raises:
            RetryFailedError: the judge or the query is gone.
        """
        self._judge_of(content)
        self._stored(content.query_id)

    def begin(self, number: int, content: AnswerContent) -> bool:
        """Have an answer judged again; False when that is under way already."""
        with self._lock:
            if number in self._under_way:
                return False
            self._under_way.add(number)
        self._tasks.put(_Task(number, content))
        return True

    def _turn(self) -> float:
        try:
            task = self._tasks.get(timeout=BEAT_EVERY_S)
        except queue.Empty:
            return 0.0
        try:
            self._retry(task)
        finally:
            with self._lock:
                self._under_way.discard(task.number)
        return 0.0

    def _retry(self, task: _Task) -> None:
        if self._entries.ask(lambda entries: entries.find(task.number)) is None:
            return  # deleted or expired meanwhile
        error = self._failure_of(task.content)
        if error is None:
            self._entries.ask(lambda entries: entries.delete([task.number]))
        elif error:
            self._entries.ask(lambda entries: entries.note_attempt(task.number, error))

    def _failure_of(self, content: AnswerContent) -> str | None:
        """Judge an answer; the reason when that fails, empty at the end of ragmon."""
        try:
            return self._judge_again(content)
        except RetryFailedError as error:
            return str(error)
        except StoreError as error:
            return f"{error}; retry it later"
        except Exception as error:  # noqa: BLE001 - of this answer, and the entry says so
            self._log.exception("judging_defect", query_id=content.query_id)
            return explain(error, self._text)

    def _judge_again(self, content: AnswerContent) -> str | None:
        judge = self._judge_of(content)
        record, known = self._stored(content.query_id)
        verdict = judge.judge(record, known)
        make: Callable[[Callable[[IngestOutcome], None]], Submission] = partial(
            Submission, f"judge:{content.judge}", _VERDICT_BYTES, changes=[verdict]
        )
        outcome = deliver(self._engine.writer, make, self.loop.stopping)
        if outcome is None:
            return ""
        if not outcome.accepted + outcome.duplicates:
            raise RetryFailedError("the query was deleted or erased meanwhile; delete the entry")
        judge.on_verdict(record, verdict)
        return None

    def _judge_of(self, content: AnswerContent) -> AnswerRetry:
        judge = self._judges.get(content.judge)
        if judge is None:
            raise RetryFailedError(f"the judge {content.judge} is not configured any more")
        return judge

    def _stored(self, query_id: str) -> tuple[QueryRecord, Amendments]:
        with self._engine.store.reader() as reader:
            stored = stored_query(self._engine, reader, query_id)
        if stored is None or stored_id(stored[0]) != query_id:
            raise RetryFailedError("the query is no longer stored; delete the entry")
        known = amendments.decode(stored[1]).known if stored[1] else Amendments()
        return _decode_record(stored[0]), known
