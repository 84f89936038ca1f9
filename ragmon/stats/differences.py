"""Differences of two estimates that were made of different samples, by their intervals."""

import math
from typing import NamedTuple

from ragmon.stats.intervals import Z95


class Difference(NamedTuple):
    """A difference with its interval."""

    value: float
    lower: float
    upper: float

    @property
    def is_more_than_chance(self) -> bool:
        """True when the interval leaves out zero."""
        return self.lower > 0.0 or self.upper < 0.0

    @property
    def p_value(self) -> float:
        """Two-sided, of there being no difference: from the half of a 95 % interval towards 0."""
        margin = self.value - self.lower if self.value > 0.0 else self.upper - self.value
        if not margin > 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return math.erfc(abs(self.value) / margin * Z95 / math.sqrt(2.0))


class Interval95(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    lower: float
    upper: float


def difference(one: Interval95, other: Interval95) -> Difference:
    """The first minus the second, of independent samples; NaN where a bound is NaN.

    Each side of the interval is made of the sides of the two that point there (square and add),
    so that it keeps their skew and their limits.

    Source: Newcombe (1998), Statistics in Medicine 17:873-890, method 10; Zou and Donner (2008),
    Statistics in Medicine 27:1693-1702 for means of other kinds.
    """
    value = one.value - other.value
    below = math.hypot(one.value - one.lower, other.upper - other.value)
    above = math.hypot(one.upper - one.value, other.value - other.lower)
    return Difference(value, value - below, value + above)
