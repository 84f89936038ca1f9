"""The judge's budget, shared by the threads that draw and those that judge."""

import threading

import msgspec

from ragmon.clock import Clock
from ragmon.judges.budget import Budget, BudgetLimits, Reservation, Spent

NAME = "judge.budget"
"""Name under which the store keeps the spending."""


class SharedBudget:
    """Thread-safe; what it says was spent has to be stored before a request goes out."""

    def __init__(self, limits: BudgetLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._budget = Budget(limits)
        self._lock = threading.Lock()

    def load(self, body: bytes | None) -> None:
        """Go on with what was spent before a restart."""
        spent = msgspec.json.decode(body, type=Spent) if body else None
        with self._lock:
            self._budget = Budget(self._limits, spent)

    def dump(self) -> bytes:
        """The spending so far, for ``load`` after a restart."""
        with self._lock:
            return msgspec.json.encode(self._budget.spent)

    def admit(self, cost_usd: float) -> Reservation | None:
        """Set one judgement aside; None when a limit would be passed."""
        with self._lock:
            return self._budget.admit(self._clock.now(), cost_usd)

    def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Put in what a judgement did cost."""
        with self._lock:
            self._budget.settle(reservation, cost_usd)

    def cancel(self, reservation: Reservation) -> None:
        """Give back a judgement that was never asked for."""
        with self._lock:
            self._budget.cancel(reservation)

    def rate_and_room(self, waiting: int, cost_usd: float) -> tuple[float, float]:
        """(judgements an hour that use the budget up evenly, how many may still be drawn)."""
        now = self._clock.now()
        with self._lock:
            return (
                self._budget.even_rate(now, waiting, cost_usd=cost_usd),
                self._budget.room(now, waiting, cost_usd=cost_usd),
            )

    def cost_usd(self, forecast: float) -> float:
        """Of a judgement, as they came out lately; until then the forecast."""
        with self._lock:
            known = self._budget.spent.mean_cost_usd
        return forecast if known is None else known

    def spent(self) -> Spent:
        """Judgements and dollars of the hour and the day under way."""
        with self._lock:
            self._budget.remaining_ratio(self._clock.now())  # begins a new period where one is due
            return self._budget.spent

    def remaining_ratio(self) -> float:
        """The share left of the limit that is nearest to its end; in [0, 1]."""
        with self._lock:
            return self._budget.remaining_ratio(self._clock.now())
