"""A fixed limit on a window, with a minimum of samples: what people expect, and slow."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, model_validator

from ragmon.detectors import AlertKey, Finding, Measured, Severity, Tick
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints
from ragmon.detectors.baselines import HOURS, BaselineLookup, lookup
from ragmon.detectors.episodes import chosen, measured, reference_of
from ragmon.detectors.losses import known_metric
from ragmon.stats.intervals import effective_n_fraction, wilson_cc

KIND = "threshold"
_SURE = 3.0


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings: exactly one of ``limit`` and ``drop``."""

    metric: Annotated[str, AfterValidator(known_metric)]
    """Metric to limit; its loss counts: for hit, the share of queries without a hit. custom_score
    limits every judge of judge.custom, custom_score/NAME one of them."""
    limit: float | None = Field(default=None, gt=0.0)
    """Mean loss over the window above which an alert fires, for example 0.2."""
    drop: float | None = Field(default=None, gt=0.0)
    """Increase of the loss over the active baseline at this hour above which an alert fires: over
    the upper 95 % limit of the baseline, or over its mean if ``sure`` is 0."""
    window: float = Field(default=3_600.0, ge=60.0, le=7 * 86_400.0)
    """Length of the window in seconds."""
    min_samples: float = Field(default=50.0, ge=1.0)
    """Fewest queries in the window; with fewer no alert fires."""
    sure: float = Field(default=_SURE, ge=0.0)
    """Margin above the limit, in standard errors of the mean; 0 compares the mean alone."""
    hysteresis: float = Field(default=0.9, gt=0.0, le=1.0)
    """Share of the limit below which the mean must fall before the alert resolves."""
    pipelines: tuple[str, ...] = ()
    """Pipelines it applies to; none: all."""
    slices: bool = False
    """Watch the values of the configured slices too."""
    severity: Severity = "warning"
    """Severity of the alerts."""

    @model_validator(mode="after")
    def _one_limit(self) -> "Options":
        if (self.limit is None) == (self.drop is None):
            raise ValueError("give exactly one of limit and drop")
        return self


class ThresholdState(Arrays):
    """Streams that are over their limit."""

    open: Bools
    _FIELDS: ClassVar[Fields] = {"open": ((), "?", 0)}

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.watched: Ints = np.zeros(0, dtype=np.int64)
        self.limits: Floats = np.zeros(0)
        self.saved: list[Measured | None] = []
        self.lookup: BaselineLookup | None = None
        self.baseline = -1.0  # when the one was made that the limits come from; 0: none


def rule_name(options: Options) -> str:
    """Name among rules on the same metric."""
    rule = f"limit={options.limit:g}" if options.limit is not None else f"drop={options.drop:g}"
    sure = "" if options.sure == _SURE else f",sure={options.sure:g}"
    return f"{rule}{sure}/{int(options.window)}s"


def build(options: Options) -> ThresholdState:
    """State of a detector that has seen nothing."""
    return ThresholdState(options)


def step(state: ThresholdState, tick: Tick) -> list[Finding]:
    """One minute further."""
    baseline = tick.baseline.created_at if tick.baseline else 0.0
    if tick.renewed or state.baseline != baseline:
        state.baseline = baseline
        _renew(state, tick)
    rows = state.watched
    if not len(rows):
        return []
    options, limit = state.options, state.limits
    cells = tick.log.window(int(options.window // 60), rows)
    n, binary = cells[:, 0], tick.streams.binary[rows]
    mean = cells[:, 1] / np.maximum(n, 1.0)
    enough = n >= options.min_samples
    if not (state.open[rows] | (enough & (mean >= limit))).any():
        return []
    variance = np.maximum(cells[:, 2] / np.maximum(n, 1.0) - mean * mean, 0.0)
    size = np.where(binary, n, effective_n_fraction(n, mean, variance))
    lower, _ = wilson_cc(np.minimum(mean, 1.0), np.maximum(size, 1e-9), options.sure)
    exceeded = enough & (mean >= limit) & ((lower >= limit) | (options.sure == 0.0))
    stays = state.open[rows] & ((mean >= options.hysteresis * limit) | ~enough)
    state.open[rows] = exceeded | stays
    return [
        _describe(state, tick, at, cells[at], known=bool(enough[at]))
        for at in np.flatnonzero(state.open[rows]).tolist()
    ]


def _renew(state: ThresholdState, tick: Tick) -> None:
    """Choose the streams to watch, and the limit of moment in this hour."""
    options, keys = state.options, tick.streams.keys
    watched = chosen(tick, (options.metric,), slices=options.slices)
    if options.pipelines:
        named = [key is not None and key.pipeline in options.pipelines for key in keys]
        watched &= np.array(named, dtype=np.bool_)  # also of no streams at all
    limit = np.full(len(keys), options.limit or 0.0)
    saved: list[Measured | None] = [None] * len(keys)
    if options.drop is not None:
        if tick.baseline is None or tick.baseline.source != "traffic":
            watched[:] = False
        else:
            hour = tick.minute // 60 % HOURS
            state.lookup = lookup(tick.baseline, tick.streams, state.lookup)
            level = state.lookup.limits(hour, np.ones(len(keys)))
            watched &= level.n > 0.0
            limit = (level.upper if options.sure else level.mean) + options.drop
            for row in np.flatnonzero(watched).tolist():
                n, mean, variance = (
                    float(moment[row]) for moment in (level.n, level.mean, level.variance)
                )
                saved[row] = reference_of(n, mean, variance, binary=bool(tick.streams.binary[row]))
    state.open &= watched
    state.watched = np.flatnonzero(watched)
    state.limits = limit[state.watched]
    state.saved = [saved[row] for row in state.watched.tolist()]


def _describe(state: ThresholdState, tick: Tick, at: int, cells: Floats, *, known: bool) -> Finding:
    options, row = state.options, int(state.watched[at])
    key = tick.streams.keys[row]
    assert key is not None
    limit = float(state.limits[at])
    text = "(limit of the rule)"
    if options.drop is not None and tick.baseline is not None:
        text = f"in {tick.baseline.title}"
    return Finding(
        alert=AlertKey(KIND, key, rule_name(options)),
        status="bad" if known else "unknown",
        severity=options.severity,
        observed=measured(cells, binary=bool(tick.streams.binary[row])),
        reference=state.saved[at],
        reference_text=text,
        tolerated=limit,
        window_s=options.window,
        threshold=limit,
        guarantee="none: a fixed limit; `ragmon backtest` shows how often it would have fired",
    )
