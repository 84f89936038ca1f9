"""Has the sampled judge grade the answers that were drawn, within the budget.

What waits stands in the store, written with the draw and deleted with the verdict, so that a
crash neither forgets an answer nor judges one twice. What a judgement may cost is stored as
spent before it is asked for. Judging happens on threads of its own, which are not waited for at
the end: a request may take minutes, and its answer is then asked for again after the restart.
"""

import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.daemon.judging import verdicts
from ragmon.daemon.judging.failure_log import BAD_PROMPT, FailureLog
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.daemon.judging.session_turns import Earlier, no_turns
from ragmon.daemon.judging.shared_budget import NAME, SharedBudget
from ragmon.errors import StoreError
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges.budget import Reservation
from ragmon.judges.llm import Failure, JudgedAnswer, Judgement
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOptions
from ragmon.privacy import Policy
from ragmon.quarantine import RetryFailedError, answer_item, explain
from ragmon.records import Amendments, Draw, QueryRecord, Verdict, shard_of
from ragmon.signals.evidence import SAMPLED_JUDGE
from ragmon.stores import Reader
from ragmon.stores.protocols import Awaited
from ragmon.stores.quarantine import QuarantinedItem

EXPIRED = "expired"
DEFECT = "judging_defect"

_MOST_EXPIRED = 500  # in one turn
_QUEUED_EACH = 2  # answers a thread has before it at most: a crash has paid for them in vain
_TRIES = 3  # of an answer whose judgement failed where trying again may help
_FIRST_PAUSE_S = 60.0  # until then it is left alone, doubling
_LOOP = LoopOptions(
    failed="judging_paused", stall_s=900.0, is_vital=False, is_left_at_end=True
)  # a request may take minutes
_VERDICT_BYTES = 2_000  # about, for the queue's account


class AnswerJudge(Protocol):
    """Grades one answer after another, such as ``LlmJudge``."""

    def judge(self, case: JudgedAnswer) -> Judgement | Failure:
        """Grade one answer."""
        ...

    def forecast_usd(self, case: JudgedAnswer) -> float:
        """The most that can cost."""
        ...

    def opens_in(self) -> float:
        """Seconds until the endpoint is asked again."""
        ...

    def close(self) -> None:
        """Release the connections."""
        ...


class Task(NamedTuple):
    """One answer to grade."""

    sequence: int
    record: QueryRecord
    draw: Draw
    reservation: Reservation


class Tried(NamedTuple):
    """Failed attempts at an answer."""

    times: int
    until: float  # monotonic; not tried again before


class SampledJudgeOptions(Struct, frozen=True, kw_only=True):
    """Limits of the sampled judge."""

    max_age_s: float  # an answer that waits for longer is given up
    threads: int  # requests at a time
    on_verdict: Callable[[QueryRecord, Verdict], None]  # called once it is durable
    text: Policy = "keep"  # for errors, which can quote an answer
    custom: Mapping[str, Callable[[JudgedAnswer], Judgement | Failure]] = {}
    """Custom judges by name, asked about the same answers."""
    earlier: Earlier = no_turns


