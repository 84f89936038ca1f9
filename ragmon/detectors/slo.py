"""A service level objective: alerts when its error budget burns too fast to last.

Multi-window, multi-burn-rate, event based (Beyer et al. (2018), The Site Reliability Workbook,
chapter 5): both a long and a short window must burn, so an alert is fast and ends soon.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from ragmon.detectors import AlertKey, Finding, Severity, Tick
from ragmon.detectors.arrays import Arrays, Floats, Ints
from ragmon.detectors.episodes import chosen, measured
from ragmon.detectors.losses import INDEX

KIND = "slo"


class Burn(NamedTuple):
    """How fast the budget may burn over two windows."""

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

    metric: Literal[tuple(INDEX)]  # type: ignore[valid-type]
    """Whose losses count as bad events."""
    objective: float = Field(gt=0.0, lt=1.0)
    """Share of queries that must be good."""
    pipelines: tuple[str, ...] = ()
    """Only these; none given: every pipeline."""
    min_bad: float = Field(default=10.0, ge=1.0)
    """Bad events that the long window needs."""


class State(Arrays):
    """Nothing but the options: the windows are in the log."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options

    def __len__(self) -> int:
        return 0

    def clear(self, streams: Sequence[int] | Ints) -> None:  # type: ignore[override]
        """Nothing to forget."""


def rule_name(options: Options) -> str:
    """What tells this rule from others on the same metric; a severity follows in its alerts."""
    return f"{options.objective:g}"


def step(state: State, tick: Tick) -> list[Finding]:
    """One minute further."""
    options = state.options
    watched = chosen(tick, (options.metric,), slices=False)
    rows = np.array(
        [
            row
            for row in np.flatnonzero(watched).tolist()
            if not options.pipelines or _pipeline(tick, row) in options.pipelines
        ],
        dtype=np.int64,
    )
    if not len(rows):
        return []
    lengths = {length for burn in BURNS for length in (burn.long_minutes, burn.short_minutes)}
    windows = {length: tick.log.window(length, rows) for length in sorted(lengths)}
    found: dict[AlertKey, Finding] = {}
    for burn in BURNS:
        for at in np.flatnonzero(burning(burn, windows, options)).tolist():
            each = _describe(options, tick, int(rows[at]), burn, windows[burn.long_minutes][at])
            found.setdefault(each.alert, each)  # the fastest burn speaks for its severity
    return list(found.values())


def burning(burn: Burn, windows: dict[int, Floats], options: Options) -> Ints:
    """Whether both windows of each stream burn too fast."""
    budget = 1.0 - options.objective
    long, short = windows[burn.long_minutes], windows[burn.short_minutes]
    enough = long[:, 1] >= options.min_bad
    fast = [
        cells[:, 1] >= burn.factor * budget * np.maximum(cells[:, 0], 1.0)
        for cells in (long, short)
    ]
    return np.asarray(enough & (short[:, 0] > 0.0) & fast[0] & fast[1])


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
