"""Estimates from sums: means, intervals and quantiles of a window, for every series at once."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import MEANS, Column
from ragmon.signals.verdict_sums import VerdictLayout, layout_of
from ragmon.stats import judged_estimate
from ragmon.stats.intervals import (
    effective_n_weighted,
    mean_interval,
    unbounded_mean_interval,
    wilson_cc,
)
from ragmon.stats.latency import quantiles
from ragmon.windows import Merged
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.totals import STAGES

Floats = NDArray[np.float64]

QUANTILES = (0.5, 0.9, 0.95, 0.99)


class Estimates(Struct, frozen=True):
    """Shapes (series, shown columns) unless said otherwise; NaN where there are no samples."""

    mean: Floats
    lower: Floats  # 95 % interval
    upper: Floats
    samples: Floats
    queries: Floats  # (series,)
    latency_ms: Floats  # (series, STAGES, QUANTILES)
    confusion: Floats  # (series, JUDGES, CONFUSION)


def shown(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of the observations, and after them those that a sample estimates."""
    return (*columns, *layout_of(columns).columns)


def estimate(
    merged: Merged, columns: Sequence[Column], *, with_intervals: bool = True
) -> Estimates:
    """Means with 95 % intervals, and latency quantiles.

    Args:
        merged: the window.
        columns: of the observations.
        with_intervals: whether bounds are computed, which takes most of the time; without, most
            are NaN.
    """
    row_layout = RowLayout(len(columns))
    n = merged.rows[:, row_layout.n]
    mean, lower, upper = (_intervals if with_intervals else _means)(merged.rows, columns)
    _weigh_grounding(mean, lower, upper, merged.rows, columns)
    latency = np.full((len(n), STAGES, len(QUANTILES)), np.nan)
    latency[:, : merged.latency.shape[1]] = quantiles(merged.latency, QUANTILES)
    layout = layout_of(columns)
    sampled = _sampled(merged, columns)
    pairs = zip((mean, lower, upper, n), sampled, strict=True)
    mean, lower, upper, n = (np.concatenate(pair, axis=1) for pair in pairs)
    confusion = layout.confusion(_judged_sums(merged, layout))
    queries = merged.rows[:, row_layout.queries]
    return Estimates(mean, lower, upper, n, queries, latency, confusion)


def _intervals(rows: Floats, columns: Sequence[Column]) -> tuple[Floats, Floats, Floats]:
    """(mean, lower, upper) of the columns of the observations."""
    n, x, xx = (rows[:, part] for part in RowLayout(len(columns)).moments)
    kinds = np.array([column.kind for column in columns])
    bounded = ~np.isin(kinds, list(MEANS))
    mean, lower, upper = (np.full(n.shape, np.nan) for _ in range(3))
    mean[:, bounded], lower[:, bounded], upper[:, bounded] = mean_interval(
        n[:, bounded], x[:, bounded], xx[:, bounded], binary=kinds[bounded] == "proportion"
    )
    mean[:, ~bounded], lower[:, ~bounded], upper[:, ~bounded] = unbounded_mean_interval(
        n[:, ~bounded], x[:, ~bounded], xx[:, ~bounded]
    )
    amounts = kinds == "amount"
    lower[:, amounts] = np.maximum(lower[:, amounts], 0.0)  # Student's knows no limits
    return mean, lower, upper


def _means(rows: Floats, columns: Sequence[Column]) -> tuple[Floats, Floats, Floats]:
    """The same without the bounds."""
    n, x, _ = (rows[:, part] for part in RowLayout(len(columns)).moments)
    mean, lower, upper = (np.full(n.shape, np.nan) for _ in range(3))
    np.divide(x, n, out=mean, where=n > 0.0)
    bounded = ~np.isin([column.kind for column in columns], list(MEANS))
    mean[:, bounded] = np.clip(mean[:, bounded], 0.0, 1.0)
    return mean, lower, upper


def _sampled(merged: Merged, columns: Sequence[Column]) -> tuple[Floats, Floats, Floats, Floats]:
    """(mean, lower, upper, samples) of the sampled scores; most series have none."""
    layout = layout_of(columns)
    shared, scored = sampled_sums(merged, columns)
    sums = _judged_sums(merged, layout)
    shape = (len(scored), len(layout.columns))
    mean, lower, upper = (np.full(shape, np.nan) for _ in range(3))
    samples = np.zeros(shape)
    targets = (mean, lower, upper, samples)
    some = np.flatnonzero(scored[..., 0].any(axis=1))
    if len(some):
        known = judged_estimate.estimate(shared[some], scored[some])
        corrected = _corrected(known, layout.people(sums[some]))
        _fill(targets, some, slice(0, len(layout.scores) + 1), known, corrected)
    local_shared, local_scored = (part[:, None, :] for part in layout.locally(sums))
    some = np.flatnonzero(local_scored[..., 0].any(axis=1))
    if len(some):
        known = judged_estimate.estimate(local_shared[some], local_scored[some])
        corrected = _corrected(known, layout.local_people(sums[some]))
        first = len(layout.scores) + 1
        _fill(targets, some, slice(first, first + 2), known, corrected)
    _estimate_custom(targets, sums, layout)
    return targets