class SampledJudge:
    """Judges on its threads what waits, started by the schedule and going on while there is any."""

    def __init__(
        self,
        judge: AnswerJudge,
        judge_queue: JudgeQueue,
        budget: SharedBudget,
        clock: Clock,
        metrics: JudgeMetrics,
        *,
        options: SampledJudgeOptions,
    ) -> None:
        self._judge = judge
        self._judge_queue = judge_queue
        self._budget = budget
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._under_way: set[int] = set()
        self._tried: dict[int, Tried] = {}
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._log = structlog.get_logger("judging")
        self._failure_log = FailureLog(self._log, judge.opens_in)
        self.loops = [
            Loop(f"judge-{number}", self._work, self._log, options=_LOOP)
            for number in range(options.threads)
        ]

    def start(self) -> None:
        """Begin; ``dispatch`` is to be called on schedule."""
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        """End; requests under way are left to themselves, and asked again after a restart."""
        self._stop.set()
        self._give_back()
        for loop in self.loops:
            loop.stop(0.0)
        for _ in self.loops:
            self._tasks.put(None)
        try:
            self._save_spent()
        except StoreError as error:
            self._log.warning("cannot_save_budget", error=str(error))

    @property
    def ending(self) -> threading.Event:
        """Set from when it was told to end."""
        return self._stop

    def case_of(self, record: QueryRecord) -> JudgedAnswer:
        """The question, answer and texts that the judge reads."""
        return verdicts.case_of(record, self._options.earlier(record))

    def dispatch(self) -> None:
        """Expire what waited for too long, and give out what the budget and the queue hold."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if not self._stop.is_set():
                self._dispatch()
                self._judge_queue.count()
        finally:
            self._turn.release()

    def _dispatch(self) -> None:
        with self._judge_queue.open() as reader:
            self._expire(reader)
            room = _QUEUED_EACH * len(self.loops) - len(self._under_way)
            tasks = self._tasks_for(reader, room) if self._judge.opens_in() <= 0 else []
        if tasks:
            self._give(tasks)

    def _tasks_for(self, reader: Reader, room: int) -> list[Task]:
        tasks: list[Task] = []
        for row in self._judge_queue.waiting(self._under_way):
            if len(tasks) >= room:
                break
            if self._is_due(row.sequence):
                task = self._task(reader, row)
                if task is None:
                    break
                tasks.append(task)
        return tasks

    def _expire(self, reader: Reader) -> None:
        """Give up answers that waited for too long."""
        before = self._clock.now() - self._options.max_age_s
        for row in self._judge_queue.overdue(before, _MOST_EXPIRED):
            answer = None if row.sequence in self._under_way else self._opened(reader, row)
            if answer is not None:
                record, draw = answer
                verdict = verdicts.unjudged(draw, EXPIRED, self._clock.now())
                self._commit(record, row.sequence, [verdict])

    def _task(self, reader: Reader, row: Awaited) -> Task | None:
        """The answer and what is set aside for it; None when the budget is used up."""
        answer = self._opened(reader, row)
        if answer is None:
            return None  # expired this very moment; the next turn goes on behind it
        record, draw = answer
        reservation = self._budget.admit(self._judge.forecast_usd(self.case_of(record)))
        return None if reservation is None else Task(row.sequence, record, draw, reservation)

    def _opened(self, reader: Reader, row: Awaited) -> tuple[QueryRecord, Draw] | None:
        """The answer; one whose record is gone is counted as expired and awaited no longer."""
        answer = self._judge_queue.read(reader, row)
        if answer is None:
            self._metrics.judged(SAMPLED_JUDGE, EXPIRED)
        return answer

    def _give(self, tasks: Sequence[Task]) -> None:
        self._save_spent()
        self._under_way.update(task.sequence for task in tasks)
        for task in tasks:
            self._tasks.put(task)

    def _give_back(self) -> None:
        """Return what was set aside for answers that no thread took up: they were not asked for."""
        while True:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                return
            if task is not None:
                self._budget.cancel(task.reservation)

    def _save_spent(self) -> None:
        self._judge_queue.remember(NAME, self._budget.dump)

    def _is_due(self, sequence: int) -> bool:
        tried = self._tried.get(sequence)
        return tried is None or self._clock.monotonic() >= tried.until

    def _work(self) -> float:
        """Grade the next answer, when there is one."""
        try:
            task = self._tasks.get(timeout=BEAT_EVERY_S)
        except queue.Empty:
            return 0.0
        if task is None:
            return 0.0  # only to look whether this is the end
        if self._stop.is_set():
            self._budget.cancel(task.reservation)
            return 0.0
        try:
            self._grade(task)
            if self._tasks.empty():
                self.dispatch()
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - of one answer, which must not be tried for ever
            self._log.exception("judging_defect", query_id=task.record.query_id)
            self._tried[task.sequence] = Tried(_TRIES, math.inf)  # left to expire
        finally:
            self._under_way.discard(task.sequence)
        return 0.0

    def judge_again(
        self, record: QueryRecord, known: Amendments, judge: str = SAMPLED_JUDGE
    ) -> Verdict:
        """Grade an answer on which grading failed before, on the caller's thread.

        Raises:
            RetryFailedError: it fails again, or the budget is used up.
            StoreError: what it may cost cannot be written down.
        """
        if known.draw is None:
            raise RetryFailedError("the answer was never drawn; delete the entry")
        reservation = self._budget.admit(self._judge.forecast_usd(self.case_of(record)))
        if reservation is None:
            raise RetryFailedError("the budget of the judge is used up for now; retry it later")
        self._save_spent()
        try:
            got = self._ask(record, judge)
            verdict = self._verdict(record, known.draw, got, judge)
        except Exception as error:  # noqa: BLE001 - of this answer
            self._log.exception("judging_defect", query_id=record.query_id)
            raise RetryFailedError(explain(error, self._options.text)) from None
        if _was_not_asked(got):
            self._budget.cancel(reservation)
        else:
            self._budget.settle(reservation, got.cost_usd or 0.0)
        if isinstance(got, Failure):
            raise RetryFailedError(f"{got.reason}: {got.detail}")
        return verdict

    def _ask(self, record: QueryRecord, judge: str) -> Judgement | Failure:
        ask = self._judge.judge if judge == SAMPLED_JUDGE else self._options.custom[judge]
        started = self._clock.monotonic()
        got = ask(self.case_of(record))
        self._metrics.observe_seconds(judge, self._clock.monotonic() - started)
        self._metrics.add_usage(judge, got.tokens.prompt, got.tokens.completion, got.cost_usd)
        self._failure_log.note(judge, got)
        if isinstance(got, Failure):
            self._metrics.failed(judge, got.cause or got.reason)
        return got

    def _verdict(
        self, record: QueryRecord, draw: Draw, got: Judgement | Failure, judge: str
    ) -> Verdict:
        now = self._clock.now()
        if judge == SAMPLED_JUDGE:
            return verdicts.verdict_of(record, draw, got, now)
        return verdicts.custom_verdict(record, draw, judge, got, now)

    def _grade(self, task: Task) -> None:
        """Ask the judge, then the custom ones; a failure that may pass tries all of them again.

        What was answered before comes from the cache then. What a defect may have cost stays in
        the budget as spent. A prompt that cannot be used holds up no other judge: the answer goes
        to the quarantine.
        """
        graded: list[Verdict] = []
        quarantined: list[QuarantinedItem] = []
        cost_usd: float | None = 0.0
        for judge in (SAMPLED_JUDGE, *self._options.custom):
            try:
                got = self._ask(task.record, judge)
                verdict = self._verdict(task.record, task.draw, got, judge)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - of one answer, not to be tried for ever
                item = self._defect(task, judge, error)
                quarantined.append(item)
                verdict = verdicts.unjudged(task.draw, DEFECT, item.at, judge)
                cost_usd = None
            else:
                if judge == SAMPLED_JUDGE and _was_not_asked(got):
                    self._budget.cancel(task.reservation)
                    return
                if cost_usd is not None:
                    cost_usd += got.cost_usd or 0.0
                if isinstance(got, Failure) and got.retryable and self._tries_again(task.sequence):
                    self._settle(task, cost_usd)
                    return
                if isinstance(got, Failure) and got.reason == BAD_PROMPT:
                    quarantined.append(self._unread(task, judge, got))
            graded.append(verdict)
        self._settle(task, cost_usd)
        self._tried.pop(task.sequence, None)
        self._commit(task.record, task.sequence, graded, quarantined)

    def _settle(self, task: Task, cost_usd: float | None) -> None:
        if cost_usd is not None:
            self._budget.settle(task.reservation, cost_usd)

    def _defect(self, task: Task, judge: str, error: Exception) -> QuarantinedItem:
        """The entry of an answer on which a judge failed by a defect."""
        query_id = task.record.query_id
        self._log.exception("judging_defect", query_id=query_id, judge=judge)
        cause = (DEFECT, explain(error, self._options.text))
        return answer_item(self._clock.now(), query_id, judge, cause)

    def _unread(self, task: Task, judge: str, failure: Failure) -> QuarantinedItem:
        """The entry of an answer that a custom judge's prompt kept from being graded."""
        cause = (failure.reason, failure.detail)
        return answer_item(self._clock.now(), task.record.query_id, judge, cause)

    def _tries_again(self, sequence: int) -> bool:
        times = self._tried[sequence].times + 1 if sequence in self._tried else 1
        pause = _FIRST_PAUSE_S * 2.0 ** (times - 1)
        self._tried[sequence] = Tried(times, self._clock.monotonic() + pause)
        return times < _TRIES

    def _commit(
        self,
        record: QueryRecord,
        number: int,
        graded: Sequence[Verdict],
        quarantined: Sequence[QuarantinedItem] = (),
    ) -> None:
        places = {record.query_id: number} if shard_of(number) else {}
        if self._judge_queue.commit(graded, self._stop, quarantined, places):
            for verdict in graded:
                self._options.on_verdict(record, verdict)


def _was_not_asked(got: Judgement | Failure) -> bool:
    """True while the endpoint is left alone."""
    return isinstance(got, Failure) and got.reason == "circuit_open" and not got.tokens.prompt
