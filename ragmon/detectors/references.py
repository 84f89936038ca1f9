"""Expected loss of each stream now: its own past at this time of day, and how far to trust it.

u0 = m + max(delta / 5, z e - what is no evidence in a day), e² = m(1-m) r phi / n +
tau² (1 + 1/D): the level, the sampling error of the reference, and how much days differ from one
another. phi is how much more minutes scatter than independent losses would; r how much less a
fraction scatters than a coin. Before a whole day was seen, tau is a guess and the margin is
max(delta, z e).
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct

from ragmon.detectors import core
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints, unpack
from ragmon.detectors.days import EVERYWHERE, Calendar
from ragmon.detectors.expected_levels import (
    DAY_TENS,
    DAYS,
    ENOUGH,
    GUARD_TENS,
    ExpectedLevel,
    best_level,
    moments,
)
from ragmon.detectors.level_errors import LevelError, room
from ragmon.detectors.minutes import TEN, MinuteLog
from ragmon.detectors.weeks import LossSpread, correction

_UNSEEN = 0.01  # an hour's effect, before a whole day was seen
_WHOLE_DAY = (DAY_TENS + GUARD_TENS) * TEN  # minutes
_PSEUDO = 20.0
_SCATTER_HOURS = 96.0  # that are remembered of it
_SCALES = (1, 5, 15)
_WEEK_HOURS = 168
_KNOWN_HOURS = 72  # without a burst, before a stream counts as calm
_SURPRISE = 8.0  # evidence in one minute that independent losses hardly ever give in a week
_GROWTH = 0.5  # of phi from 5 to 15 minutes, below which it is chance
_FEW_LOSSES = 5.0  # an hour with fewer does not show scatter
_LEAST_ROOM = 0.2  # of ``delta``


class ReferenceOptions(Struct, frozen=True):
    """Settings of references."""

    delta: float = 0.01
    z: float = 2.5
    calendar: Calendar = EVERYWHERE


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
    mean_scatter: Floats  # (streams, scales) chi² / df of the hours with enough losses
    scatter_hours: Floats  # (streams, scales) that it was learned from; older ones fade
    level_variance: Floats  # see ``LevelError``
    level_worth: Floats
    level_hours: Floats
    usual: Floats  # the level in the middle of the hour under way, by the last seven days alone
    foreseen: Floats  # the level in the middle of the hour under way, with all that was known
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
        "mean_scatter": ((len(_SCALES),), "f8", 1),
        "scatter_hours": ((len(_SCALES),), "f8", 0),
        "level_variance": ((), "f8", 0),
        "level_worth": ((), "f8", 0),
        "level_hours": ((), "f8", 0),
        "usual": ((), "f8", np.nan),
        "foreseen": ((), "f8", np.nan),
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
        """Continue where ``dump`` was taken, perhaps by a release that kept single hours."""
        self._gains = None
        super().load(data)
        hours = unpack(data).get("scatter")
        if hours is not None:
            for hour in np.moveaxis(hours, 1, 0):
                self._learn_scatter(slice(0, len(hour)), hour)

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
        self._learn_scatter(rows, ratios)
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
            self.foreseen[:] = self.usual + self.offset

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
        _, mean, _ = moments(cells)
        log.weeks.learn(hour, rows, cells[:, 0], mean - self.usual[rows])
        coin = self.mean[rows] * (1.0 - self.mean[rows]) * self.spread[rows]
        spread = LossSpread(np.maximum(coin, 1e-9), self.phi[rows])
        self._learn_errors(rows, cells[:, 0], mean - self.foreseen[rows], spread)
        week = correction(log.weeks, hour + 2, rows, calendar, spread)
        self.next_offset[rows], self.next_doubt[rows] = week.offset, week.doubt
        self.weekdays[rows] = week.weekdays
        self.usual[rows] = self.foreseen[rows] = np.nan

    def _learn_errors(self, rows: slice, n: Floats, error: Floats, spread: LossSpread) -> None:
        learned = self.level_error(rows).learn(n, error, spread.noise)
        self.level_variance[rows] = learned.variance
        self.level_worth[rows] = learned.worth
        self.level_hours[rows] = learned.hours

    def level_error(self, rows: slice = slice(None)) -> LevelError:
        """Knowledge of the errors of the levels of some streams."""
        return LevelError(self.level_variance[rows], self.level_worth[rows], self.level_hours[rows])

    def _learn_scatter(self, rows: slice, ratios: Floats) -> None:
        """Learn from chi² / df of an hour, (streams, scales); NaN teaches nothing."""
        known = ~np.isnan(ratios)
        hours = self.scatter_hours[rows] * np.where(known, 1.0 - 1.0 / _SCATTER_HOURS, 1.0) + known
        before = self.mean_scatter[rows]
        apart = np.where(known, ratios - before, 0.0)
        self.mean_scatter[rows] = before + apart / np.maximum(hours, 1.0)
        self.scatter_hours[rows] = hours

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
        phi = overdispersion(self.mean_scatter)
        coin = np.maximum(level.mean * (1.0 - level.mean), 1e-9)
        ratio = (_PSEUDO + level.n * level.variance / coin) / (_PSEUDO + level.n)
        spread = np.where(binary, 1.0, ratio)
        noise = coin * spread * phi
        learned = self.level_error().between(level.between, level.days)
        between = np.where(unseen, 2.0 * _UNSEEN**2, learned)
        error = np.sqrt(level.error_variance(noise, between) + self.doubt)
        expected = np.maximum(level.mean + self.offset, 0.0)
        known = room(error, noise, level.rate, options.z, _LEAST_ROOM * options.delta)
        guessed = np.maximum(options.delta, options.z * error)
        moments = {
            "n": level.n,
            "mean": expected,
            "variance": level.variance,
            "days": level.days,
            "spread": spread,
            "phi": phi,
            "tolerated": expected + np.where(unseen, guessed, known),
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


def dispersion(minutes: Floats) -> Floats:
    """Pearson's chi² over its degrees of freedom at 1, 5 and 15 minutes; (streams, 3).

    Args:
        minutes: the cells of one hour, (60, streams, 3).
    """
    total = minutes.sum(axis=0)
    _, mean, variance = moments(total)
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
    """phi: the scatter of the scale that has most, at least 1; scatter (streams, 3).

    Scatter that still grows from 5 to 15 minutes goes on growing beyond: that growth is added
    once more.
    """
    growth = np.maximum(scatter[:, 2] - scatter[:, 1] - _GROWTH, 0.0)
    largest = np.maximum(scatter.max(axis=1, initial=1.0), scatter[:, 2] + growth)
    return np.asarray(largest, dtype=np.float64)
