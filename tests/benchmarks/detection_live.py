"""G2, G3, G8: realistic traffic through the whole of Detection, references learned on the way."""

import numpy as np
from detection_stationary import Naive
from detection_worlds import DAY, MONDAY, Traffic, World

from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.rules import build

WARM_DAYS = 8


class Monitor:
    """A Detection over runs that are streams of their own."""

    def __init__(self, runs: int, rules, **options) -> None:
        self.detection = Detection([], build(rules), DetectionOptions(lag_s=0.0, **options))
        keys = [StreamKey(f"run{run:04d}", "hit") for run in range(runs)]
        self.rows = np.array([self.detection.streams.row(key) for key in keys])
        self.runs = runs

    def minute(self, minute: int, cells: np.ndarray):
        """Fold and judge one minute; returns its findings."""
        detection = self.detection
        if detection.log.frontier < 0:
            detection.log.begin(minute)
        detection.add_cells(np.full(self.runs, minute), self.rows, cells)
        (closed,) = detection.advance(minute + 1)
        return closed.findings

    @property
    def open(self) -> np.ndarray:
        """Runs with an open incident."""
        return next(
            state
            for rule, state in self.detection._rules
            if rule.kind.KIND in ("anomaly", "regression")
        ).open[self.rows]


def false_alarms(
    world: World,
    rates: np.ndarray,
    days: int,
    allowed: float,
    seed: int,
    warm_days: int = WARM_DAYS,
) -> np.ndarray:
    """Openings over some days with nothing wrong, after a week of learning.

    Returns:
        (3, runs): of the detector, of 0.05 over an hour and of a z-test each minute; the last
        two are told the true mean level.
    """
    traffic = Traffic(world, rates, seed)
    monitor = Monitor(len(rates), [{"kind": "anomaly"}], false_alarms_per_month=allowed)
    opened = np.zeros(len(rates))
    naive = Naive(world.level, len(rates))
    before = np.zeros(len(rates), dtype=bool)
    for minute, cells in traffic.month((warm_days + days) * DAY):
        monitor.minute(minute, cells)
        naive.step(cells)
        now = monitor.open
        if minute >= MONDAY + warm_days * DAY:
            opened += now & ~before
        elif minute == MONDAY + warm_days * DAY - 1:
            naive.by_run[:] = 0.0
        before = now
    return np.stack([opened, *naive.by_run])


def incidents(
    world: World,
    rates: np.ndarray,
    shift: float,
    minutes: int,
    after: int,
    allowed: float,
    seed: int,
    warm_days: int = WARM_DAYS,
) -> dict[str, np.ndarray]:
    """One incident of some minutes, then normal for ``after`` minutes more.

    Returns:
        By run: minutes to open and to resolve (NaN if never), and openings from the start on;
        the same of 0.05 over an hour, which is told the true level, as ``naive_…``.
    """
    traffic = Traffic(world, rates, seed)
    monitor = Monitor(len(rates), [{"kind": "anomaly"}], false_alarms_per_month=allowed)
    start = MONDAY + warm_days * DAY + 10 * 60
    naive, seen = Naive(world.level, len(rates)), [Seen(len(rates)), Seen(len(rates))]
    for minute in range(MONDAY, start + minutes + after):
        wrong = start <= minute < start + minutes
        cells = traffic.minute(minute, shift if wrong else 0.0)
        monitor.minute(minute, cells)
        naive.step(cells)
        if minute >= start:
            for each, now in zip(seen, (monitor.open, naive.on[0]), strict=True):
                each.minute(minute + 1 - start, now, over=minute - start - minutes + 1)
    return {
        prefix + name: getattr(each, name)
        for prefix, each in zip(("", "naive_"), seen, strict=True)
        for name in ("opened", "resolved", "openings")
    }


class Seen:
    """When alerts of many runs opened and resolved."""

    def __init__(self, runs: int) -> None:
        self.opened, self.resolved = (np.full(runs, np.nan) for _ in range(2))
        self.openings = np.zeros(runs)
        self._before = np.zeros(runs, dtype=bool)

    def minute(self, since: int, now: np.ndarray, over: int) -> None:
        """One minute, ``since`` the incident began, ``over`` since it was over if positive."""
        self.openings += now & ~self._before
        self.opened[np.isnan(self.opened) & now] = since
        if over > 0:
            self.resolved[np.isnan(self.resolved) & ~now & self._before] = over
        self._before = now.copy()
