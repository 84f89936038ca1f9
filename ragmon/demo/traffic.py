"""Simulated traffic: times, users and their choice of questions.

The shape of a day, returning users who stay on one release, and questions of which some are asked
far more often than others. Nothing here reads the clock or asks the application.
"""

import math
from bisect import bisect
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random

from msgspec import Struct

from ragmon.demo.questions import KnownQuestion

DAY_S = 86_400.0
USERS = 400
API = "api"
_CHANNELS = ("chat", "search", API)
_CHANNEL_WEIGHTS = (0.5, 0.3, 0.2)
_TENANTS = ("acme", "globex", "initech")
_TENANT_WEIGHTS = (0.5, 0.3, 0.2)
_PEAK = 14 * 3600.0  # of the day, UTC
_SWING = 0.7  # how far the busiest hour stands above the mean, and the quietest below
_STAYS = 0.55  # probability that the next question continues a visit rather than starts one
_VISITS_AT_ONCE = 8


class Visit(Struct, frozen=True):
    """One user's session."""

    session: str
    user: str
    place: float  # of the user in [0, 1), the same on every visit
    tenant: str
    channel: str


class AskedQuestion(Struct, frozen=True):
    """One question asked."""

    at: float  # unix seconds
    question: KnownQuestion
    visit: Visit
    trace_id: str


def day(rng: Random, *, now: float, queries: int) -> list[float]:
    """Times of the queries of the 24 hours before ``now``, in order.

    A Poisson process whose rate follows the hour, given that so many queries came.

    Args:
        rng: the source of chance.
        now: unix seconds.
        queries: how many.
    """
    minutes = [now - DAY_S + 60.0 * minute for minute in range(1440)]
    weights = [1 + _SWING * math.cos(math.tau * (at - _PEAK) / DAY_S) for at in minutes]
    starts = rng.choices(minutes, weights, k=queries)
    return sorted(start + 60.0 * rng.random() for start in starts)


def steady(rng: Random, *, start: float, rate: float) -> Iterator[float]:
    """Times from ``start`` on without end, at ``rate`` queries a second."""
    at = start
    while True:
        at += rng.expovariate(rate)
        yield at


def asks(
    rng: Random, times: Iterable[float], questions: Sequence[KnownQuestion]
) -> Iterator[AskedQuestion]:
    """A question for each time, from users who come and go.

    Args:
        rng: the source of chance.
        times: in order.
        questions: the most popular first.
    """
    popularity = list(accumulate(1.0 / (rank + 10.0) for rank in range(len(questions))))
    visits: deque[Visit] = deque(maxlen=_VISITS_AT_ONCE)
    for at in times:
        if visits and rng.random() < _STAYS:
            visit = rng.choice(visits)
        else:
            visit = _arrive(rng)
            visits.append(visit)
        question = questions[bisect(popularity, rng.random() * popularity[-1])]
        yield AskedQuestion(at, question, visit, f"{rng.getrandbits(128):032x}")


def _arrive(rng: Random) -> Visit:
    number = rng.randrange(USERS)
    of_user = Random(number)  # noqa: S311  What is fixed about a user, whatever the day.
    return Visit(
        session=f"s{rng.getrandbits(40):010x}",
        user=f"u{number:03d}",
        place=of_user.random(),
        tenant=of_user.choices(_TENANTS, _TENANT_WEIGHTS)[0],
        channel=rng.choices(_CHANNELS, _CHANNEL_WEIGHTS)[0],
    )
