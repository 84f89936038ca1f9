"""Anchors: fixed answers that the sampled judge grades again and again, to see it drift.

The first round stands for what the judge was; each later one is compared with it. Another file
or another model begins anew. Rounds are paid for by the same budget, and wait until it has room.
"""

from collections.abc import Callable

import msgspec
import structlog
import xxhash
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.daemon.judging.shared_budget import NAME as BUDGET
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.errors import StoreError
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges.llm import Failure, JudgedAnswer, Judgement, LlmJudge
from ragmon.judges.llm.anchors import Anchor, Round, drift, judge_anchors
from ragmon.loops import Loop, LoopOptions, LoopOwner, beat
from ragmon.signals.evidence import SAMPLED_JUDGE

NAME = "judge.anchors"
"""Name under which the store keeps the rounds."""

_LOOK_EVERY_S = 600.0
_LOOP = LoopOptions(
    stall_s=900.0, is_vital=False, is_left_at_end=True
)  # one request may take minutes


class SavedRounds(Struct, frozen=True):
    """The rounds as the store keeps them."""

    of: int  # hash of the anchors and the model
    at: float  # unix seconds of the last round
    first: Round
    last: Round


class AnchorPlan(Struct, frozen=True, kw_only=True):
    """The anchors, and how often which model judges them."""

    anchors: tuple[Anchor, ...]
    every_s: float
    model: str


class AnchorRounds(LoopOwner):
    """Thread that judges a round of anchors whenever one is due."""

    def __init__(
        self,
        plan: AnchorPlan,
        judge: LlmJudge,
        budget: SharedBudget,
        clock: Clock,
        metrics: JudgeMetrics,
        *,
        save: Callable[[str, bytes], None],
    ) -> None:
        self._anchors = plan.anchors
        self._judge = judge
        self._every_s = plan.every_s
        self._of = _identity(plan)
        self._budget = budget
        self._clock = clock
        self._metrics = metrics
        self._save = save
        self._log = structlog.get_logger("anchors")
        self.loop = Loop("anchors", self._turn, self._log, options=_LOOP)
        self.rounds: SavedRounds | None = None

    def load(self, body: bytes | None) -> None:
        """Go on with the rounds of before a restart, if they are of these anchors."""
        saved = msgspec.msgpack.decode(body, type=SavedRounds) if body else None
        self.rounds = saved if saved is not None and saved.of == self._of else None

    def stop(self) -> None:
        """End, without waiting; a round under way is not counted."""
        self.loop.stop(0.0)
        self._judge.close()

    def _turn(self) -> float:
        if self._is_due():
            self._judge_round()
        return min(_LOOK_EVERY_S, self._every_s)

    def _is_due(self) -> bool:
        """True when it is time for a round, and the budget holds all of it."""
        if self.rounds is not None and self._clock.now() - self.rounds.at < self._every_s:
            return False
        return self._judge.opens_in() <= 0 and self._budget.rate_and_room(0, 0.0)[1] >= len(
            self._anchors
        )

    def _judge_round(self) -> None:
        last = judge_anchors(_BudgetedJudge(self), self._anchors)
        if self.loop.stopping.is_set():
            return
        if last.mean is None:
            self._log.warning("anchors_failed", failed=last.failed)
            return  # nothing to compare with; the next look tries again
        first = last if self.rounds is None else self.rounds.first
        self.rounds = SavedRounds(self._of, self._clock.now(), first, last)
        try:
            self._save(NAME, msgspec.msgpack.encode(self.rounds))
        except StoreError as error:
            self._log.warning("cannot_save_anchors", error=str(error))

    def scores(self) -> dict[str, float]:
        """The mean score of the last round, by judge."""
        mean = self.rounds.last.mean if self.rounds else None
        return {} if mean is None else {SAMPLED_JUDGE: mean}

    def drifts(self) -> dict[str, float]:
        """Change of the mean score from the first round to the last, by judge."""
        moved = drift(self.rounds.first, self.rounds.last) if self.rounds else None
        return {} if moved is None else {SAMPLED_JUDGE: moved}

    def judge_within_budget(self, case: JudgedAnswer) -> Judgement | Failure:
        """Judge one anchor at the budget's expense."""
        beat()
        reservation = self._budget.admit(self._judge.forecast_usd(case))
        if reservation is None or not self._is_stored():
            return Failure(reason="rate_limited", detail="the budget is used up", retryable=True)
        got = self._judge.judge(case)
        self._budget.settle(reservation, got.cost_usd or 0.0)
        self._metrics.add_usage(
            SAMPLED_JUDGE, got.tokens.prompt, got.tokens.completion, got.cost_usd
        )
        return got

    def _is_stored(self) -> bool:
        """Store what is set aside, before anything is asked; False when that fails."""
        try:
            self._save(BUDGET, self._budget.dump())
        except StoreError as error:
            self._log.warning("cannot_save_budget", error=str(error))
            return False
        return not self.loop.stopping.is_set()


class _BudgetedJudge:
    """Judge that pays for each anchor out of the budget."""

    def __init__(self, rounds: AnchorRounds) -> None:
        self._rounds = rounds

    def judge(self, case: JudgedAnswer) -> Judgement | Failure:
        """Grade one."""
        return self._rounds.judge_within_budget(case)


def _identity(plan: AnchorPlan) -> int:
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode((plan.anchors, plan.model))) >> 1
