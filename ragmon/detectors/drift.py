"""Worse than a week before: a change so slow that a reference of seven days moves along with it.

Four times a day the last two, four and seven days are compared with the same hours of the week
before, six hours at a time, so that neither the hour nor the weekday counts. The median of the
differences is compared with its error: what days differ by, and what chance does. How much days
differ is shown by second differences of the daily ones, in which a steady drift leaves no trace,
with Student's doubt in so few of them; 0.75 points (5 % of a latency) count at least.

Incidents that are over do not count. Once a change was accepted as the new normal (``anomaly``),
what lies before it is forgotten. An alert that is open goes on until the last two days are hardly
worse than a week before. Latencies are compared by their logarithm, since the thresholds of the
other detectors move with them.
"""

import math
from statistics import NormalDist
from typing import ClassVar

import msgspec
import numpy as np
from msgspec import Struct
from pydantic import BaseModel, Field

from ragmon.detectors import MINUTE_S, AlertKey, Finding, Severity, Tick, budget, day_scatter
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints, pack, unpack
from ragmon.detectors.episodes import chosen, reference_of
from ragmon.detectors.losses import DETECTED, INDEX
from ragmon.detectors.minutes import TEN

KIND = "drift"

QUARTER = 360  # minutes
_DAY = 4  # quarters
_WEEK = 7 * _DAY
SLOTS = 3 * _WEEK
LENGTHS = (2, 4, 7)  # days that are compared
_KNOWN = 0.75  # of the pairs, for a comparison
_SETTLED = slice(_WEEK - 6, _WEEK)  # ages of quarters that no incident but an accepted one hides
_LEAST = 30.0  # samples in six hours
_DAY_EFFECT = 0.0075  # standard deviation of a day's effect on a loss, at least
_LEAST_BENDS, _MANY_BENDS = 4, 10  # of days, before they show how much days differ, and do alone
_MEDIAN = math.pi / 2.0  # variance of a median over that of a mean
_LATENCY = INDEX["latency_p50"]
_LATENCY_DAY = 0.05  # the same on the logarithm of a latency
_LATENCY_LEAST = math.log(1.05)
_LATENCY_SCATTER = 1.0  # variance of the logarithm of one latency, at most
_CLOSES = 0.5  # of what would open it
_LEAST_PAIRS = 2  # quarters, for it to close
_MOST_EVIDENCE = 1e30


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metrics: tuple[str, ...] = tuple(metric for metric in DETECTED if metric != "latency")
    """Metrics to watch; of the latency the typical one, latency_p50."""
    slices: bool = False
    """Also watch each value of the configured slices."""
    severity: Severity = "warning"
    """Severity of the alerts."""
    delta: float = Field(default=0.01, gt=0.0)
    """Increases smaller than this within a week are ignored; of latencies those below 5 %."""
    false_alarms_per_month: float = Field(default=0.1, gt=0.0, le=10_000.0)
    """False alarms expected in 30 days over everything that this rule watches; on top of
    `detectors.false_alarms_per_month`."""


class DriftState(Arrays):
    """Levels of three weeks by six hours, and the open alerts."""

    cells: Floats  # (streams, SLOTS, 2): n and Σ loss, of latencies Σ ln ms
    open: Bools
    since: Ints  # minute in which it began, about
    before: Floats  # level of the week before, of the days compared
    level: Floats  # level of these days
    samples_before: Floats
    samples: Floats
    share: Floats  # of latencies: share of the last day above the level before
    evidence: Floats  # minutes between false alarms this strong
    limits: Floats  # the same, from which it opens
    _FIELDS: ClassVar[Fields] = {
        "cells": ((SLOTS, 2), "f4", 0),
        "open": ((), "?", 0),
        "since": ((), "i8", 0),
        "before": ((), "f8", 0),
        "level": ((), "f8", 0),
        "samples_before": ((), "f8", 0),
        "samples": ((), "f8", 0),
        "share": ((), "f8", 0),
        "evidence": ((), "f8", 0),
        "limits": ((), "f8", np.inf),
    }

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.newest = -1  # number of the last quarter that was compared, since 1970

    def rescale(self, streams: Ints | list[int]) -> None:
        """Keep latencies whose thresholds moved: they are not counted by them."""

    def dump(self) -> bytes:
        """Everything, as bytes; only of the streams that it knows of."""
        known = (self.cells[:, :, 0] > 0.0).any(axis=1) | self.open | np.isfinite(self.limits)
        rows = np.flatnonzero(known)
        arrays = {name: getattr(self, name)[rows] for name in self._FIELDS}
        return msgspec.msgpack.encode((self.newest, len(self), pack(arrays | {"rows": rows})))

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        self.newest, size, body = msgspec.msgpack.decode(data, type=tuple[int, int, bytes])
        arrays = unpack(body)
        rows = arrays.pop("rows")
        self.grow(size)
        for name in arrays.keys() & self._FIELDS.keys():
            getattr(self, name)[rows] = arrays[name]

    def by_age(self, rows: Ints) -> tuple[Floats, Floats]:
        """Samples and levels of some streams by quarter, the last one first; (rows, SLOTS)."""
        slots = (self.newest - np.arange(SLOTS)) % SLOTS
        n, total = np.moveaxis(self.cells[rows][:, slots].astype(np.float64), 2, 0)
        return n, np.where(n >= _LEAST, total / np.maximum(n, 1.0), np.nan)


