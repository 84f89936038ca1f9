"""Follower of the store: a judge of its own process reads every answer, or a known share of them.

Once the score is known, answers are drawn here for the sampled judge, too.

How far it read is committed together with the verdicts, so that a crash repeats and skips
nothing. While the judge keeps up every answer is read; behind its capacity a share drawn by the
hash of the query id is, and the probability of being drawn is kept with each verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.daemon.judging.committed_reader import CommittedReader, DrawnBatch
from ragmon.daemon.judging.grounding_process import JudgeHungError, JudgeProcess
from ragmon.daemon.judging.session_turns import Chunks
from ragmon.daemon.judging.verdicts import question_of
from ragmon.judges.grounding import GroundingResult
from ragmon.judges.worker import AnswerToRead
from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.records import Draw, QueryRecord, Verdict, number_of, sequence_of
from ragmon.signals.evidence import EMBEDDED_JUDGE
from ragmon.sources import IngestOutcome, RecordSink, Submission, deliver
from ragmon.stores import Reader

_CATCH_UP_S = 30.0  # the backlog the judge may need this long for before answers are left out
_LEAST_SHARE = 0.001
_LONGEST_SPAN = 8_192  # records looked at for one batch
_POLL_S = 0.5
_VERDICT_BYTES = 1_000  # about, for the queue's account
_RETRY_S = 2.0
_REMEMBERED = 500  # records before those to judge, whose conversations may go on
_TRIES = 2  # of an answer on its own, before it is left out
HUNG, CRASHED, TOO_LONG = "judge_hung", "judge_crashed", "judge_too_long"
"""Reasons why an answer was left out."""

LONGEST = 8 << 20
"""Characters of one answer with its question and chunks; the judge takes several times as much."""


class Progress(NamedTuple):
    """Place that the follower has reached."""

    numbers: Mapping[int, int]  # of the next record to look at, by shard
    share: float  # with which answers are drawn now


class FollowerRole(Struct, frozen=True, kw_only=True):
    """The judge that a follower asks."""

    judge: str = EMBEDDED_JUDGE
    loop: str = "grounding"
    """Name of its thread."""
    batch: int = 32
    """Answers judged at a time."""
    first_rate: float = 100.0
    """Answers a second, until measured."""
    set_aside: frozenset[str] = frozenset()
    """Reasons of results that are defects: their answers are skipped, too."""


def no_draws(_: object, __: object, ___: float) -> list[Draw]:
    """The sampled judge is off."""
    return []


def _as_it_is(_: str, verdict: Verdict) -> Verdict:
    return verdict


def _keep_nothing(_: QueryRecord, __: str, ___: str) -> None:
    """The answer stays in the store, with a verdict that says why it was not judged."""


class VerdictHooks(Struct, frozen=True, kw_only=True):
    """Functions through which verdicts pass."""

    on_verdict: Callable[[QueryRecord, Verdict], None]  # called once it is durable
    draws: Callable[[Sequence[QueryRecord], Sequence[Verdict], float], list[Draw]] = no_draws
    """For the sampled judge; committed together with the verdicts."""
    calibrated: Callable[[str, Verdict], Verdict] = _as_it_is
    """The verdict as its pipeline reads the score."""
    on_skip: Callable[[QueryRecord, str, str], None] = _keep_nothing
    """Called with an answer that the judge was not able to read, the reason and the error."""


class GroundingFollower(LoopOwner):
    """One thread that reads, asks the worker, and submits verdicts."""

    def __init__(
        self,
        committed: CommittedReader,
        sink: RecordSink,
        worker: "JudgeProcess | None",
        clock: Clock,
        hooks: VerdictHooks,
        *,
        role: FollowerRole | None = None,
    ) -> None:
        self._committed = committed
        self._sink = sink
        self._worker = worker  # none: answers are only drawn
        self._clock = clock
        self._hooks = hooks
        role = role or FollowerRole()
        self._role = role
        self._turns = committed.turns
        self._log = structlog.get_logger(role.loop)
        self._rate = role.first_rate
        self.progress = Progress({}, 1.0)
        self.restarts = 0  # of the process, after it ended or hung
        self._reader: Reader | None = None
        self.loop = Loop(
            role.loop,
            self._turn,
            self._log,
            options=LoopOptions(failed=f"{role.loop}_failed", first_pause_s=_RETRY_S),
            finish=self._close,
        )

    def stop(self) -> None:
        """End; a batch under way is finished or comes again after the restart."""
        self.loop.stop(0.0)
        if self._worker is not None:
            self._worker.stop()  # in the middle of a batch
        self.loop.stop()

    def abort(self) -> None:
        """Kill the judge's process."""
        if self._worker is not None:
            self._worker.stop()

    @property
    def backlog(self) -> int:
        """Records not looked at yet."""
        return sum(self._backlogs().values())

    def _backlogs(self) -> dict[int, int]:
        """Records not looked at yet, by shard; of one that is new here all of them."""
        reached = self.progress.numbers
        return {
            shard: max(0, newest - reached.get(shard, number_of(shard, 0)))
            for shard, newest in self._committed.newest().items()
        }

    def resume(self) -> None:
        """Find out from where to go on."""
        shards = self._committed.newest()
        self.progress = Progress({shard: self._committed.begin(shard) for shard in shards}, 1.0)
        self._committed.keep_for(self._share)

    def _turn(self) -> float:
        if self._reader is None:
            self.resume()
            self._reader = self._committed.open()
            self.recall(self._reader)
        try:
            return 0.0 if self.step(self._reader) else _POLL_S
        except BaseException:
            if self._worker is not None and not self.loop.stopping.is_set():
                self._worker.restart()  # it may be in the middle of a reply
            raise

    def recall(self, reader: Reader) -> None:
        """Remember the conversations that went on when the last run ended."""
        for shard, end in self.progress.numbers.items():
            at = max(number_of(shard, 0), end - _REMEMBERED)
            while self._turns.is_remembering and at < end:
                drawn = self._committed.drawn(reader, at, end, 1.0)
                self._turns.remember(drawn.answers)
                at = drawn.end

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def step(self, reader: Reader) -> bool:
        """Judge one batch; False when there is nothing new.

        Raises:
            EOFError: the worker ended.
            StoreError: the store cannot be read.
        """
        backlogs = self._backlogs()
        shard = max(backlogs, key=lambda each: backlogs[each])  # the one that is most behind
        if not backlogs[shard]:
            return False
        share = self._share()
        at = self._reached(shard)
        most = min(_LONGEST_SPAN, int(self._role.batch / share), backlogs[shard])
        batch = self._committed.drawn(reader, at, at + most, share)
        drawn = batch.answers
        self._turns.remember(drawn)
        verdicts = self._judge(drawn, share) if drawn else []
        if not self._deliver([*verdicts, *self._hooks.draws(drawn, verdicts, share)], batch, shard):
            return False
        if self._worker is not None:
            for record, verdict in zip(drawn, verdicts, strict=True):
                self._hooks.on_verdict(record, verdict)
        self.progress = Progress({**self.progress.numbers, shard: batch.end}, share)
        return True

    def _reached(self, shard: int) -> int:
        """Number of the next record of a shard to look at; where it is new here, from its start."""
        reached = self.progress.numbers.get(shard)
        return self._committed.begin(shard) if reached is None else reached

    def _share(self) -> float:
        """All while the judge needs less than half a minute for the backlog, else fewer."""
        capacity = self._rate * _CATCH_UP_S
        return 1.0 if self.backlog <= capacity else max(_LEAST_SHARE, capacity / self.backlog)

    def _judge(self, drawn: Sequence[QueryRecord], share: float) -> list[Verdict]:
        if self._worker is None:
            return []
        started = self._clock.monotonic()
        scored = self._bounded(self._worker, drawn)
        took = max(1e-3, self._clock.monotonic() - started)
        self._rate += 0.2 * (len(drawn) / took - self._rate)
        for record, result in zip(drawn, scored, strict=True):
            if result.reason_none in self._role.set_aside:
                self._hooks.on_skip(record, result.reason_none or "", result.note)
        now, judge = self._clock.now(), self._role.judge
        return [
            self._hooks.calibrated(
                record.pipeline, grounding_verdict(record, result, share, now, judge)
            )
            for record, result in zip(drawn, scored, strict=True)
        ]

    def _bounded(self, worker: JudgeProcess, drawn: Sequence[QueryRecord]) -> list[GroundingResult]:
        """Results in order; what is too long is left out without being read."""
        readable = [record for record in drawn if not is_too_long(record)]
        if len(readable) == len(drawn):
            return self._scored(worker, drawn)
        scored = iter(self._scored(worker, readable) if readable else ())
        return [
            self._left_out(record, TOO_LONG) if is_too_long(record) else next(scored)
            for record in drawn
        ]

    def _left_out(self, record: QueryRecord, reason: str) -> GroundingResult:
        self._log.error("answer_not_judged", query_id=record.query_id, reason=reason)
        self._hooks.on_skip(record, reason, "")
        return GroundingResult(None, reason, (), (), "")

    def _scored(
        self, worker: JudgeProcess, drawn: Sequence[QueryRecord], tries: int = _TRIES
    ) -> list[GroundingResult]:
        """Results in order; what ends or stops the process is found by halves, and left out.

        Raises:
            OSError: the process cannot be started.
            JudgeStartError: its model cannot be loaded.
            EOFError: told to stop meanwhile.
        """
        try:
            return worker.judge(
                [grounding_case(record, self._turns.earlier(record)) for record in drawn]
            )
        except (EOFError, JudgeHungError) as error:
            if self.loop.stopping.is_set():
                raise
            self.restarts += 1
            worker.restart()
            reason = HUNG if isinstance(error, JudgeHungError) else CRASHED
            self._log.warning("judge_restarted", reason=reason, answers=len(drawn))
            if len(drawn) > 1:
                half = len(drawn) // 2
                return [*self._scored(worker, drawn[:half]), *self._scored(worker, drawn[half:])]
            if tries > 1:  # it may have been ended or stopped by somebody else
                return self._scored(worker, drawn, tries - 1)
            return [self._left_out(drawn[0], reason)]

    def _deliver(self, verdicts: Sequence[Verdict | Draw], batch: DrawnBatch, shard: int) -> bool:
        """Commit the verdicts and draws with the position; False when told to stop.

        Those for another shard are handed to its owner by the same commit.
        """
        source = self._committed.source
        position = (self._committed.source_of(shard), str(sequence_of(batch.end)).encode())
        ids = [record.query_id for record in batch.answers] if shard else []
        places = dict(zip(ids, batch.numbers, strict=False))

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            size_bytes = _VERDICT_BYTES * len(verdicts)
            return Submission(
                source, size_bytes, reply, changes=verdicts, offsets=[position], places=places
            )

        return deliver(self._sink, make, self.loop.stopping) is not None


def is_too_long(record: QueryRecord) -> bool:
    """True for an answer whose texts no judge is given."""
    chunks = sum(len(chunk.text) for chunk in record.chunks or () if chunk.text)
    return chunks + len(record.query or "") + len(record.answer or "") > LONGEST


def grounding_case(record: QueryRecord, earlier: Chunks = ()) -> AnswerToRead:
    """The texts that the judge reads.

    Args:
        record: of the answer.
        earlier: chunks of the turns before.
    """
    texts = [chunk.text for chunk in record.chunks or () if chunk.text]
    before = tuple(text for _, text in earlier)
    return AnswerToRead(question_of(record), record.answer or "", texts, before)


def grounding_verdict(
    record: QueryRecord,
    result: GroundingResult,
    share: float,
    now: float,
    judge: str = EMBEDDED_JUDGE,
) -> Verdict:
    """The verdict of a result, of an answer that was drawn with a share of all."""
    return Verdict(
        query_id=record.query_id,
        judge=judge,
        score=result.score,
        reason=result.reason_none or "",
        probability=share,
        doubts=result.doubts,
        traits=result.traits,
        version=result.version,
        timestamp=now,
    )
