"""Errors of the level expected of each stream, learned from how wrong it lately was.

The level expected of an hour is compared with the level it had. What their difference scatters
beyond chance is how much days and hours of this stream differ: a stream whose days are alike is
then known to be so, and one whose levels wander is given room.

An error of the level is not a change. One that lasts for a day holds the evidence of an alarm in
thirty days, ln A, where it is larger than sqrt(2 v ln A / n), for n queries of variance v: that
much of ``z`` standard errors needs no room (Lorden 1971, Procedures for reacting to a change in
distribution, Annals of Mathematical Statistics 42:1897-1908: a change takes ln A / KL queries,
and KL is e² / 2v for a small e).
"""

import math

import numpy as np
from msgspec import Struct

from ragmon.detectors.arrays import Floats
from ragmon.detectors.core import MONTH_MINUTES

TAU = 0.005  # a day's effect, before days have shown theirs
LASTING_MINUTES = 1_440.0  # that an error of the level lasts

_MEMORY_HOURS = 336.0
_LEAST = 30.0  # observations of an hour that is learned from
_OUTLIER = 6.0  # times the variance, beyond which a square counts no more
_LEFT = 0.974  # of the variance of a normal value whose squares beyond that do not count
_OF_REFERENCE = 1.17  # variance by chance of the hour and of the level, over that of the hour
_OF_DAYS = 1.2  # variance of a day and of the mean of five, over that of a day
_LIMIT = math.log(MONTH_MINUTES)


class LevelError(Struct, frozen=True):
    """Knowledge of the errors of the levels of some streams; shapes (streams,)."""

    variance: Floats  # of the level beyond chance; below zero by chance
    worth: Floats  # hours without chance that would tell as much
    hours: Floats  # learned from; older ones fade

    def learn(self, n: Floats, error: Floats, noise: Floats) -> "LevelError":
        """Knowledge after one hour more.

        Args:
            n: observations in the hour.
            error: by how much the hour differed from the level expected; NaN: not known.
            noise: variance of the mean of n losses, times n.
        """
        known = (n >= _LEAST) & ~np.isnan(error)
        chance = _OF_REFERENCE * noise / np.maximum(n, 1.0)
        most = _OUTLIER * (_OF_DAYS * np.maximum(self.variance, 0.0) + chance)  # no incident
        squares = np.minimum(np.square(np.nan_to_num(error)), most) / _LEFT
        effect = np.maximum(self.variance, TAU**2)
        worth = np.where(known, np.square(effect / (effect + chance)), 0.0)
        fading = np.where(known, 1.0 - 1.0 / _MEMORY_HOURS, 1.0)
        total = self.worth * fading + worth
        step = worth / np.maximum(total, 1e-12)
        apart = (squares - chance) / _OF_DAYS - self.variance
        return LevelError(self.variance + step * apart, total, self.hours * fading + known)

    def between(self, by_days: Floats, days: Floats) -> Floats:
        """Variance of what makes a day unlike others, (streams,).

        Args:
            by_days: the same as the days of the reference alone show it.
            days: their number.
        """
        own = np.maximum(days - 1.0, 1.0)
        learned = np.minimum(self.worth, self.hours / 24.0)  # the hours of a day share its effect
        total = own * by_days + learned * np.maximum(self.variance, 0.0)
        return np.asarray(total / (own + learned), dtype=np.float64)


def room(error: Floats, noise: Floats, rate: Floats, z: float, least: float) -> Floats:
    """Margin above a level that does not count, (streams,).

    Args:
        error: standard error of the level.
        noise: variance of the mean of n losses, times n.
        rate: queries of a minute.
        z: standard errors.
        least: room in any case.
    """
    unheard = np.sqrt(2.0 * noise * _LIMIT / np.maximum(rate * LASTING_MINUTES, 1.0))
    return np.asarray(np.maximum(least, z * error - unheard), dtype=np.float64)