def build(options: Options) -> DriftState:
    """State of a detector that has seen nothing."""
    return DriftState(options)


def step(state: DriftState, tick: Tick) -> list[Finding]:
    """One minute further."""
    if tick.renewed and tick.minute // QUARTER - 1 > state.newest:
        rows = np.flatnonzero(chosen(tick, state.options.metrics, slices=state.options.slices))
        state.open &= np.isin(np.arange(len(state)), rows)
        _learn(state, tick, rows)
        _forget(state, tick, rows)
        _compare(state, tick, rows)
    return [_describe(state, tick, row) for row in np.flatnonzero(state.open).tolist()]


def _learn(state: DriftState, tick: Tick, rows: Ints) -> None:
    """Take over the quarters since the last call, and what became known of the last week's."""
    quarter = tick.minute // QUARTER - 1
    first = max(state.newest + 1, quarter - SLOTS + 1)
    state.cells[:, np.arange(first, quarter + 1) % SLOTS] = 0.0
    state.newest = quarter
    timed = rows[tick.streams.loss[rows] == _LATENCY]
    plain = rows[tick.streams.loss[rows] != _LATENCY]
    tens = QUARTER // TEN
    for number in range(quarter - _WEEK + 1, quarter + 1):
        sums = tick.log.tens_sum(number * tens, number * tens + tens)
        state.cells[plain, number % SLOTS] = sums[plain, :2]
        hidden = tick.log.excluded_share(number * QUARTER, (number + 1) * QUARTER)[timed] > 0.5
        state.cells[timed[hidden], number % SLOTS] = 0.0
    if tick.latencies is None:
        return
    for row in timed.tolist():
        key = tick.streams.keys[row]
        if key is not None and not key.dimension:
            cell = tick.latencies.log_sum(key.pipeline, quarter * 6, quarter * 6 + 6)
            state.cells[row, quarter % SLOTS] = cell


def _forget(state: DriftState, tick: Tick, rows: Ints) -> None:
    """Give up the past of streams that were left out for days: the change was accepted since."""
    first, last = (state.newest + 1 - age for age in (_SETTLED.stop, _SETTLED.start))
    left_out = tick.log.excluded_share(first * QUARTER, last * QUARTER)[rows] == 1.0
    given_up = rows[left_out & ~state.open[rows]]
    slots = (state.newest - np.arange(_SETTLED.start, SLOTS)) % SLOTS
    state.cells[given_up[:, None], slots] = 0.0


def _compare(state: DriftState, tick: Tick, rows: Ints) -> None:
    """Open alerts of streams that are worse than a week before; close those that are not."""
    past = _PastQuarters(*state.by_age(rows))
    timed = tick.streams.loss[rows] == _LATENCY
    scatter = np.where(timed, _LATENCY_SCATTER, tick.references.variance[rows])
    scatter *= tick.references.phi[rows]
    shares = budget.weights(tick.streams, np.isin(np.arange(len(state)), rows))
    allowed = state.options.false_alarms_per_month
    state.limits[:] = budget.minutes_to_false_alarm(shares, allowed)
    asked = np.array([_errors(limit) for limit in state.limits[rows].tolist()])
    between = _between(past, scatter, np.where(timed, _LATENCY_DAY, _DAY_EFFECT), asked)
    least = np.where(timed, _LATENCY_LEAST, state.options.delta)
    best, length = np.full(len(rows), -np.inf), np.full(len(rows), LENGTHS[0])
    for days in LENGTHS:
        shift, known = past.shift(days), past.known(days) >= _KNOWN * days * _DAY
        error = np.sqrt(between / days + _MEDIAN * scatter * past.sampling(0, days * _DAY))
        errors = np.where(known & (shift >= least), shift / error, -np.inf)
        length = np.where(errors > best, days, length)
        best = np.maximum(best, errors)
        if days == LENGTHS[0]:
            over = past.known(days) >= _LEAST_PAIRS
            over &= np.nan_to_num(shift, nan=np.inf) < _CLOSES * np.maximum(least, asked * error)
    worse = (best >= asked) & ~over
    new = worse & ~state.open[rows]
    state.open[rows[over]] = False
    state.open[rows[new]] = True
    state.since[rows[new]] = _began(state.newest, past.apart[new])
    for at in np.flatnonzero(worse).tolist():
        _note(state, tick, int(rows[at]), past.levels_of(at, int(length[at])))
    state.evidence[rows[worse]] = _once_in(best[worse])


