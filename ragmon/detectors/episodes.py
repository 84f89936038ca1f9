"""Shared by anomaly and regression: evidence against a null, incidents that open and close."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragmon.detectors import MINUTE_S, AlertKey, Finding, Measured, Severity, StreamKey, Tick
from ragmon.detectors.arrays import Bools, Floats, Ints
from ragmon.detectors.core import Charts, capped
from ragmon.detectors.losses import INDEX, LOSSES, family
from ragmon.stats.intervals import effective_n_fraction, wilson_cc


class Null(Struct, frozen=True):
    """Null hypothesis of every stream; shapes (streams,) but for ``weights``."""

    mean: Floats
    tolerated: Floats
    spread: Floats  # over-dispersion times the variance of a loss over that of 0/1
    weights: Floats  # (streams, 3, 8)
    gains: Floats | None = None  # (streams, 8) of this minute, where they are known
    least: float = 0.0  # above the mean, that a change has to reach to be told


def follow(charts: Charts, tick: Tick, null: Null, limits: Floats) -> tuple[Ints, Ints]:
    """One minute of every stream: recoveries first, then new incidents.

    Returns:
        Rows that opened and rows that closed.
    """
    before = charts.since.copy() if charts.open.any() else charts.since
    closed = charts.recover(tick.minute, tick.cells, null.mean, null.tolerated, null.spread)
    for row in closed.tolist():
        tick.log.exclude(np.array([row]), int(before[row]), tick.minute)
    active = charts.active(tick.cells, limits)
    caps = tick.references.caps.copy()
    caps[active] = capped(caps[active], limits[active])

    def large(rows: Ints) -> Bools:
        since = zip(rows.tolist(), charts.began(rows).tolist(), strict=True)
        seen = np.concatenate(
            [tick.log.span(first, tick.minute + 1, np.array([row])) for row, first in since]
        )
        level = seen[:, 1] / np.maximum(seen[:, 0], 1.0)
        return np.asarray(level - null.mean[rows] >= null.least, dtype=np.bool_)

    opened = charts.watch(
        tick.minute, tick.cells, null.weights, limits, caps, gain=null.gains, large=large
    )
    for row in opened.tolist():
        charts.seen[row] = tick.log.span(int(charts.since[row]), tick.minute + 1)[row]
        tick.log.exclude(np.array([row]), int(charts.since[row]), tick.minute)
    return opened, closed


def measured(cells: Sequence[float] | Floats, *, binary: bool) -> Measured | None:
    """A mean with its interval; None without observations."""
    n, total, squares = (float(each) for each in cells)
    if n <= 0.0:
        return None
    mean = min(max(total / n, 0.0), 1.0)
    size = n
    if not binary:
        size = float(effective_n_fraction(n, mean, max(squares / n - mean * mean, 0.0)))
    lower, upper = wilson_cc(mean, size)  # of plain floats, since open incidents ask each minute
    return Measured(mean, lower, upper, n)


def reference_of(n: float, mean: float, variance: float, *, binary: bool) -> Measured | None:
    """The same from moments of a reference."""
    return measured((n, n * mean, n * (variance + mean * mean)), binary=binary)


def finding(
    kind: str,
    stream: StreamKey,
    charts: Charts,
    row: int,
    *,
    binary: bool,
    severity: Severity,
    reference: Measured | None,
    reference_text: str,
    tolerated: float,
    limit: float,
    guarantee: str,
    rule: str = "",
) -> Finding:
    """Finding of an open incident."""
    return Finding(
        alert=AlertKey(kind, stream, rule),
        status="bad",
        severity=severity,
        observed=measured(charts.seen[row], binary=binary),
        reference=reference,
        reference_text=reference_text,
        tolerated=tolerated,
        changed_at=float(charts.since[row]) * MINUTE_S,
        evidence=float(charts.peak[row]),
        threshold=limit,
        guarantee=guarantee,
    )


def chosen(tick: Tick, metrics: Sequence[str], *, slices: bool) -> Bools:
    """Streams of some metrics; slices too when asked, but versions, which ``canary`` compares."""
    streams = tick.streams
    of_metrics = np.zeros(len(LOSSES), dtype=np.bool_)
    of_metrics[[INDEX[metric] for metric in metrics if metric in INDEX]] = True
    of_judges = [metric for metric in metrics if family(metric) != metric]
    is_chosen = of_metrics[streams.loss]
    if of_judges:
        is_chosen |= [key is not None and key.metric in of_judges for key in streams.keys]
    mask = streams.used & is_chosen
    mask &= ~streams.versioned if slices else ~streams.sliced
    mask[tick.settled :] = False
    return mask
