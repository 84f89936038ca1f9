"""Which of two answers a judge prefers, asked both ways round.

Judges tend to prefer what they read first (or last). Only a preference that survives the swap
counts; how often it does not, and which way it leans, is reported beside.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from ragmon.evaluate.compare.comparison import SharedCases
from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.parallel import Track, each_of
from ragmon.stats.intervals import wilson_cc

Choice = Literal["first", "second", "tie"]

NOT_CONFIGURED = "needs an LLM judge; none is configured (judge.llm)"
NO_ANSWERS = "the two share no answered case; score both again to have answers in the files"


class Duel(NamedTuple):
    """One question with the answers of two systems."""

    query: str
    old: str
    new: str
    reference: str | None = None  # the true answer, where it is known


class Shown(NamedTuple):
    """What the judge sees, in this order."""

    query: str
    first: str
    second: str
    reference: str | None = None


class Preferrer(Protocol):
    """Compares two answers, in the order in which they are shown."""

    name: str
    concurrency: int  # pairs at a time

    def prefer(self, shown: Shown) -> Choice | None:
        """Which is better; None: it could not be asked, which the account says."""
        ...

    def account(self) -> UsageSummary:
        """What asking took."""
        ...


class Preferences(Struct, frozen=True):
    """What came of all duels."""

    wins: int  # the new answer, both ways round
    losses: int
    ties: int  # called a tie, or not the same both ways round
    inconsistent: int  # of the ties: the choice followed the position
    first_shown: int  # of the inconsistent: whatever stood first was preferred
    failed: int = 0  # not judged both ways, and counted nowhere else
    lost: tuple[str, ...] = ()  # the questions to which the old answer is better
    won: tuple[str, ...] = ()
    account: UsageSummary | None = None

    @property
    def win_share(self) -> float | None:
        """Wins over wins and losses; None without either."""
        decided = self.wins + self.losses
        return self.wins / decided if decided else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the win share, 95 %."""
        share = self.win_share
        return None if share is None else wilson_cc(share, self.wins + self.losses)

    @property
    def position_bias(self) -> float | None:
        """First over all inconsistent choices, from −1 (always second) to 1; None without any."""
        if not self.inconsistent:
            return None
        return 2.0 * self.first_shown / self.inconsistent - 1.0


def preferences(duels: Sequence[Duel], judge: Preferrer, track: Track = iter) -> Preferences:
    """Ask the judge twice about each pair, with the answers swapped.

    Args:
        duels: the pairs; equal answers are a tie that nobody is asked about.
        judge: who is asked.
        track: wraps the work, to show progress.
    """
    won: list[str] = []
    lost: list[str] = []
    ties = inconsistent = first_shown = failed = 0
    choices = each_of(lambda duel: _both(duel, judge), duels, judge, track)
    for duel, (straight, swapped) in zip(duels, choices, strict=True):
        if straight is None or swapped is None:
            failed += 1
        elif (straight, swapped) == ("second", "first"):
            won.append(duel.query)
        elif (straight, swapped) == ("first", "second"):
            lost.append(duel.query)
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
        account=judge.account(),
    )


def duels_of(first: Evaluation, second: Evaluation, paired: SharedCases, most: int) -> list[Duel]:
    """The shared cases that both answered, evenly chosen where there are more than ``most``."""
    found = []
    for a, b in zip(paired.rows_first, paired.rows_second, strict=True):
        old, new = first.cases[a], second.cases[b]
        if old.answer and new.answer:
            found.append(Duel(old.query, old.answer, new.answer, new.truth))
    step = max(1.0, len(found) / max(1, most))
    return [found[int(at * step)] for at in range(min(most, len(found)))]


def _both(duel: Duel, judge: Preferrer) -> tuple[Choice | None, Choice | None]:
    query, old, new, reference = duel
    if old.split() == new.split():
        return "tie", "tie"
    straight = judge.prefer(Shown(query, old, new, reference))
    if straight is None:
        return None, None  # the other way round would be paid for in vain
    return straight, judge.prefer(Shown(query, new, old, reference))