def _note(state: DriftState, tick: Tick, row: int, levels: "_WeekLevels") -> None:
    """Keep the levels of the days that show it best, for the words of the alert."""
    state.samples[row], state.samples_before[row] = levels.samples, levels.samples_before
    state.level[row], state.before[row] = levels.level, levels.before
    key = tick.streams.keys[row]
    if tick.streams.loss[row] == _LATENCY and key is not None and tick.latencies is not None:
        typical_ms = math.exp(levels.before)
        state.share[row] = tick.latencies.share_above(key.pipeline, typical_ms)


class _WeekLevels(Struct, frozen=True):
    """Levels of some days and of the same hours a week before, with their samples."""

    level: float
    samples: float
    before: float
    samples_before: float


class _PastQuarters(Struct, frozen=True):
    """Three weeks of some streams by quarter, the last one first; (rows, SLOTS)."""

    n: Floats
    levels: Floats  # NaN where too little is known

    @property
    def apart(self) -> Floats:
        """Levels less those of a week before, of two weeks; NaN where either is not known."""
        return np.asarray(self.levels[:, : 2 * _WEEK] - self.levels[:, _WEEK:], dtype=np.float64)

    def shift(self, days: int) -> Floats:
        """Median difference of the last days; NaN where nothing is known."""
        return _median(self.apart[:, : days * _DAY])

    def known(self, days: int) -> Ints:
        """Number of quarters of the last days that can be compared."""
        return np.asarray((~np.isnan(self.apart[:, : days * _DAY])).sum(axis=1), dtype=np.int64)

    def sampling(self, first: int, last: int) -> Floats:
        """Variance by chance of the difference over quarters, of losses with variance one."""
        later = self.n[:, first:last].sum(axis=1)
        earlier = self.n[:, first + _WEEK : last + _WEEK].sum(axis=1)
        inverse = 1.0 / np.maximum(later, 1.0) + 1.0 / np.maximum(earlier, 1.0)
        return np.asarray(inverse, dtype=np.float64)

    def sampled_by_day(self, quarters: int, before: int = 0) -> Floats:
        """Variance by chance of the level of each day, of losses with variance one; (rows, days).

        Args:
            quarters: that are looked at, the last ones.
            before: age of those that the levels are compared with, in quarters; 0: none.
        """
        days = [self._inverse(first) for first in range(0, quarters, _DAY)]
        if before:
            days = [
                day + self._inverse(first + before)
                for day, first in zip(days, range(0, quarters, _DAY), strict=True)
            ]
        return np.stack(days, axis=1)

    def _inverse(self, first: int) -> Floats:
        samples = self.n[:, first : first + _DAY].sum(axis=1)
        return np.asarray(1.0 / np.maximum(samples, 1.0), dtype=np.float64)

    def levels_of(self, at: int, days: int) -> _WeekLevels:
        """Levels of the last days of one stream, where both they and a week before are known."""
        both = np.flatnonzero(~np.isnan(self.apart[at, : days * _DAY]))
        now, before = self.n[at, both], self.n[at, both + _WEEK]
        return _WeekLevels(
            level=float(np.average(self.levels[at, both], weights=now)),
            samples=float(now.sum()),
            before=float(np.average(self.levels[at, both + _WEEK], weights=before)),
            samples_before=float(before.sum()),
        )