def _estimate_custom(
    targets: tuple[Floats, Floats, Floats, Floats], sums: Floats, layout: VerdictLayout
) -> None:
    """Write the estimates of the custom judges into their columns, the last ones.

    Those that labels of people correct come after the others.
    """
    judges = layout.custom_names
    first = len(layout.columns) - 2 * len(judges)
    for at, judge in enumerate(judges, first):
        shared, scored = layout.by_custom(sums, judge)
        some = np.flatnonzero(scored[:, 0])
        if len(some):
            known = judged_estimate.estimate(shared[some], scored[some])
            people = layout.custom_people(sums[some], judge)
            corrected = _corrected_mean(known, people)
            for target, part, last in zip(targets, known[:4], corrected[:4], strict=True):
                target[some, at] = part
                target[some, at + len(judges)] = last


def _fill(
    targets: tuple[Floats, Floats, Floats, Floats],
    series: NDArray[np.intp],
    columns: slice,
    known: judged_estimate.Estimate,
    corrected: judged_estimate.Estimate,
) -> None:
    """Write a judge's estimates, and the corrected one after them, into their columns."""
    for target, part, last in zip(targets, known[:4], corrected[:4], strict=True):
        target[series, columns] = np.concatenate([part, last[:, None]], axis=1)


def _corrected(
    known: judged_estimate.Estimate, people: tuple[Floats, Floats]
) -> judged_estimate.Estimate:
    """The judge's faithfulness as people would see it, where labels say enough of the judge."""
    faithfulness = judged_estimate.Estimate(*(part[:, 0] for part in known))
    return _corrected_mean(faithfulness, people)


def _corrected_mean(
    judged: judged_estimate.Estimate, people: tuple[Floats, Floats]
) -> judged_estimate.Estimate:
    """One score of a judge as people would see it, shapes (series,)."""
    corrected = judged_estimate.estimate(*people, population=judged)
    few = (corrected.samples < judged_estimate.LEAST_FOR_PROXY) | np.isnan(judged.mean)
    mean, lower, upper = (np.where(few, np.nan, part) for part in corrected[:3])
    samples = np.where(few, 0.0, corrected.samples)
    return corrected._replace(mean=mean, lower=lower, upper=upper, samples=samples)


def sampled_sums(merged: Merged, columns: Sequence[Column]) -> tuple[Floats, Floats]:
    """The sums behind the sampled scores, for ``ragmon.stats.judged_estimate``.

    Returns:
        Sums over ``SHARED``, shape (series, 1, len(SHARED)), and over ``SCORED``, shape
        (series, scores, len(SCORED)).
    """
    layout = layout_of(columns)
    sums = _judged_sums(merged, layout)
    shared = layout.shared(sums).copy()
    totals = merged.rows[:, RowLayout(len(columns)).sum]
    for of, at in (("answers", 0), ("proxy", 1)):
        shared[:, at] = totals[:, _position(columns)["sampled_moment", (("of", of),)]]
    return shared[:, None, :], layout.scored(sums)


def _judged_sums(merged: Merged, layout: VerdictLayout) -> Floats:
    if merged.judged is None:
        return np.zeros((len(merged.rows), layout.width))
    return merged.judged


def _weigh_grounding(
    mean: Floats, lower: Floats, upper: Floats, rows: Floats, columns: Sequence[Column]
) -> None:
    """Replace the plain mean grounding by that of all answers, drawn or not (Hajek's estimate).

    The same numbers when every answer was judged.
    """
    position = _position(columns)
    w, wy, wwy = (position["grounding_moment", (("of", of),)] for of in ("w", "wy", "wwy"))
    n, x, xx = (rows[:, part] for part in RowLayout(len(columns)).moments)
    judged = n[:, w] > 0
    n, sum_w, sum_ww = n[judged, w], x[judged, w], xx[judged, w]
    sum_wy, sum_wwy, sum_wwyy = x[judged, wy], x[judged, wwy], xx[judged, wy]
    center = np.clip(sum_wy / sum_w, 0.0, 1.0)
    spread = sum_wwyy - 2.0 * center * sum_wwy + center**2 * sum_ww
    variance = np.maximum(spread, 0.0) / sum_w**2
    n_effective = effective_n_weighted(n, sum_w**2 / sum_ww, center, variance)
    low, high = wilson_cc(center, n_effective)
    for at in (position["grounding", ()], position["faithfulness", (("judge", "grounding"),)]):
        mean[judged, at], lower[judged, at], upper[judged, at] = center, low, high


def _position(columns: Sequence[Column]) -> dict[tuple[str, tuple[tuple[str, str], ...]], int]:
    return {(column.name, column.labels): at for at, column in enumerate(columns)}
