"""A service level objective: alerts when its error budget burns too fast to last.

Multi-window, multi-burn-rate, event based (Beyer et al. (2018), The Site Reliability Workbook,
chapter 5): both a long and a short window must burn, so an alert is fast and ends soon.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator, BaseModel, Field

from ragmon.detectors import AlertKey, Finding, Severity, Tick
from ragmon.detectors.arrays import Arrays, Bools, Floats, Ints
from ragmon.detectors.episodes import chosen, measured
from ragmon.detectors.losses import known_metric

KIND = "slo"


class Burn(NamedTuple):
    """Two windows and the rate at which the error budget may burn over both."""

    long_minutes: int
    short_minutes: int
    factor: float
    severity: Severity


BURNS = (
    Burn(60, 5, 14.4, "critical"),
    Burn(360, 30, 6.0, "critical"),
    Burn(1_440, 120, 3.0, "warning"),
    Burn(4_320, 360, 1.0, "warning"),
)


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metric: Annotated[str, AfterValidator(known_metric)]
    """Metric whose bad queries use up the error budget."""
    objective: float = Field(gt=0.0, lt=1.0)
    """Share of queries that must be good, for example 0.95."""
    pipelines: tuple[str, ...] = ()
    """Pipelines it applies to; none: all."""
    min_bad: float = Field(default=10.0, ge=1.0)
    """Fewest bad queries in the long window; with fewer no alert fires."""


class SloState(Arrays):
    """Streams that are watched; the windows are in the log."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.ready = False
        self.watched: Ints = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return 0

    def clear(self, streams: Sequence[int] | Ints) -> None:
        """Nothing to forget."""


def rule_name(options: Options) -> str:
    """Name among rules on the same metric; a severity follows it in alerts."""
    return f"{options.objective:g}"


def build(options: Options) -> SloState:
    """State of a detector that has seen nothing."""
    return SloState(options)


def step(state: SloState, tick: Tick) -> list[Finding]:
    """One minute further."""
    if tick.renewed or not state.ready:
        _watch(state, tick)
    findings: dict[AlertKey, Finding] = {}
    for burn in BURNS if len(state.watched) else ():
        short = tick.log.window(burn.short_minutes, state.watched)
        hot = state.watched[(short[:, 0] > 0.0) & too_fast(short, burn, state.options)]
        if not len(hot):
            continue  # most minutes, and the long window need not be summed
        long = tick.log.window(burn.long_minutes, hot)
        enough = long[:, 1] >= state.options.min_bad
        for at in np.flatnonzero(enough & too_fast(long, burn, state.options)).tolist():
            finding = _describe(state.options, tick, int(hot[at]), burn, long[at])
            findings.setdefault(finding.alert, finding)  # of a severity the fastest burn
    return list(findings.values())


def too_fast(cells: Floats, burn: Burn, options: Options) -> Bools:
    """Mask of the streams that burnt their budget at this rate in a window; cells (streams, 3)."""
    allowed = burn.factor * (1.0 - options.objective) * np.maximum(cells[:, 0], 1.0)
    return np.asarray(cells[:, 1] >= allowed)


def _watch(state: SloState, tick: Tick) -> None:
    """Choose the streams to watch."""
    options = state.options
    watched = chosen(tick, (options.metric,), slices=False)
    state.ready = True
    state.watched = np.array(
        [
            row
            for row in np.flatnonzero(watched).tolist()
            if not options.pipelines or _pipeline(tick, row) in options.pipelines
        ],
        dtype=np.int64,
    )


def _describe(options: Options, tick: Tick, row: int, burn: Burn, cells: Floats) -> Finding:
    key = tick.streams.keys[row]
    assert key is not None
    allowed = burn.factor * (1.0 - options.objective)
    return Finding(
        alert=AlertKey(KIND, key, f"{rule_name(options)}/{burn.severity}"),
        status="bad",
        severity=burn.severity,
        observed=measured(cells, binary=bool(tick.streams.binary[row])),
        reference_text=f"by an objective of {options.objective:.6g}",
        tolerated=allowed,
        window_s=burn.long_minutes * 60.0,
        threshold=allowed,
        guarantee=(
            f"the error budget of 30 days is used up in {30.0 / burn.factor:.1f} days at the rate "
            f"of the last {_length(burn.long_minutes)} and {_length(burn.short_minutes)}"
        ),
    )


def _pipeline(tick: Tick, row: int) -> str:
    key = tick.streams.keys[row]
    return key.pipeline if key else ""


def _length(minutes: int) -> str:
    if minutes % 1_440 == 0:
        return f"{minutes // 1_440} d"
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
