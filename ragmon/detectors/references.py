"""Expected loss of each stream now: its own past at this time of day, and how far to trust it.

u0 = m + max(delta, z sqrt(m(1-m) r phi / n + tau² (1 + 1/D))): the level, the sampling error of
the reference, and how much days differ from one another. phi is how much more minutes scatter
than independent losses would; r how much less a fraction scatters than a coin.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct

from ragmon.detectors import core
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints
from ragmon.detectors.days import EVERYWHERE, Calendar
from ragmon.detectors.minutes import TEN, MinuteLog
from ragmon.detectors.weeks import LossSpread, correction

DAY_TENS = 144
DAYS = 7
HALF_WIDTH_TENS = 3  # +-30 minutes
GUARD_TENS = 12  # two hours
ENOUGH = 30
ENOUGH_BY_HOUR = 100  # losses at this time of day that beat a plain last day
TAU = 0.005  # a day's effect, before days have shown theirs
_UNSEEN = 0.01  # an hour's effect, before a whole day was seen
_WHOLE_DAY = (DAY_TENS + GUARD_TENS) * TEN  # minutes
_PSEUDO = 20.0
_HOURS = 26
_SCALES = (1, 5, 15)
_WEEK_HOURS = 168
_KNOWN_HOURS = 72  # without a burst, before a stream counts as calm
_SURPRISE = 8.0  # evidence in one minute that independent losses hardly ever give in a week
_GROWTH = 0.5  # of phi from 5 to 15 minutes, below which it is chance
_FEW_LOSSES = 5.0  # an hour with fewer does not show scatter
_TRIMMED_FROM = 5
_LEFT_BY_TRIMMING = 0.4  # of the variance of five to seven normal values without the extremes


class ReferenceOptions(Struct, frozen=True):
    """Settings of references."""

    delta: float = 0.01
    z: float = 2.5
    calendar: Calendar = EVERYWHERE


class ExpectedLevel(Struct, frozen=True):
    """A pooled past; shapes (streams,)."""

    n: Floats
    mean: Floats
    variance: Floats  # of a single loss
    days: Floats  # 0: the plain last day
    between: Floats  # variance of a day's mean, beyond sampling


class References(Arrays):
    """The reference of every stream in force; frozen while an incident is open."""

    n: Floats
    mean: Floats
    variance: Floats
    days: Floats
    spread: Floats  # r: variance of a loss over that of a coin of that mean
    phi: Floats
    tolerated: Floats  # u0
    ready: Bools
    unseen: Bools  # no whole day was seen yet
    weights: Floats  # (streams, 3, 8) of the core
    caps: Floats  # the most evidence that one minute may give
    worth: Floats  # the most evidence of a minute in the hour under way
    surprise: Floats  # (streams, hours) the most that one did, NaN where an hour is not known
    scatter: Floats  # (streams, hours, scales) chi² / df, NaN where an hour has too few losses
    usual: Floats  # the level in the middle of the hour under way, by the last seven days alone
    offset: Floats  # what the week adds to the level in this hour, incidents or not
    doubt: Floats  # variance of that
    next_offset: Floats  # of the hour to come
    next_doubt: Floats
    weekdays: Floats  # (streams, 7) what each weekday as a whole adds, from Monday
    _FIELDS: ClassVar[Fields] = {
        "n": ((), "f8", 0),
        "mean": ((), "f8", 0),
        "variance": ((), "f8", 0),
        "days": ((), "f8", 0),
        "spread": ((), "f8", 1),
        "phi": ((), "f8", 1),
        "tolerated": ((), "f8", 0),
        "ready": ((), "?", 0),
        "unseen": ((), "?", 0),
        "weights": ((3, 8), "f8", 0),
        "caps": ((), "f8", core.CAP),
        "worth": ((), "f8", np.nan),
        "surprise": ((_WEEK_HOURS,), "f8", np.nan),
        "scatter": ((_HOURS, len(_SCALES)), "f8", np.nan),
        "usual": ((), "f8", np.nan),
        "offset": ((), "f8", 0),
        "doubt": ((), "f8", 0),
        "next_offset": ((), "f8", 0),
        "next_doubt": ((), "f8", 0),
        "weekdays": ((7,), "f4", 0),
    }

    _BY_PART = frozenset({"weights"})

    def __init__(self) -> None:
        super().__init__()
        self._gains: tuple[Floats, Floats] | None = None  # of cells, by the weights in force

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        self._gains = None
        super().grow(streams)

    def clear(self, streams: Sequence[int] | Ints) -> None:
        """Forget some streams."""
        self._gains = None
        super().clear(streams)

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        self._gains = None
        super().load(data)

    def gains(self, cells: Floats) -> Floats:
        """Evidence of a minute against every reference, (streams, 8); not to be changed."""
        if self._gains is None or self._gains[0] is not cells:
            self._gains = (cells, core.gains(cells, self.weights))
        return self._gains[1]

    def observe(self, cells: Floats) -> None:
        """Learn from a minute just taken how much evidence one may hold.

        Incidents count too: a burst that raised a false alarm must not raise another.
        """
        most = self.gains(cells).max(axis=1)
        np.fmax(self.worth, most, out=self.worth, where=self.ready & (cells[:, 0] > 0.0))

    def close_hour(
        self,
        log: MinuteLog,
        hour: int,
        incident: Bools,
        rows: slice = slice(None),
        calendar: Calendar = EVERYWHERE,
    ) -> None:
        """Learn the scatter of an hour that is over, and whether it held bursts.

        Args:
            log: of all streams.
            hour: since 1970.
            incident: (streams,) whether one is open.
            rows: the streams that learn now.
            calendar: of days off.
        """
        self._learn_week(log, hour, rows, calendar)
        hidden = incident | log.excluded_in(hour * 60, hour * 60 + 60)
        ratios = dispersion(log.minutes(hour * 60, hour * 60 + 60, rows))
        ratios[hidden[rows]] = np.nan
        self.scatter[rows, hour % _HOURS] = ratios
        self.surprise[rows, hour % _WEEK_HOURS] = self.worth[rows]
        self.worth[rows] = np.nan
        known = ~np.isnan(self.surprise[rows])
        most = np.where(known, self.surprise[rows], 0.0).max(axis=1)
        calm = (known.sum(axis=1) >= _KNOWN_HOURS) & (most <= _SURPRISE)
        self.caps[rows] = np.where(calm, core.CALM_CAP, core.CAP)

    def _enter_hour(self, minute: int, level: ExpectedLevel) -> None:
        """Take on the correction of an hour that begins; note what is usual in its middle."""
        if minute % 60 == 0:
            self.offset[:], self.doubt[:] = self.next_offset, self.next_doubt
        elif minute % 60 == 30:
            self.usual[:] = np.where(level.n >= ENOUGH, level.mean, np.nan)

    def _of_days(self, minute: int, calendar: Calendar) -> Floats:
        """Effects of the weekdays of the last seven days, (days, streams).

        NaN is a holiday, of which a working day expects nothing.
        """
        past = [minute - day * DAY_TENS * TEN for day in range(1, DAYS + 1)]
        effects = self.weekdays[:, [calendar.weekday(each) for each in past]].T.astype(np.float64)
        if not calendar.is_off(minute):
            effects[[calendar.is_holiday(each) for each in past]] = np.nan
        return effects

    def _learn_week(self, log: MinuteLog, hour: int, rows: slice, calendar: Calendar) -> None:
        """Learn how much an hour differed from the usual, and what the hour to come is to do."""
        cells = log.hour(hour, rows)
        _, mean, _ = _moments(cells)
        log.weeks.learn(hour, rows, cells[:, 0], mean - self.usual[rows])
        self.usual[rows] = np.nan
        coin = self.mean[rows] * (1.0 - self.mean[rows]) * self.spread[rows]
        spread = LossSpread(np.maximum(coin, 1e-9), self.phi[rows])
        week = correction(log.weeks, hour + 2, rows, calendar, spread)
        self.next_offset[rows], self.next_doubt[rows] = week.offset, week.doubt
        self.weekdays[rows] = week.weekdays

    def refresh(
        self,
        log: MinuteLog,
        minute: int,
        binary: Bools,
        frozen: Bools,
        options: ReferenceOptions,
        *,
        first: Ints | None = None,
    ) -> None:
        """Renew every reference that is not frozen; due each ten minutes.

        Args:
            log: of all streams.
            minute: unix minutes.
            binary: (streams,) whether losses are 0 or 1.
            frozen: (streams,) whether an incident is open.
            options: how references are made.
            first: (streams,) minute of the first observation; None: all are old.
        """
        level = best_level(log, minute // TEN, self._of_days(minute, options.calendar))
        self._enter_hour(minute, level)
        young = np.zeros(len(log), np.bool_) if first is None else minute - first < _WHOLE_DAY
        unseen = young & (level.days == 0.0)  # a season may hide in the hours not seen yet
        past = (minute // 60 - np.arange(25, 1, -1)) % _HOURS  # the last day, two hours ago
        phi = overdispersion(self.scatter[:, past])
        coin = np.maximum(level.mean * (1.0 - level.mean), 1e-9)
        ratio = (_PSEUDO + level.n * level.variance / coin) / (_PSEUDO + level.n)
        spread = np.where(binary, 1.0, ratio)
        sampling = coin * spread * phi / np.maximum(level.n, 1.0)
        between = np.where(unseen, 2.0 * _UNSEEN**2, level.between)
        error = np.sqrt(sampling + between * (1.0 + 1.0 / np.maximum(level.days, 1.0)) + self.doubt)
        expected = np.maximum(level.mean + self.offset, 0.0)
        moments = {
            "n": level.n,
            "mean": expected,
            "variance": level.variance,
            "days": level.days,
            "spread": spread,
            "phi": phi,
            "tolerated": expected + np.maximum(options.delta, options.z * error),
            "ready": level.n >= ENOUGH,
            "unseen": unseen,
        }
        for name, values in moments.items():
            np.copyto(getattr(self, name), values, where=~frozen)
        self._weigh(np.flatnonzero(~frozen & (self.n > 0.0)), binary)

    def _weigh(self, rows: Ints, binary: Bools) -> None:
        """Renew the coefficients of some streams."""
        self._gains = None
        self.weights[rows] = core.coefficients(
            self.tolerated[rows], self.variance[rows], binary[rows], self.phi[rows]
        )


def best_level(log: MinuteLog, ten: int, weekdays: Floats | None = None) -> ExpectedLevel:
    """The same time of day where enough is known, else the last day, two hours ago."""
    return better_level(same_time_of_day(log, ten, weekdays), last_day(log, ten))


def better_level(by_hour: ExpectedLevel, plain: ExpectedLevel) -> ExpectedLevel:
    """The level of this time of day where enough is known, else that of the last day."""
    chosen = (by_hour.n >= ENOUGH_BY_HOUR) & (by_hour.days >= 1)
    return ExpectedLevel(
        *(
            np.where(chosen, getattr(by_hour, name), getattr(plain, name))
            for name in ExpectedLevel.__struct_fields__
        )
    )


def last_day(log: MinuteLog, ten: int) -> ExpectedLevel:
    """The last 24 hours before a guard of two."""
    last = ten - GUARD_TENS
    total = log.tens_total(last - DAY_TENS, last)
    return plain_level(total)


def plain_level(total: Floats) -> ExpectedLevel:
    """The level of a stretch without regard to the time of day; total (streams, 3)."""
    n, mean, variance = _moments(total)
    return ExpectedLevel(n, mean, variance, np.zeros(len(n)), np.full(len(n), 2.0 * TAU**2))


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
    n, mean, variance = _moments(kept.sum(axis=0))
    if weekdays is not None:
        kept[..., 1] -= kept[..., 0] * np.nan_to_num(weekdays)
    return ExpectedLevel(n, mean, variance, days, _between(kept, variance, days, days < known_days))


def dispersion(minutes: Floats) -> Floats:
    """Pearson's chi² over its degrees of freedom at 1, 5 and 15 minutes; (streams, 3).

    Args:
        minutes: the cells of one hour, (60, streams, 3).
    """
    total = minutes.sum(axis=0)
    _, mean, variance = _moments(total)
    usable = (total[:, 1] >= _FEW_LOSSES) & (variance > 0.0)
    ratios = np.full((minutes.shape[1], len(_SCALES)), np.nan)
    for at, scale in enumerate(_SCALES):
        sums = minutes.reshape(60 // scale, scale, -1, 3).sum(axis=1)
        n = sums[..., 0]
        occupied = (n > 0.0).sum(axis=0)
        expected = np.where(usable, n * variance, 1.0)
        terms = np.square(sums[..., 1] - n * mean) / np.where(expected > 0.0, expected, 1.0)
        known = usable & (occupied > 1)
        chi2 = terms.sum(axis=0) / np.maximum(occupied - 1.0, 1.0)
        ratios[:, at] = np.where(known, chi2, np.nan)
    return ratios


def overdispersion(scatter: Floats) -> Floats:
    """phi: the largest mean over hours of any scale, at least 1; scatter (streams, hours, 3).

    Scatter that still grows from 5 to 15 minutes goes on growing beyond: that growth is added
    once more.
    """
    known = ~np.isnan(scatter)
    mean = np.where(known, scatter, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    growth = np.maximum(mean[:, 2] - mean[:, 1] - _GROWTH, 0.0)
    largest = np.maximum(mean.max(axis=1, initial=1.0), mean[:, 2] + growth)
    return np.asarray(largest, dtype=np.float64)


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


def _moments(total: Floats) -> tuple[Floats, Floats, Floats]:
    n = total[..., 0]
    mean = total[..., 1] / np.maximum(n, 1.0)
    variance = np.maximum(total[..., 2] / np.maximum(n, 1.0) - mean * mean, 0.0)
    return n, mean, variance
