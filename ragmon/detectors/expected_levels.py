"""Level of the losses of each stream that its own past lets expect, by the time of day or without.

Days are pooled as a trimmed mean. What of five to seven normal values is left without the lowest
and the highest has the variance of a mean of 1.3 to 1.5 times as many (David and Nagaraja 2003,
Order Statistics, section 7.3).
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragmon.detectors.arrays import Bools, Floats
from ragmon.detectors.level_errors import TAU
from ragmon.detectors.minutes import TEN, MinuteLog

DAY_TENS = 144
DAYS = 7
HALF_WIDTH_TENS = 3  # +-30 minutes
GUARD_TENS = 12  # two hours
ENOUGH = 30
ENOUGH_BY_HOUR = 100  # losses at this time of day that beat a plain last day
_TRIMMED_FROM = 5
_LEFT_BY_TRIMMING = 0.4  # of the variance of five to seven normal values without the extremes
_TRIMMED_WORTH = 1.3  # of a day in their mean: the two that are dropped tell where the middle is


class ExpectedLevel(Struct, frozen=True):
    """A pooled past; shapes (streams,)."""

    n: Floats
    mean: Floats
    variance: Floats  # of a single loss
    days: Floats  # 0: the plain last day
    between: Floats  # variance of a day's mean, beyond sampling
    rate: Floats  # observations of a minute

    def error_variance(self, noise: Floats, between: Floats) -> Floats:
        """Variance of the error of the level as an expectation of today.

        Args:
            noise: variance of the mean of n losses, times n.
            between: variance of a day's mean, beyond sampling.
        """
        worth = np.where(self.days >= _TRIMMED_FROM - 2, _TRIMMED_WORTH, 1.0)
        sampling = noise / np.maximum(self.n * worth, 1.0)
        today = between * (1.0 + 1.0 / np.maximum(self.days, 1.0))
        return np.asarray(sampling + today, dtype=np.float64)


def best_level(log: MinuteLog, ten: int, weekdays: Floats | None = None) -> ExpectedLevel:
    """The same time of day where enough is known, else the last day, two hours ago."""
    return better_level(same_time_of_day(log, ten, weekdays), last_day(log, ten))


def better_level(by_hour: ExpectedLevel, plain: ExpectedLevel) -> ExpectedLevel:
    """The level of this time of day where enough is known, else that of the last day."""
    chosen = (by_hour.n >= ENOUGH_BY_HOUR) & (by_hour.days >= 1)
    level = ExpectedLevel(
        *(
            np.where(chosen, getattr(by_hour, name), getattr(plain, name))
            for name in ExpectedLevel.__struct_fields__
        )
    )
    return replace(level, rate=np.maximum(by_hour.rate, plain.rate))  # a night becomes a day


def last_day(log: MinuteLog, ten: int) -> ExpectedLevel:
    """The last 24 hours before a guard of two."""
    last = ten - GUARD_TENS
    total = log.tens_total(last - DAY_TENS, last)
    return plain_level(total)


def plain_level(total: Floats) -> ExpectedLevel:
    """The level of a stretch without regard to the time of day; total (streams, 3)."""
    n, mean, variance = moments(total)
    days, between = np.zeros(len(n)), np.full(len(n), 2.0 * TAU**2)
    return ExpectedLevel(n, mean, variance, days, between, n / (DAY_TENS * TEN))


def same_time_of_day(log: MinuteLog, ten: int, weekdays: Floats | None = None) -> ExpectedLevel:
    """+-30 minutes around this time on each of the last seven days.

    The best and the worst day are dropped from five days on: an incident that nobody noticed
    and an unusually good day count as little.

    Args:
        log: of all streams.
        ten: number of the ten minutes.
        weekdays: what is known to make each of the days unlike the others, (days, streams), which
            is no doubt about them; NaN: the day does not count.
    """
    middles = ten - DAY_TENS * np.arange(1, DAYS + 1)
    by_day = np.stack(
        [
            log.tens_total(middle - HALF_WIDTH_TENS, middle + HALF_WIDTH_TENS + 1)
            for middle in middles.tolist()
        ]
    )
    return level_of_days(by_day, weekdays)


def level_of_days(by_day: Floats, weekdays: Floats | None = None) -> ExpectedLevel:
    """The level by the same time of several days; by_day (days, streams, 3), changed in place."""
    if weekdays is not None:
        by_day[np.isnan(weekdays)] = 0.0
    kept = _trimmed(by_day)
    days = (kept[..., 0] > 0.0).sum(axis=0).astype(np.float64)
    known_days = (by_day[..., 0] > 0.0).sum(axis=0)
    n, mean, variance = moments(kept.sum(axis=0))
    if weekdays is not None:
        kept[..., 1] -= kept[..., 0] * np.nan_to_num(weekdays)
    between = _between(kept, variance, days, days < known_days)
    minutes = (2 * HALF_WIDTH_TENS + 1) * TEN * np.maximum(days, 1.0)
    return ExpectedLevel(n, mean, variance, days, between, n / minutes)


def _trimmed(days: Floats) -> Floats:
    """Days (7, streams, 3) without the best and the worst of five or more."""
    n = days[..., 0]
    occupied = n > 0.0
    mean = days[..., 1] / np.maximum(n, 1.0)
    best = np.where(occupied, mean, np.inf).argmin(axis=0)
    worst = np.where(occupied, mean, -np.inf).argmax(axis=0)
    number = np.arange(len(days))[:, None]
    extreme = (number == best) | (number == worst)
    dropped = extreme & (occupied.sum(axis=0) >= _TRIMMED_FROM)
    return np.where(dropped[..., None], 0.0, days)


def _between(days: Floats, variance: Floats, count: Floats, trimmed: Bools) -> Floats:
    """tau²: how much the means of days differ beyond sampling, with a prior worth two days."""
    n = days[..., 0]
    occupied = n > 0.0
    means = days[..., 1] / np.maximum(n, 1.0)
    centre = np.where(occupied, means, 0.0).sum(axis=0) / np.maximum(count, 1.0)
    squares = np.where(occupied, np.square(means - centre), 0.0).sum(axis=0)
    sampling = np.where(occupied, variance / np.maximum(n, 1.0), 0.0).sum(axis=0)
    beyond = squares / np.maximum(count - 1.0, 1.0) - sampling / np.maximum(count, 1.0)
    beyond = np.maximum(beyond, 0.0) / np.where(trimmed, _LEFT_BY_TRIMMING, 1.0)
    extra = np.maximum(count - 1.0, 0.0) * beyond
    return np.asarray((2.0 * TAU**2 + extra) / (count + 1.0), dtype=np.float64)


def moments(total: Floats) -> tuple[Floats, Floats, Floats]:
    """Number, mean and variance of losses, from cells (..., 3); zero where there are none."""
    n = total[..., 0]
    mean = total[..., 1] / np.maximum(n, 1.0)
    variance = np.maximum(total[..., 2] / np.maximum(n, 1.0) - mean * mean, 0.0)
    return n, mean, variance
