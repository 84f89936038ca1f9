"""G1: stationary streams of known level: alarms and delay against what is possible."""

from dataclasses import dataclass

import numpy as np

from ragmon.detectors.core import CALM_CAP, MONTH_MINUTES, Charts, coefficients

RATES = (0.05, 1.0, 10.0, 100.0)
LEVELS = (0.02, 0.05, 0.1)
SHIFTS = (0.02, 0.05, 0.1)
_GRID = np.linspace(0.25, 12.0, 48)  # thresholds tried for the oracle
_WINDOW = 60


@dataclass(frozen=True)
class Cell:
    """One rate, level and shift; delays in queries."""

    rate: float
    level: float
    shift: float
    alarms: float  # of the shipped detector in 30 days with nothing wrong
    delay: float
    optimum: float
    formula: float
    naive_alarms: tuple[float, float]  # 0.05 over an hour; z-test each minute
    naive_delay: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Mean delay over that of the oracle CUSUM calibrated to the same false alarms."""
        return self.delay / self.optimum


def cells(runs: int, days: float, delay_runs: int, rates=RATES, levels=LEVELS, seed: int = 1):
    """Every cell of the table."""
    for rate in rates:
        for level in levels:
            yield from _level(rate, level, runs, int(days * 1440), delay_runs, seed)


def weights_of(level: float, runs: int) -> np.ndarray:
    """Coefficients against a known level."""
    one = np.ones(runs)
    return coefficients(level * one, level * (1 - level) * one, one > 0, one)


def _level(rate, level, runs, minutes, delay_runs, seed):
    rng = np.random.default_rng(seed)
    counts, naive, oracle = _null(rate, level, runs, minutes, rng)
    months = runs * minutes / MONTH_MINUTES
    for shift in SHIFTS:
        limit = _calibrated(oracle[shift] / months)
        delays = _delays(rate, level, shift, limit, delay_runs, rng)
        up = level + shift
        kl = up * np.log(up / level) + (1 - up) * np.log((1 - up) / (1 - level))
        scale = 60.0 * rate
        yield Cell(
            rate,
            level,
            shift,
            counts / months,
            delays[0] * scale,
            delays[1] * scale,
            np.log(MONTH_MINUTES * scale) / kl,
            tuple(naive / months),
            (delays[2] * scale, delays[3] * scale),
        )


def _null(rate, level, runs, minutes, rng):
    """Alarms of every rule with nothing wrong."""
    charts = Charts()
    charts.grow(runs)
    weights, limits, caps = (
        weights_of(level, runs),
        np.full(runs, MONTH_MINUTES),
        np.full(runs, CALM_CAP),
    )
    fired = 0
    naive = Naive(level, runs)
    oracles = {shift: np.zeros((runs, len(_GRID))) for shift in SHIFTS}
    hits = {shift: np.zeros(len(_GRID)) for shift in SHIFTS}
    for minute in range(minutes):
        cell = bernoulli(rng, rate, level, runs)
        rows = charts.watch(minute, cell, weights, limits, caps)
        fired += len(rows)
        charts.clear(rows)
        naive.step(cell)
        for shift in SHIFTS:
            state = np.maximum(oracles[shift], 0.0) + _llr(cell, level, shift)[:, None]
            over = state >= _GRID
            hits[shift] += over.sum(axis=0)
            state[over] = 0.0
            oracles[shift] = state
    return fired, naive.by_run.sum(axis=1), hits


def _delays(rate, level, shift, limit, runs, rng):
    """Mean minutes to an alarm: shipped, oracle, 0.05 over an hour, z-test each minute."""
    charts = Charts()
    charts.grow(runs)
    weights, limits, caps = (
        weights_of(level, runs),
        np.full(runs, MONTH_MINUTES),
        np.full(runs, CALM_CAP),
    )
    naive = Naive(level, runs)
    oracle = np.zeros(runs)
    for minute in range(180):  # the past of a stream on which nothing happened
        cell = bernoulli(rng, rate, level, runs)
        charts.clear(charts.watch(minute, cell, weights, limits, caps))
        naive.step(cell)
        oracle = np.maximum(oracle, 0.0) + _llr(cell, level, shift)
        oracle[oracle >= limit] = 0.0
    found = np.full((4, runs), np.nan)
    for minute in range(1, 40_000):
        cell = bernoulli(rng, rate, level + shift, runs)
        charts.watch(minute, cell, weights, limits, caps)
        naive.step(cell)
        oracle = np.maximum(oracle, 0.0) + _llr(cell, level, shift)
        state = np.stack([charts.open, oracle >= limit, *naive.on])
        found[np.isnan(found) & state] = minute
        if not np.isnan(found[:2]).any() and (minute > 3_000 or not np.isnan(found).any()):
            break
    return [np.nan if np.isnan(each).mean() > 0.05 else np.nanmean(each) for each in found]


class Naive:
    """The rules people start with: 0.05 over an hour, and a z-test at 1 % each minute."""

    def __init__(self, level: float | np.ndarray, runs: int) -> None:
        self.level = level
        self.ring = np.zeros((_WINDOW, runs, 2))
        self.sums = np.zeros((runs, 2))
        self.at = 0
        self.on = np.zeros((2, runs), dtype=bool)
        self.by_run = np.zeros((2, runs))  # openings

    def step(self, cell: np.ndarray) -> None:
        """One minute."""
        slot = self.at % _WINDOW
        self.sums += cell[:, :2] - self.ring[slot]
        self.ring[slot] = cell[:, :2]
        self.at += 1
        if self.at < _WINDOW:
            return
        n = np.maximum(self.sums[:, 0], 1.0)
        fall = self.sums[:, 1] / n - self.level
        z = fall / np.sqrt(self.level * (1 - self.level) / n)
        now = np.stack([fall > 0.05, z > 2.326])
        self.by_run += now & ~self.on
        self.on = now


def bernoulli(rng, rate, level, runs) -> np.ndarray:
    """Cells (runs, 3) of a minute of independent losses."""
    n = rng.poisson(60.0 * rate, runs)
    lost = rng.binomial(n, level)
    return np.stack([n, lost, lost], axis=1).astype(np.float64)


def _llr(cell, level, shift):
    up = level + shift
    return cell[:, 1] * np.log(up / level) + (cell[:, 0] - cell[:, 1]) * np.log(
        (1 - up) / (1 - level)
    )


def _calibrated(per_month):
    """The least threshold with at most one alarm a month, between those that were tried."""
    often = np.flatnonzero(per_month > 1.0)
    if not len(often):
        return float(_GRID[0])
    last = min(int(often[-1]), len(_GRID) - 2)
    high, low = np.log(np.maximum(per_month[last : last + 2], 1e-2))
    return float(_GRID[last] + (_GRID[last + 1] - _GRID[last]) * high / (high - low))
