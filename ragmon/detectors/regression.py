"""Worse than a saved baseline, whose own uncertainty counts."""

import msgspec
import numpy as np
from pydantic import BaseModel

from ragmon.detectors import Finding, Severity, Tick, budget, core
from ragmon.detectors.arrays import Floats
from ragmon.detectors.baselines import (
    HOURS,
    Baseline,
    BaselineLimits,
    BaselineLookup,
    lookup,
    weekday_shares,
)
from ragmon.detectors.core import Charts
from ragmon.detectors.episodes import Null, chosen, finding, follow, reference_of
from ragmon.detectors.losses import DETECTED

KIND = "regression"


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metrics: tuple[str, ...] = DETECTED
    """Metrics to watch."""
    slices: bool = True
    """Watch the slices in the baseline too."""
    severity: Severity = "warning"
    """Severity of the alerts."""
    delta: float = 0.01
    """Falls smaller than this below the baseline's range are ignored."""


class RegressionState(Charts):
    """Charts of every stream, and the null of the hour."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.baseline = ""  # that the evidence was gathered against
        self.limits: Floats = np.zeros(0)
        self.null: Null | None = None
        self.saved: BaselineLimits | None = None
        self.lookup: BaselineLookup | None = None

    def dump(self) -> bytes:
        """Everything, as bytes."""
        return msgspec.msgpack.encode((self.baseline, super().dump()))

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        self.baseline, charts = msgspec.msgpack.decode(data, type=tuple[str, bytes])
        super().load(charts)


def build(options: Options) -> RegressionState:
    """State of a detector that has seen nothing."""
    return RegressionState(options)


def step(state: RegressionState, tick: Tick) -> list[Finding]:
    """One minute further; golden baselines judge no traffic."""
    baseline = tick.baseline
    if baseline is None or baseline.source != "traffic":
        if state.baseline:
            state.clear(np.arange(len(state)))
            state.baseline = ""
        return []
    grown = len(state.limits) != len(tick.streams)
    if tick.renewed or grown or state.null is None or state.baseline != _identity(baseline):
        _renew(state, tick, baseline)
    assert state.null is not None
    follow(state, tick, state.null, state.limits)
    return [_describe(state, tick, baseline, row) for row in np.flatnonzero(state.open).tolist()]


def _renew(state: RegressionState, tick: Tick, baseline: Baseline) -> None:
    if state.baseline and state.baseline != _identity(baseline):
        state.clear(np.arange(len(state)))  # evidence against another level does not count
    state.baseline = _identity(baseline)
    references, binary = tick.references, tick.streams.binary
    state.lookup = lookup(baseline, tick.streams, state.lookup)
    saved = state.lookup.limits(tick.minute // 60 % HOURS, references.phi)
    week = references.offset - references.weekdays @ weekday_shares(baseline, tick.calendar)
    mean = np.maximum(saved.mean + week, 0.0)
    margin = np.hypot(saved.upper - saved.mean, tick.z * np.sqrt(references.doubt))
    tolerated = mean + margin + state.options.delta
    active = chosen(tick, state.options.metrics, slices=state.options.slices)
    active &= saved.n > 0.0
    shares = budget.weights(tick.streams, active)
    state.limits = budget.minutes_to_false_alarm(shares, tick.allowed)
    weights = core.coefficients(tolerated, saved.variance, binary, references.phi)
    spread = references.phi * references.spread
    state.null = Null(mean, tolerated, spread, weights)
    state.saved = saved


def _identity(baseline: Baseline) -> str:
    return f"{baseline.name}@{baseline.created_at}"


def _describe(state: RegressionState, tick: Tick, baseline: Baseline, row: int) -> Finding:
    key = tick.streams.keys[row]
    assert key is not None
    assert state.saved is not None
    assert state.null is not None
    binary = bool(tick.streams.binary[row])
    n, mean, variance = (
        float(moment[row]) for moment in (state.saved.n, state.null.mean, state.saved.variance)
    )
    limit = float(state.limits[row])
    return finding(
        KIND,
        key,
        state,
        row,
        binary=binary,
        severity=state.options.severity,
        reference=reference_of(n, mean, variance, binary=binary),
        reference_text=f"in {baseline.title}",
        tolerated=float(state.null.tolerated[row]),
        limit=limit,
        guarantee=budget.guarantee(limit, tick.total),
    )