def _between(past: _PastQuarters, scatter: Floats, prior: Floats, asked: Floats) -> Floats:
    """Variance of the difference of two days a week apart, beyond chance; (rows,).

    What so few days show of it is enlarged as Student's quantile exceeds that of a normal variable.
    Until two weeks can be compared with the one before, days are compared with their neighbours
    too, so that a weekly cycle counts as scatter.
    """
    apart = day_scatter.of_days(_by_day(past.apart), past.sampled_by_day(2 * _WEEK, _WEEK), scatter)
    plain = day_scatter.of_days(_by_day(past.levels), past.sampled_by_day(SLOTS), scatter)
    shown = np.where(
        apart.bends >= _LEAST_BENDS, apart.variance * day_scatter.doubt(asked, apart.bends), 0.0
    )
    early = 2.0 * plain.variance * day_scatter.doubt(asked, plain.bends)
    early[plain.bends < _LEAST_BENDS] = np.inf
    shown = np.where(apart.bends < _MANY_BENDS, np.maximum(shown, early), shown)
    return np.asarray(np.maximum(shown, 2.0 * np.square(prior)), dtype=np.float64)


def _began(newest: int, apart: Floats) -> Ints:
    """Minutes in which drifts began: the bend of a level that was even and then rose."""
    daily = _by_day(apart[:, :_WEEK])
    known, daily = ~np.isnan(daily), np.nan_to_num(daily)
    errors = []
    for days in range(1, 8):
        rise = np.maximum(days - 0.5 - np.arange(7), 0.0) * known
        slope = (rise * daily).sum(axis=1) / np.maximum(np.square(rise).sum(axis=1), 1e-9)
        errors.append(np.square((daily - slope[:, None] * rise) * known).sum(axis=1))
    days = 1 + np.argmin(np.stack(errors), axis=0)
    return np.asarray((newest + 1) * QUARTER - 1_440 * days, dtype=np.int64)


def _by_day(quarters: Floats) -> Floats:
    """Medians of each four quarters, (rows, days)."""
    return _median(quarters.reshape(len(quarters), quarters.shape[1] // _DAY, _DAY))


def _median(values: Floats) -> Floats:
    """Median over the last axis of what is not NaN; NaN where nothing is known."""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = (~np.isnan(values)).sum(axis=-1)
    middle = [np.maximum(count - 1, 0) // 2, count // 2]
    middle[1] = np.minimum(middle[1], values.shape[-1] - 1)
    parts = [np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0] for at in middle]
    return np.asarray(np.where(count > 0, (parts[0] + parts[1]) / 2.0, np.nan), dtype=np.float64)


def _errors(limit: float) -> float:
    """Standard errors that chance exceeds once in some minutes, whichever length is looked at."""
    chance = QUARTER / (limit * len(LENGTHS))
    return NormalDist().inv_cdf(1.0 - chance) if chance < 0.5 else 0.0


def _once_in(errors: Floats) -> Floats:
    """Minutes in which chance exceeds that many standard errors once, on average."""
    chance = np.array([0.5 * math.erfc(each / math.sqrt(2.0)) for each in errors.tolist()])
    once = QUARTER / (len(LENGTHS) * np.maximum(chance, 1e-300))
    return np.asarray(np.minimum(once, _MOST_EVIDENCE), dtype=np.float64)


def _describe(state: DriftState, tick: Tick, row: int) -> Finding:
    key = tick.streams.keys[row]
    assert key is not None
    limit = float(state.limits[row])
    n, earlier = float(state.samples[row]), float(state.samples_before[row])
    level, before = float(state.level[row]), float(state.before[row])
    typical_ms: tuple[float, float] | None = None
    binary, variance = bool(tick.streams.binary[row]), float(tick.references.variance[row])
    if key.metric == "latency_p50":
        typical_ms = (math.exp(before), math.exp(level))
        level, before = float(state.share[row]), 0.5
    observed, reference = (
        reference_of(size, mean, variance, binary=binary)
        for size, mean in ((n, level), (earlier, before))
    )
    return Finding(
        alert=AlertKey(KIND, key),
        status="bad" if _is_seen(state, row) else "unknown",
        severity=state.options.severity,
        observed=observed,
        reference=reference,
        reference_text="of the same hours a week before",
        tolerated=before + state.options.delta,
        changed_at=float(state.since[row]) * MINUTE_S,
        evidence=float(state.evidence[row]),
        threshold=limit,
        guarantee=(
            "if nothing changed, drifts would be reported at most "
            f"{state.options.false_alarms_per_month:g} times in 30 days, of everything together"
        ),
        typical_ms=typical_ms,
    )


def _is_seen(state: DriftState, row: int) -> bool:
    """True where something was observed in the last day."""
    slots = (state.newest - np.arange(_DAY)) % SLOTS
    return bool((state.cells[row, slots, 0] > 0.0).any())
