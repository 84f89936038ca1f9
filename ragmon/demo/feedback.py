"""Feedback of the simulated users."""

import heapq
import math
from random import Random

from msgspec import Struct

from ragmon.demo.application import ServedQuery
from ragmon.demo.questions import KnownQuestion
from ragmon.records import Feedback

RATED = 0.2  # of the answers
_PLEASED_IF_HELPED = 0.92
_PLEASED_IF_NOT = 0.12
_AT_ONCE_S = 15.0  # A rating given so soon is logged together with its query.
_MEDIAN_DELAY_S = 25.0
_DELAY_SPREAD = 1.8


class Opinion(Struct, frozen=True):
    """One rating."""

    rating: float  # -1 or 1
    delay_s: float  # after the question

    @property
    def at_once(self) -> bool:
        """True if it came while the query was still being logged."""
        return self.delay_s < _AT_ONCE_S


def opinion(rng: Random, question: KnownQuestion, outcome: ServedQuery) -> Opinion | None:
    """The user's rating of one answer; None without one.

    Users are mostly pleased when the answer was taken from a chunk that answers their question,
    and mostly not when it was not; a few always say the opposite.
    """
    if rng.random() >= RATED:
        return None
    helped = question.relevant is not None and not question.relevant.isdisjoint(outcome.used)
    pleased = rng.random() < (_PLEASED_IF_HELPED if helped else _PLEASED_IF_NOT)
    delay_s = rng.lognormvariate(math.log(_MEDIAN_DELAY_S), _DELAY_SPREAD)
    return Opinion(1.0 if pleased else -1.0, delay_s)


class PendingFeedback:
    """Ratings still to come, given out when their time is there."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, str, Feedback]] = []

    def add(self, query_id: str, rating: float, at: float) -> None:
        """Keep a rating that will be given at unix second ``at``."""
        rated = Feedback(query_id=query_id, rating=rating, timestamp=at)
        heapq.heappush(self._waiting, (at, query_id, rated))

    def due(self, now: float) -> list[Feedback]:
        """The ratings given up to ``now``, in order; each is given out once."""
        ratings = []
        while self._waiting and self._waiting[0][0] <= now:
            ratings.append(heapq.heappop(self._waiting)[2])
        return ratings
