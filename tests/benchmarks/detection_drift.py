"""Slow drifts: how soon they are found, if they are forgotten, and false alarms without any."""

from dataclasses import dataclass

import numpy as np
from detection_worlds import DAY, MONDAY, Traffic, World

from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.rules import build
from ragmon.windows.observations import Observations

TOTAL_MS = "latency_ms{stage=total}"
_LOOK = 30  # minutes between two looks at what is open


@dataclass(frozen=True)
class Drifted:
    """What became of some runs; (runs,)."""

    found: np.ndarray  # days after its beginning, NaN: never
    forgotten: np.ndarray  # days after it was found without an alert
    opened: np.ndarray  # alerts before it began

    def __str__(self) -> str:
        within = (self.found <= 5.0).mean()
        return (
            f"found within 5 days {within:.0%}, after {np.nanmedian(self.found):.1f} days, "
            f"without an alert {self.forgotten.mean():.1f} days later"
        )


def hits(
    world: World,
    rate: float,
    runs: int,
    days: int,
    *,
    begins: float = np.inf,
    a_day: float = 0.01,
    alone: bool = True,
    seed: int = 5,
) -> Drifted:
    """Misses of the hit rate that grow by ``a_day`` from some day on; one stream a run."""
    traffic = Traffic(world, np.full(runs, rate), seed)
    detection = _detection([], runs if alone else 1)
    keys = [StreamKey(f"run{run:04d}", "hit") for run in range(runs)]
    rows = np.array([detection.streams.row(key) for key in keys])
    seen = _Seen(runs, begins)
    for minute in range(MONDAY, MONDAY + days * DAY):
        day = (minute - MONDAY) / DAY
        cells = traffic.minute(minute, max(day - begins, 0.0) * a_day if day > begins else 0.0)
        detection.add_cells(np.full(runs, minute), rows, cells)
        (closed,) = detection.advance(minute + 1)
        seen.look(minute, day, closed.findings)
    return seen.drifted


def latencies(
    rate: float, runs: int, days: int, *, begins: float = np.inf, a_day: float = 1.1, seed: int = 5
) -> Drifted:
    """Latencies that grow by a factor ``a_day`` from some day on, slower at noon and by day."""
    rng = np.random.default_rng(seed)
    detection = _detection([TOTAL_MS], runs)
    names = [(f"run{run:04d}", "") for run in range(runs)]
    seen = _Seen(runs, begins)
    effect = np.zeros(runs)
    for minute in range(MONDAY, MONDAY + days * DAY):
        day, phase = (minute - MONDAY) / DAY, 2.0 * np.pi * (minute % DAY) / DAY
        if minute % DAY == 0:
            effect = rng.normal(0.0, 0.02, runs)
        n = rng.poisson(60.0 * rate * (0.7 - 0.3 * np.cos(phase)), runs)
        which = np.repeat(np.arange(runs, dtype=np.int32), n)
        level = 6.8 - 0.1 * np.cos(phase) + np.log(a_day) * (day - begins) * (day > begins)
        slow = rng.lognormal(level + effect[which], 0.5)
        if len(which):
            times = np.full(len(which), 60.0 * minute + 1.0)
            detection.fold(Observations((), names, which, times, slow[:, None]))
        (closed,) = detection.advance(minute + 1)
        seen.look(minute, day, closed.findings)
    return seen.drifted


class _Seen:
    """Open alerts of the rule, looked at now and then."""

    def __init__(self, runs: int, begins: float) -> None:
        self._begins = begins
        self._before = np.zeros(runs, dtype=bool)
        self.drifted = Drifted(np.full(runs, np.nan), np.zeros(runs), np.zeros(runs))

    def look(self, minute: int, day: float, findings) -> None:
        if minute % _LOOK:
            return
        now = np.zeros(len(self._before), dtype=bool)
        now[[int(each.alert.stream.pipeline[3:]) for each in findings]] = True
        after = day >= self._begins
        if after:
            known = ~np.isnan(self.drifted.found)
            self.drifted.found[now & ~known] = day - self._begins
            self.drifted.forgotten[known & ~now] += _LOOK / DAY
        else:
            self.drifted.opened[:] += now & ~self._before
        self._before = now


def _detection(columns: list[str], sharing: int) -> Detection:
    """A detection whose runs have an allowance of their own, 0.1 false alarms in 30 days each."""
    rule = {"kind": "drift", "false_alarms_per_month": 0.1 * sharing}
    options = DetectionOptions(lag_s=0.0, max_streams=10_000, first_days=0)
    detection = Detection(columns, build([rule]), options)
    detection.log.begin(MONDAY)
    return detection
