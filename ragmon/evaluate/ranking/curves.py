"""Precision against recall, and metrics against k."""

from collections.abc import Callable, Sequence

import numpy as np

from ragmon.evaluate.ranking import batch
from ragmon.evaluate.ranking.blocks import Floats, JudgedRankings, Relevant, judge

ELEVEN_LEVELS = np.arange(11) / 10.0


def interpolated_precision(
    ranked: Sequence[str], relevant: Relevant, levels: Floats = ELEVEN_LEVELS
) -> Floats:
    """Highest precision at or beyond each level of recall; trec_eval's iprec_at_recall.

    Args:
        ranked: ids, best first.
        relevant: relevant ids, or grades.
        levels: recall in [0, 1]; the usual eleven.

    Returns:
        Shape of ``levels``; 0 where the ranking never reaches that recall.
    """
    return batch.interpolated_precision(_one(ranked, relevant), levels).ravel()


def eleven_point_precision(ranked: Sequence[str], relevant: Relevant) -> float:
    """The mean of interpolated precision at recall 0, 0.1 … 1."""
    return float(interpolated_precision(ranked, relevant).mean())


def precision_recall_points(ranked: Sequence[str], relevant: Relevant) -> list[tuple[float, float]]:
    """(recall, precision) at the rank of each relevant result, uninterpolated."""
    grades = _one(ranked, relevant)
    total = int(grades.relevant[0])
    ranks = np.flatnonzero(grades.grades[0] > 0.0) + 1
    return [(hits / total, hits / rank) for hits, rank in enumerate(ranks.tolist(), 1)]


def auc_pr(ranked: Sequence[str], relevant: Relevant) -> float:
    """Area under the interpolated precision-recall curve through all points.

    At least the average precision, which is the area under the uninterpolated steps. Joining
    the points by straight lines instead would be too optimistic.

    Source: Davis & Goadrich (2006), ICML, 233-240.
    """
    return float(batch.auc_pr(_one(ranked, relevant))[0])


def curve(
    metric: Callable[[JudgedRankings, int], Floats], judged: JudgedRankings, ks: Sequence[int]
) -> Floats:
    """Mean of a batch metric over the queries, at each k; shape of ``ks``."""
    return np.array([metric(judged, k).mean() for k in ks])


def diminishing_k(ks: Sequence[int], values: Sequence[float], rest: float = 0.05) -> int:
    """The K after which returns diminish.

    Args:
        ks: rising.
        values: of a metric that rises with k (recall, hit), one each.
        rest: what may be left to gain, as a share of the highest value.

    Returns:
        The first k from which no deeper one gains more than ``rest``.

    Raises:
        ValueError: nothing was given.
    """
    if not ks:
        raise ValueError("no k")
    enough = (1.0 - rest) * max(values)
    return next(k for k, value in zip(ks, values, strict=True) if value >= enough)


def _one(ranked: Sequence[str], relevant: Relevant) -> JudgedRankings:
    return judge([ranked], [relevant])
