"""Level that detection expects of one stream over time, as a band of ordinary losses.

It is made as ``references`` makes the reference in force, for any ten minutes of the last week:
what is learned of the week's hours beyond these days is left out. It is as wide as the level may be
wrong, or as a change must be to be told if that is more. No band is kept; one stream's is made in a
millisecond.
"""

from typing import NamedTuple

import numpy as np

from ragmon.detectors.arrays import Floats, Ints
from ragmon.detectors.expected_levels import (
    DAY_TENS,
    DAYS,
    ENOUGH,
    GUARD_TENS,
    HALF_WIDTH_TENS,
    ExpectedLevel,
    better_level,
    level_of_days,
    plain_level,
)
from ragmon.detectors.level_errors import LevelError
from ragmon.detectors.minutes import MinuteLog
from ragmon.detectors.references import ReferenceOptions


class Scatter(NamedTuple):
    """Scatter of a stream, by its reference in force."""

    spread: float  # variance of a loss over that of a coin of the same mean
    phi: float  # how much more minutes scatter than independent losses would
    level_error: LevelError  # of the stream alone


class ExpectedBand(NamedTuple):
    """Losses that are ordinary, shape (m,); NaN where too little was known."""

    lower: Floats
    upper: Floats


def expected_band(
    log: MinuteLog, stream: int, tens: Ints, scatter: Scatter, options: ReferenceOptions
) -> ExpectedBand:
    """The band of some ten-minutes.

    Args:
        log: of all streams.
        stream: its row.
        tens: (m,) numbers of ten-minutes, at least one.
        scatter: of the stream.
        options: how references are made.
    """
    level = _level(log, stream, tens)
    coin = np.maximum(level.mean * (1.0 - level.mean), 1e-9)
    between = scatter.level_error.between(level.between, level.days)
    error = np.sqrt(level.error_variance(coin * scatter.spread * scatter.phi, between))
    width = np.where(level.n >= ENOUGH, np.maximum(options.delta, options.z * error), np.nan)
    return ExpectedBand(np.maximum(level.mean - width, 0.0), np.minimum(level.mean + width, 1.0))


def _level(log: MinuteLog, stream: int, tens: Ints) -> ExpectedLevel:
    """The level of one stream at several times, as that of several streams at one."""
    first = int(tens.min()) - DAYS * DAY_TENS - HALF_WIDTH_TENS
    cells = log.tens_of(np.arange(first, int(tens.max())), stream)
    sums = np.concatenate([np.zeros((1, 3)), np.cumsum(cells, axis=0)])

    def total(begin: Ints, end: Ints) -> Floats:
        stretch: Floats = sums[end - first] - sums[begin - first]
        return stretch

    middles = tens - DAY_TENS * np.arange(1, DAYS + 1)[:, None]
    by_day = total(middles - HALF_WIDTH_TENS, middles + HALF_WIDTH_TENS + 1)
    last = tens - GUARD_TENS
    return better_level(level_of_days(by_day), plain_level(total(last - DAY_TENS, last)))
