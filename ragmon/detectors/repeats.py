"""Retry storms: many queries of a pipeline repeat what was asked in the same minute.

Detectors count such a question once, so that one client that retries is no fall of a rate; this
kind says that it does. A count over a window, in whole pipelines.
"""

from typing import ClassVar

import numpy as np
from pydantic import BaseModel, Field

from ragmon.detectors import AlertKey, Finding, Severity, Tick
from ragmon.detectors.arrays import Arrays, Bools, Fields, Ints
from ragmon.detectors.episodes import chosen, measured

KIND = "repeats"

_METRIC = "repeat"


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    least: float = Field(default=20.0, ge=1.0)
    """Fewest repeated queries in the window; with fewer no alert fires."""
    share: float = Field(default=0.05, gt=0.0, lt=1.0)
    """Share of the queries in the window from which repeats raise an alert."""
    window: float = Field(default=300.0, ge=60.0, le=86_400.0)
    """Length of the window in seconds."""
    severity: Severity = "info"
    """Severity of the alerts."""


class RepeatsState(Arrays):
    """Streams that are watched; the window is in the log."""

    watched: Bools
    _FIELDS: ClassVar[Fields] = {"watched": ((), "?", 0)}

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options


def build(options: Options) -> RepeatsState:
    """State of a detector that has seen nothing."""
    return RepeatsState(options)


def step(state: RepeatsState, tick: Tick) -> list[Finding]:
    """One minute further."""
    options = state.options
    if tick.renewed:
        state.watched = chosen(tick, (_METRIC,), slices=False)
    rows: Ints = np.flatnonzero(state.watched)
    if not len(rows):
        return []
    cells = tick.log.window(int(options.window // 60), rows)
    asked, repeated = cells[:, 0], cells[:, 1]
    stormy = (repeated >= options.least) & (repeated >= options.share * asked)
    findings = []
    for at in np.flatnonzero(stormy).tolist():
        key = tick.streams.keys[int(rows[at])]
        assert key is not None
        findings.append(
            Finding(
                alert=AlertKey(KIND, key),
                status="bad",
                severity=options.severity,
                observed=measured(cells[at], binary=True),
                tolerated=options.share,
                window_s=options.window,
                threshold=options.share,
                guarantee="none: a count; a question counts once a minute in every other alert",
            )
        )
    return findings
