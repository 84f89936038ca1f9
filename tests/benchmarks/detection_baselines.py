"""G4: baselines of few cases, and of real traffic, against traffic that did not change."""

import numpy as np
from detection_live import Monitor
from detection_stationary import Naive
from detection_worlds import DAY, MONDAY, STEADY, Traffic, World

from ragmon.detectors import StreamKey
from ragmon.detectors.baselines import from_log, from_totals

RULES = [{"kind": "regression"}]


def small(cases: tuple[int, ...], runs: int, days: float, shift: float = 0.0, seed: int = 4):
    """Share of baselines of n cases that raise an alarm, and minutes until then.

    Returns:
        By number of cases: (share with an alarm, median minutes of those, share with an alarm
        of 0.05 over an hour).
    """
    total = runs * len(cases)
    rng = np.random.default_rng(seed)
    sizes = np.repeat(cases, runs)
    lost = rng.binomial(sizes, STEADY.level)
    naive = Naive(np.clip(lost / sizes, 0.005, 0.995), total)
    monitor = Monitor(total, RULES, false_alarms_per_month=float(total))
    saved = {
        StreamKey(f"run{run:04d}", "hit"): (float(n), float(bad), float(bad))
        for run, (n, bad) in enumerate(zip(sizes.tolist(), lost.tolist(), strict=True))
    }
    monitor.detection.use_baseline(from_totals("small", saved, "", 0.0, source="traffic"))
    traffic = Traffic(STEADY, np.ones(total), seed)
    first = _first_alarm(monitor, traffic, days, shift, MONDAY, naive)
    by_size = (len(cases), runs)
    rows = zip(cases, first.reshape(by_size), naive.by_run[0].reshape(by_size), strict=True)
    return {
        n: (float((~np.isnan(part)).mean()), _median(part), float((plain > 0).mean()))
        for n, part, plain in rows
    }


def from_week(world: World, runs: int, days: float, seed: int = 5, shift: float = 0.0):
    """The same of a baseline by hour of day, from a week of the same traffic."""
    traffic = Traffic(world, np.ones(runs), seed)
    monitor = Monitor(runs, RULES, false_alarms_per_month=float(runs))
    last = MONDAY + 7 * DAY
    for minute in range(MONDAY, last):
        monitor.minute(minute, traffic.minute(minute))
    detection = monitor.detection
    detection.use_baseline(
        from_log(detection.log, detection.streams, "week", first=MONDAY, last=last, now=0.0)
    )
    first = _first_alarm(monitor, traffic, days, shift, last)
    return float((~np.isnan(first)).mean()), _median(first)


def _first_alarm(monitor, traffic, days, shift, start, naive=None) -> np.ndarray:
    found = np.full(monitor.runs, np.nan)
    for minute in range(start, start + int(days * DAY)):
        cells = traffic.minute(minute, shift)
        monitor.minute(minute, cells)
        if naive is not None:
            naive.step(cells)
        found[np.isnan(found) & monitor.open] = minute + 1 - start
        if not np.isnan(found).any():
            break
    return found


def _median(found: np.ndarray) -> float:
    known = found[~np.isnan(found)]
    return float(np.median(known)) if len(known) else float("nan")
