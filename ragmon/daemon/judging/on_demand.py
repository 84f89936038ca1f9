"""Judging past answers when somebody asks: a second draw, whose chances join those of the first.

So many answers are taken from a stretch of time, each with the same chance p, on top of what was
drawn on schedule with chance q: each is in either with 1 - (1 - q)(1 - p). All answers of that
stretch get this as their weight, so that the estimate stays unbiased. What is drawn waits in the
same queue and is paid for by the same budget.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from ragmon.api_schema import JudgeForecast, JudgeProgress
from ragmon.clock import Clock
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.daemon.judging.sampled_judge import SampledJudge
from ragmon.daemon.judging.selection import NO_PROXY
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.daemon.judging.verdicts import judgeable
from ragmon.errors import OverloadedError
from ragmon.judges.llm import LlmJudge
from ragmon.records import Amendments, Draw, QueryRecord
from ragmon.sampling import SALT, draws
from ragmon.signals.evidence import EMBEDDED_JUDGE, SAMPLED_JUDGE, verdict_of
from ragmon.stores import Reader, amendments
from ragmon.web.judge_runs import JudgeRunSelection
from ragmon.windows.observations import unpack

_BATCH = 500
_MOST_ANSWERS = 1_000_000  # of the newest
_FORECAST_FROM = 200  # answers; their mean speaks for more

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class StoredAnswer(NamedTuple):
    """One answer of the stretch."""

    query_id: str
    sequence: int
    draw: Draw | None
    is_judged: bool
    proxy: float


class JudgeRunPlan(NamedTuple):
    """Answers that a request selects, and those it draws."""

    answers: list[StoredAnswer]
    chosen: list[bool]  # by the new draw
    probability: float  # of the new draw, the same for each

    @property
    def asked(self) -> list[int]:
        """Sequence numbers of the answers that the judge will be asked about because of it."""
        pairs = zip(self.answers, self.chosen, strict=True)
        return [
            answer.sequence
            for answer, chosen in pairs
            if chosen and not answer.is_judged and not (answer.draw and answer.draw.drawn)
        ]


class JudgeRuns:
    """Plans and draws runs, and reports their progress."""

    def __init__(
        self,
        judge_queue: JudgeQueue,
        llm: LlmJudge,
        budget: SharedBudget,
        judge: SampledJudge,
        clock: Clock,
    ) -> None:
        self._judge_queue = judge_queue
        self._llm = llm
        self._budget = budget
        self._judge = judge
        self._clock = clock
        self._turn = threading.Lock()  # a second draw over the same answers has to see the first

    async def forecast(self, selection: JudgeRunSelection) -> JudgeForecast:
        """Answers, tokens and cost of a run; nothing is drawn."""
        return await asyncio.to_thread(self._forecast, selection)

    async def draw(self, selection: JudgeRunSelection) -> JudgeForecast:
        """Draw, and have them judged."""
        return await asyncio.to_thread(self._draw, selection)

    async def progress(self) -> JudgeProgress:
        """State of the queue."""
        return await asyncio.to_thread(self._progress)

    def _forecast(self, selection: JudgeRunSelection) -> JudgeForecast:
        with self._judge_queue.open() as reader:
            return self._described(reader, plan(reader, selection, self._clock.now()))

    def _draw(self, selection: JudgeRunSelection) -> JudgeForecast:
        with self._turn:
            with self._judge_queue.open() as reader:
                planned = plan(reader, selection, self._clock.now())
                described = self._described(reader, planned)
            for batch in _batches(redrawn(planned, self._clock.now())):
                if not self._judge_queue.commit(batch, self._judge.ending):
                    raise OverloadedError("ragmon is ending", retry_after_s=5)
        self._judge.dispatch()
        return replace(described, **asdict(self._progress()))

    def _progress(self) -> JudgeProgress:
        _, room = self._budget.rate_and_room(0, 0.0)
        return JudgeProgress(
            waiting=self._judge_queue.count(),
            paused_s=self._llm.opens_in(),
            budget_left=None if np.isinf(room) else int(room),
        )

    def _described(self, reader: Reader, planned: JudgeRunPlan) -> JudgeForecast:
        count = len(planned.asked)
        opened = [reader.record(sequence) for sequence in planned.asked[:_FORECAST_FROM]]
        cases = [self._judge.case_of(_decode(each[0])) for each in opened if each is not None]
        scale = count / max(len(cases), 1)
        most_usd = scale * sum(self._llm.forecast_usd(case) for case in cases)
        tokens = [self._llm.forecast(case) for case in cases]
        mean = self._budget.cost_usd(0.0)
        return JudgeForecast(
            answers=len(planned.answers),
            judged_before=sum(each.is_judged for each in planned.answers),
            to_judge=count,
            at_most_tokens=int(scale * sum(each.prompt + each.completion for each in tokens)),
            at_most_usd=most_usd or None,
            about_usd=count * mean if mean and most_usd else None,
            **asdict(self._progress()),
        )


def plan(reader: Reader, selection: JudgeRunSelection, now: float) -> JudgeRunPlan:
    """A sample of the answers since a moment: each with the same chance, and no more than asked."""
    answers = list(_answers(reader, selection, now))
    salt = SALT ^ int(now)  # another draw each time
    order = np.argsort(draws((each.query_id for each in answers), salt), kind="stable")
    chosen = np.zeros(len(answers), dtype=bool)
    chosen[order[: selection.limit]] = True
    probability = min(1.0, selection.limit / max(len(answers), 1))
    return JudgeRunPlan(answers, chosen.tolist(), probability)


def redrawn(planned: JudgeRunPlan, now: float) -> Iterator[Draw]:
    """Every answer of the stretch with its new chance."""
    p = planned.probability
    for answer, chosen in zip(planned.answers, planned.chosen, strict=True):
        before = answer.draw
        if before is None:
            yield Draw(
                query_id=answer.query_id,
                probability=p,
                proxy=answer.proxy,
                drawn=chosen,
                timestamp=now,
            )
        else:
            yield replace(
                before,
                probability=1.0 - (1.0 - before.probability) * (1.0 - p),
                drawn=before.drawn or chosen,
                round=before.round + 1,
                timestamp=now,
            )


def _answers(reader: Reader, selection: JudgeRunSelection, now: float) -> Iterator[StoredAnswer]:
    count = 0
    for block in reader.blocks(selection.since, now):
        observations = unpack(block.observations, ())
        inside = (observations.timestamps >= selection.since) & (observations.timestamps <= now)
        if selection.pipeline:
            mine = np.array([dims[0] == selection.pipeline for dims in observations.dims])
            inside &= mine[observations.dim_index]
        records = reader.records(block.first_sequence) if inside.any() else []
        for at in np.flatnonzero(inside[: len(records)]).tolist():
            record = _decode(records[at])
            if judgeable(record) and count < _MOST_ANSWERS:
                count += 1
                sequence = block.first_sequence + at
                body = block.amendments.get(sequence)
                known = amendments.decode(body).known if body else Amendments()
                yield _stored_answer(record.query_id, sequence, known)


def _stored_answer(query_id: str, sequence: int, known: Amendments) -> StoredAnswer:
    scored = verdict_of(known, EMBEDDED_JUDGE)
    proxy = NO_PROXY if scored is None or scored.score is None else scored.score
    is_judged = verdict_of(known, SAMPLED_JUDGE) is not None
    return StoredAnswer(query_id, sequence, known.draw, is_judged, proxy)


def _batches(draws: Iterator[Draw]) -> Iterator[list[Draw]]:
    batch: list[Draw] = []
    for draw in draws:
        batch.append(draw)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
