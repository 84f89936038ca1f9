"""Pairwise preference of a judge, each pair asked in both orders.

Judges tend to prefer what they read first (or last). Only a preference that survives the swap
counts; the rest are reported as inconsistent, with the position that they favour.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from ragmon.evaluate.compare.comparison import SharedCases
from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.parallel import Track, in_parallel
from ragmon.stats.intervals import wilson_cc

Choice = Literal["first", "second", "tie"]

NOT_CONFIGURED = "needs an LLM judge; none is configured (judge.llm)"
NO_ANSWERS = (
    "the two files share no case with an answer; run `ragmon evaluate` again on both to add answers"
)


class CandidatePair(NamedTuple):
    """One question with the answers of two systems."""

    query: str
    old: str
    new: str
    reference: str | None = None  # the true answer, where it is known


class OrderedPair(NamedTuple):
    """One question with two answers in the order in which the judge sees them."""

    query: str
    first: str
    second: str
    reference: str | None = None


class PreferenceJudge(Protocol):
    """Compares two answers, in the order in which they are shown."""

    name: str
    concurrency: int  # pairs at a time

    def prefer(self, pair: OrderedPair) -> Choice | None:
        """The better answer; None: it could not be judged, which is counted in ``usage``."""
        ...

    def usage(self) -> UsageSummary:
        """Pairs judged and failed, tokens and cost until now."""
        ...


class Preferences(Struct, frozen=True):
    """Counts over all pairs. ``usage`` is written to JSON under its old name ``account``."""

    wins: int  # the new answer, in both orders
    losses: int
    ties: int  # called a tie, or not the same in both orders
    inconsistent: int  # of the ties: the choice followed the position
    first_shown: int  # of the inconsistent: the answer shown first was preferred
    failed: int = 0  # not judged in both orders, and counted nowhere else
    lost: tuple[str, ...] = ()  # the questions to which the old answer is better
    won: tuple[str, ...] = ()
    usage: UsageSummary | None = field(default=None, name="account")

    @property
    def win_share(self) -> float | None:
        """Wins over wins and losses; None without either."""
        decided = self.wins + self.losses
        return self.wins / decided if decided else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the win share."""
        share = self.win_share
        return None if share is None else wilson_cc(share, self.wins + self.losses)

    @property
    def position_bias(self) -> float | None:
        """First over all inconsistent choices, from −1 (always second) to 1; None without any."""
        if not self.inconsistent:
            return None
        return 2.0 * self.first_shown / self.inconsistent - 1.0


def preferences(
    pairs: Sequence[CandidatePair], judge: PreferenceJudge, track: Track = iter
) -> Preferences:
    """Ask the judge twice about each pair, with the answers swapped.

    Args:
        pairs: answers to compare; equal ones are a tie without a request.
        judge: compares two answers.
        track: wraps the work, to show progress.
    """
    won: list[str] = []
    lost: list[str] = []
    ties = inconsistent = first_shown = failed = 0
    choices = in_parallel(lambda pair: _both_orders(pair, judge), pairs, judge.concurrency, track)
    for pair, (straight, swapped) in zip(pairs, choices, strict=True):
        if straight is None or swapped is None:
            failed += 1
        elif (straight, swapped) == ("second", "first"):
            won.append(pair.query)
        elif (straight, swapped) == ("first", "second"):
            lost.append(pair.query)
        else:
            ties += 1
            if straight == swapped != "tie":
                inconsistent += 1
                first_shown += straight == "first"
    return Preferences(
        wins=len(won),
        losses=len(lost),
        ties=ties,
        inconsistent=inconsistent,
        first_shown=first_shown,
        failed=failed,
        lost=tuple(lost),
        won=tuple(won),
        usage=judge.usage(),
    )


def candidate_pairs(
    first: Evaluation, second: Evaluation, paired: SharedCases, most: int
) -> list[CandidatePair]:
    """The shared cases that both answered, evenly chosen where there are more than ``most``."""
    pairs = []
    for a, b in zip(paired.rows_first, paired.rows_second, strict=True):
        old, new = first.cases[a], second.cases[b]
        if old.answer and new.answer:
            pairs.append(CandidatePair(old.query, old.answer, new.answer, new.truth))
    step = max(1.0, len(pairs) / max(1, most))
    return [pairs[int(at * step)] for at in range(min(most, len(pairs)))]


def _both_orders(
    pair: CandidatePair, judge: PreferenceJudge
) -> tuple[Choice | None, Choice | None]:
    query, old, new, reference = pair
    if old.split() == new.split():
        return "tie", "tie"
    straight = judge.prefer(OrderedPair(query, old, new, reference))
    if straight is None:
        return None, None  # the other order alone would decide nothing, and cost as much
    return straight, judge.prefer(OrderedPair(query, new, old, reference))
