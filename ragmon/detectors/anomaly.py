"""Worse than this stream's own past at this time of day."""

from typing import ClassVar

import numpy as np
from msgspec.structs import replace
from pydantic import BaseModel

from ragmon.detectors import Finding, Severity, Tick, budget
from ragmon.detectors.arrays import Fields, Floats
from ragmon.detectors.core import Charts
from ragmon.detectors.episodes import Null, chosen, finding, follow, reference_of
from ragmon.detectors.losses import DETECTED, LATENCY

KIND = "anomaly"

_UNANSWERED = ("error", "zero_result")
_FIRST_MINUTES = 10  # of a change, in which its first minute still counts for much of its mean


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metrics: tuple[str, ...] = DETECTED
    """Metrics to watch."""
    slices: bool = True
    """Also watch each value of the configured slices."""
    severity: Severity = "warning"
    """Severity of the alerts."""
    outage_from: float = 0.5
    """Share of failed or empty queries from which the alert is critical."""
    accept_after: float = 3 * 86_400.0
    """Seconds after which a lasting change becomes the new normal and the alert resolves."""


class AnomalyState(Charts):
    """Charts of every stream."""

    limits: Floats  # A
    _FIELDS: ClassVar[Fields] = Charts._FIELDS | {"limits": ((), "f8", np.inf)}

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options


def build(options: Options) -> AnomalyState:
    """State of a detector that has seen nothing."""
    return AnomalyState(options)


def step(state: AnomalyState, tick: Tick) -> list[Finding]:
    """One minute further."""
    references = tick.references
    if tick.renewed:
        active = chosen(tick, state.options.metrics, slices=state.options.slices)
        active &= references.ready & ~(references.unseen & LATENCY[tick.streams.loss])
        shares = budget.weights(tick.streams, active)
        state.limits = budget.minutes_to_false_alarm(shares, tick.allowed)
    null = Null(
        references.mean,
        references.tolerated,
        references.phi * references.spread,
        references.weights,
        references.gains(tick.cells),
        tick.delta,
    )
    since = state.since.copy()
    _, closed = follow(state, tick, null, state.limits)
    for row in closed[references.days[closed] == 0.0].tolist():
        # The season of this hour was not known yet: hidden, it would raise an alert every day.
        tick.log.readmit(row, int(since[row]), tick.minute)
    _accept(state, tick)
    return [_describe(state, tick, row) for row in np.flatnonzero(state.open).tolist()]


def _accept(state: AnomalyState, tick: Tick) -> None:
    """Take a change that lasted long enough for the new normal."""
    age = tick.minute - state.opened
    rows = np.flatnonzero(state.open & (age * 60.0 >= state.options.accept_after))
    for row in rows.tolist():
        tick.log.rebase(row, int(state.since[row]))
    state.reset(rows)


def _describe(state: AnomalyState, tick: Tick, row: int) -> Finding:
    references, key = tick.references, tick.streams.keys[row]
    assert key is not None
    binary = bool(tick.streams.binary[row])
    days = int(references.days[row])
    n, mean, variance = (
        float(moment[row]) for moment in (references.n, references.mean, references.variance)
    )
    limit = float(state.limits[row])
    incident = finding(
        KIND,
        key,
        state,
        row,
        binary=binary,
        severity=state.options.severity,
        reference=reference_of(n, mean, variance, binary=binary),
        reference_text=f"at this hour ({days} days)" if days else "over the last day",
        tolerated=float(references.tolerated[row]),
        limit=limit,
        guarantee=budget.guarantee(limit, tick.total),
    )
    if key.metric in _UNANSWERED and _level(state, tick, row) >= state.options.outage_from:
        return replace(incident, severity="critical")
    return incident


def _level(state: AnomalyState, tick: Tick, row: int) -> float:
    """Share of bad queries since the change; without its first minute if that is higher.

    A change seldom begins with a minute: what it left of the first would hide an outage for one
    minute more.
    """
    cells = [state.seen[row]]
    second = int(state.since[row]) + 1
    if second <= tick.minute < second + _FIRST_MINUTES:
        cells.append(tick.log.span(second, tick.minute + 1, np.array([row]))[0])
    return max(float(each[1] / max(each[0], 1.0)) for each in cells)
