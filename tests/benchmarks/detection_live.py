"""G2, G3, G8: realistic traffic through the whole of Detection, references learned on the way."""

import numpy as np
from detection_worlds import DAY, MONDAY, Traffic, World

from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, Options
from ragmon.detectors.rules import build

WARM_DAYS = 8


class Monitor:
    """A Detection over runs that are streams of their own."""

    def __init__(self, runs: int, rules, **options) -> None:
        self.detection = Detection([], build(rules), Options(lag_s=0.0, **options))
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
            for module, state in self.detection._rules
            if module.KIND in ("anomaly", "regression")
        ).open[self.rows]


def false_alarms(
    world: World,
    rates: np.ndarray,
    days: int,
    allowed: float,
    seed: int,
    warm_days: int = WARM_DAYS,
) -> np.ndarray:
    """Openings of each run over some days with nothing wrong, after a week of learning."""
    traffic = Traffic(world, rates, seed)
    monitor = Monitor(len(rates), [{"kind": "anomaly"}], false_alarms_per_month=allowed)
    opened = np.zeros(len(rates))
    before = np.zeros(len(rates), dtype=bool)
    for minute, cells in traffic.month((warm_days + days) * DAY):
        monitor.minute(minute, cells)
        now = monitor.open
        if minute >= MONDAY + warm_days * DAY:
            opened += now & ~before
        before = now
    return opened


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
        By run: minutes to open and to resolve (NaN if never), and openings from the start on.
    """
    traffic = Traffic(world, rates, seed)
    monitor = Monitor(len(rates), [{"kind": "anomaly"}], false_alarms_per_month=allowed)
    start = MONDAY + warm_days * DAY + 10 * 60
    opened, resolved = (np.full(len(rates), np.nan) for _ in range(2))
    openings = np.zeros(len(rates))
    before = np.zeros(len(rates), dtype=bool)
    for minute in range(MONDAY, start + minutes + after):
        wrong = start <= minute < start + minutes
        monitor.minute(minute, traffic.minute(minute, shift if wrong else 0.0))
        now = monitor.open
        if minute < start:
            if minute == start - 1:
                now = before = np.zeros(len(rates), dtype=bool)
            continue
        openings += now & ~before
        opened[np.isnan(opened) & now] = minute + 1 - start
        ended = ~now & before & (minute >= start + minutes)
        resolved[np.isnan(resolved) & ended] = minute + 1 - start - minutes
        before = now
    return {"opened": opened, "resolved": resolved, "openings": openings}
