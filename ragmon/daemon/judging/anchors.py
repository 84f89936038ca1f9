"""Fixed answers that the sampled judge grades again and again: what changes then is the judge.

The first round stands for what the judge was; each later one is compared with it. Another file
or another model begins anew. Rounds are paid for by the same budget, and wait until it has room.
"""

from collections.abc import Callable, Sequence

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
from ragmon.signals.evidence import SAMPLED_JUDGE
from ragmon.threads import Loop

NAME = "judge.anchors"
"""Under which the store remembers the rounds."""

_LOOK_EVERY_S = 600.0


class AnchorSource(Struct, frozen=True):
    """What the store keeps."""

    of: int  # tells the file and the model
    at: float  # unix seconds of the last round
    first: Round
    last: Round


class AnchorRounds:
    """Thread that judges a round of anchors whenever one is due."""

    def __init__(
        self,
        anchors: Sequence[Anchor],
        judge: LlmJudge,
        *,
        every_s: float,
        model: str,
        budget: SharedBudget,
        clock: Clock,
        metrics: JudgeMetrics,
        remembered: bytes | None,
        save: Callable[[str, bytes], None],
    ) -> None:
        self._anchors = tuple(anchors)
        self._judge = judge
        self._every_s = every_s
        self._of = _identity(anchors, model)
        self._budget = budget
        self._clock = clock
        self._metrics = metrics
        self._save = save
        self._log = structlog.get_logger("anchors")
        self._loop = Loop("anchors", self._turn, self._log)
        known = msgspec.msgpack.decode(remembered, type=AnchorSource) if remembered else None
        self.rounds = known if known is not None and known.of == self._of else None

    def start(self) -> None:
        """Begin, without waiting."""
        self._loop.start()

    def stop(self) -> None:
        """End, without waiting; a round under way is not counted."""
        self._loop.stop(0.0)
        self._judge.close()

    def _turn(self) -> float:
        if self._is_due():
            self._judge_round()
        return min(_LOOK_EVERY_S, self._every_s)

    def _is_due(self) -> bool:
        """Whether it is time for a round, and the budget holds all of it."""
        if self.rounds is not None and self._clock.now() - self.rounds.at < self._every_s:
            return False
        return self._judge.opens_in() <= 0 and self._budget.pace(0, 0.0)[1] >= len(self._anchors)

    def _judge_round(self) -> None:
        found = judge_anchors(_Paid(self), self._anchors)
        if self._loop.stopping.is_set():
            return
        if found.mean is None:
            self._log.warning("anchors_failed", failed=found.failed)
            return  # nothing to compare with; the next look tries again
        first = found if self.rounds is None else self.rounds.first
        self.rounds = AnchorSource(self._of, self._clock.now(), first, found)
        try:
            self._save(NAME, msgspec.msgpack.encode(self.rounds))
        except StoreError as error:
            self._log.warning("cannot_save_anchors", error=str(error))

    def scores(self) -> dict[str, float]:
        """The mean score of the last round, by judge."""
        mean = self.rounds.last.mean if self.rounds else None
        return {} if mean is None else {SAMPLED_JUDGE: mean}

    def drifts(self) -> dict[str, float]:
        """How far the last round lies above the first, by judge."""
        moved = drift(self.rounds.first, self.rounds.last) if self.rounds else None
        return {} if moved is None else {SAMPLED_JUDGE: moved}

    def paid(self, case: JudgedAnswer) -> Judgement | Failure:
        """Judge one anchor at the budget's expense."""
        reservation = self._budget.admit(self._judge.forecast_usd(case))
        if reservation is None or not self._is_stored():
            return Failure(reason="rate_limited", detail="the budget is used up", retryable=True)
        got = self._judge.judge(case)
        self._budget.settle(reservation, got.cost_usd or 0.0)
        self._metrics.spent(SAMPLED_JUDGE, got.tokens.prompt, got.tokens.completion, got.cost_usd)
        return got

    def _is_stored(self) -> bool:
        """What is set aside stands in the store before anything is asked."""
        try:
            self._save(BUDGET, self._budget.dump())
        except StoreError as error:
            self._log.warning("cannot_save_budget", error=str(error))
            return False
        return not self._loop.stopping.is_set()


class _Paid:
    """What grades the anchors."""

    def __init__(self, anchoring: AnchorRounds) -> None:
        self._anchoring = anchoring

    def judge(self, case: JudgedAnswer) -> Judgement | Failure:
        """Grade one."""
        return self._anchoring.paid(case)


def _identity(anchors: Sequence[Anchor], model: str) -> int:
    return xxhash.xxh3_64_intdigest(msgspec.msgpack.encode((list(anchors), model))) >> 1
