"""A hard budget of judgements and dollars, per hour and per day (UTC), over restarts too.

A judgement is admitted at the most it can cost *before* it is asked for, and ``Spent`` is stored
before the request goes out; afterwards ``settle`` gives back what it did not cost. A crash in
between therefore errs on the side of having spent. Nothing here reads a clock or a file.
"""

import math
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

_HOUR_S = 3_600
_DAY_S = 86_400
_MAX_SPEEDUP = 2.0  # times the even rate, so that a late hour does not draw what it cannot judge
_NEWEST_WEIGHT = 0.05  # weight of the newest judgement in the mean cost


class BudgetLimits(Struct, frozen=True, kw_only=True):
    """None: no limit."""

    judgements_per_hour: float | None = None
    judgements_per_day: float | None = None
    dollars_per_hour: float | None = None
    dollars_per_day: float | None = None


class Period(Struct, frozen=True):
    """Judgements and dollars spent in one hour or one day (UTC)."""

    number: int = 0  # since 1970
    judgements: float = 0.0
    dollars: float = 0.0

    def at(self, number: int) -> "Period":
        """This period, or the new one that has begun.

        A clock that stepped back by one goes on charging the later period; one that stepped back
        further carries what was spent along. Either way stepping the clock frees no budget.
        """
        if number > self.number:
            return Period(number)
        return self if number == self.number - 1 else replace(self, number=number)

    def charged(self, judgements: float, dollars: float) -> "Period":
        """The period with this much added, never below 0: a refund frees no more than was spent."""
        return replace(
            self,
            judgements=max(self.judgements + judgements, 0.0),
            dollars=max(self.dollars + dollars, 0.0),
        )


class Spent(Struct, frozen=True):
    """Plain data: kept in the store, written before each request that it pays for."""

    hour: Period = Period()
    day: Period = Period()
    mean_cost_usd: float | None = None  # of a judgement lately


class Reservation(NamedTuple):
    """One judgement, charged at the most it can cost to an hour and a day (since 1970)."""

    hour: int
    day: int
    cost_usd: float


class _LimitUse(NamedTuple):
    """One limit and the amount spent of it in its current period."""

    limit: float
    spent: float
    left_s: float  # of its period
    period_s: float

    def hourly_rate(self, waiting: float) -> float:
        """The rest of the limit spread over the rest of its period, per hour, in its own unit."""
        even = self.limit * _HOUR_S / self.period_s
        left = max(self.limit - self.spent - waiting, 0.0)
        return min(left * _HOUR_S / max(self.left_s, 1.0), _MAX_SPEEDUP * even)


class Budget:
    """Admits judgements. Not thread-safe: the one thread that starts judgements owns it."""

    def __init__(self, limits: BudgetLimits, spent: Spent | None = None) -> None:
        self._limits = limits
        self.spent = spent or Spent()

    def admit(self, now: float, cost_usd: float = 0.0) -> Reservation | None:
        """Reserve one judgement; None when it would exceed a limit.

        Args:
            now: unix seconds.
            cost_usd: the most it can cost.
        """
        self._roll(now)
        if self._room(self._counts()) < 1.0 or self._room(self._dollars()) < cost_usd:
            return None
        self._charge(1.0, cost_usd)
        return Reservation(self.spent.hour.number, self.spent.day.number, cost_usd)

    def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Replace the reserved cost by the real one; a period that is over stays as it was."""
        change = cost_usd - reservation.cost_usd
        hour, day = self.spent.hour, self.spent.day
        mean = self.spent.mean_cost_usd
        self.spent = Spent(
            hour.charged(0.0, change) if hour.number == reservation.hour else hour,
            day.charged(0.0, change) if day.number == reservation.day else day,
            cost_usd if mean is None else mean + _NEWEST_WEIGHT * (cost_usd - mean),
        )

    def cancel(self, reservation: Reservation) -> None:
        """Give back a judgement that was never asked for (the endpoint is known to be down)."""
        hour, day = self.spent.hour, self.spent.day
        self.spent = replace(
            self.spent,
            hour=hour.charged(-1.0, -reservation.cost_usd)
            if hour.number == reservation.hour
            else hour,
            day=day.charged(-1.0, -reservation.cost_usd) if day.number == reservation.day else day,
        )

    def even_rate(self, now: float, waiting: int = 0, *, cost_usd: float = 0.0) -> float:
        """Judgements an hour that use the budget up evenly; infinite without limits.

        Args:
            now: unix seconds.
            waiting: drawn and not yet judged: they come first.
            cost_usd: of a judgement, until some were paid for.
        """
        self._roll(now)
        cost = self._cost(cost_usd)
        rates = [use.hourly_rate(waiting) for use in self._counts(now)]
        rates += [use.hourly_rate(waiting * cost) / cost for use in self._dollars(now) if cost]
        return min(rates, default=math.inf)

    def room(self, now: float, waiting: int = 0, *, cost_usd: float = 0.0) -> float:
        """Judgements that still fit besides those waiting: no burst may draw more."""
        self._roll(now)
        cost = self._cost(cost_usd)
        count, dollars = self._room(self._counts()), self._room(self._dollars())
        return max(min(count, dollars / cost if cost else math.inf) - waiting, 0.0)

    def remaining_ratio(self, now: float) -> float:
        """Share left of the limit that is closest to being used up, in [0, 1]; 1 without limits."""
        self._roll(now)
        uses = self._counts() + self._dollars()
        return min(
            (max(1.0 - use.spent / use.limit, 0.0) if use.limit else 0.0 for use in uses),
            default=1.0,
        )

    def _roll(self, now: float) -> None:
        hour, day = self.spent.hour.at(int(now // _HOUR_S)), self.spent.day.at(int(now // _DAY_S))
        self.spent = replace(self.spent, hour=hour, day=day)

    def _charge(self, judgements: float, dollars: float) -> None:
        self.spent = replace(
            self.spent,
            hour=self.spent.hour.charged(judgements, dollars),
            day=self.spent.day.charged(judgements, dollars),
        )

    def _cost(self, otherwise: float) -> float:
        return otherwise if self.spent.mean_cost_usd is None else self.spent.mean_cost_usd

    def _counts(self, now: float = 0.0) -> list[_LimitUse]:
        hour, day = self.spent.hour.judgements, self.spent.day.judgements
        limits = self._limits
        return _limit_uses(limits.judgements_per_hour, limits.judgements_per_day, hour, day, now)

    def _dollars(self, now: float = 0.0) -> list[_LimitUse]:
        hour, day = self.spent.hour.dollars, self.spent.day.dollars
        return _limit_uses(
            self._limits.dollars_per_hour, self._limits.dollars_per_day, hour, day, now
        )

    @staticmethod
    def _room(uses: list[_LimitUse]) -> float:
        # A billionth of slack: sums of cents may come out a hair above the limit they add up to.
        return min((use.limit * (1 + 1e-9) - use.spent for use in uses), default=math.inf)


def _limit_uses(
    per_hour: float | None, per_day: float | None, hour: float, day: float, now: float
) -> list[_LimitUse]:
    limits = [(per_hour, hour, _HOUR_S), (per_day, day, _DAY_S)]
    return [
        _LimitUse(limit, spent, period - now % period, period)
        for limit, spent, period in limits
        if limit is not None
    ]
