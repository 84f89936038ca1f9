"""Which of two answers a judge prefers, asked both ways round.

Judges tend to prefer what they read first (or last). Only a preference that survives the swap
counts; how often it does not, and which way it leans, is reported beside.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from ragmon.stats.intervals import wilson_cc

Choice = Literal["first", "second", "tie"]

NOT_CONFIGURED = "needs an LLM judge; none is configured"


class Duel(NamedTuple):
    """One question with the answers of two systems."""

    query: str
    old: str
    new: str


class Preferrer(Protocol):
    """Compares two answers, in the order in which they are shown."""

    name: str

    def prefer(self, query: str, first: str, second: str) -> Choice:
        """Which is better."""
        ...


class Preferences(Struct, frozen=True):
    """What came of all duels."""

    wins: int  # the new answer, both ways round
    losses: int
    ties: int  # called a tie, or not the same both ways round
    inconsistent: int  # of the ties: the choice followed the position
    first_shown: int  # of the inconsistent: whatever stood first was preferred

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


def preferences(duels: Iterable[Duel], judge: Preferrer) -> Preferences:
    """Ask the judge twice about each pair, with the answers swapped."""
    wins = losses = ties = inconsistent = first_shown = 0
    for query, old, new in duels:
        straight, swapped = judge.prefer(query, old, new), judge.prefer(query, new, old)
        if (straight, swapped) == ("second", "first"):
            wins += 1
        elif (straight, swapped) == ("first", "second"):
            losses += 1
        else:
            ties += 1
            if straight == swapped != "tie":
                inconsistent += 1
                first_shown += straight == "first"
    return Preferences(wins, losses, ties, inconsistent, first_shown)
