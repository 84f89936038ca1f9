"""Losses of observations: each metric as a loss that is never negative, so that up is bad.

Losses are rounded to multiples of 2^-20 and so are their squares: sums of them are exact in
whatever order they are added, which is why live traffic, a restart, a replay and replicas agree
bit for bit.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from ragmon.detectors.arrays import Bools, Floats, Ints

_GRID = float(1 << 20)
HIT_K = 5
"""Hits are watched at the configured k nearest to it."""

Shape = Literal["binary", "fraction", "weighted", "count"]
"""binary: 0 or 1; fraction: in [0, 1]; weighted: Horvitz-Thompson, unbounded; count: always 0."""


class Loss(Struct, frozen=True):
    """One metric seen as a loss."""

    metric: str
    shape: Shape
    detected: bool  # judged by detectors without being asked for
    good: str  # what 1 - loss is called in a sentence, "" where the loss itself has a name
    bad: str  # what the loss is called


LOSSES = (
    Loss("traffic", "count", detected=False, good="", bad="traffic"),
    Loss("judged", "count", detected=False, good="", bad="judgements"),
    Loss("error", "binary", detected=True, good="", bad="error rate"),
    Loss("zero_result", "binary", detected=True, good="", bad="zero-result rate"),
    Loss("hit", "binary", detected=True, good="hit rate", bad="miss rate"),
    Loss("low_score", "binary", detected=True, good="", bad="low-score rate"),
    Loss("attribution", "fraction", detected=True, good="attribution", bad="unattributed share"),
    Loss("uncited", "binary", detected=True, good="", bad="uncited-answer rate"),
    Loss("cited_unretrieved", "binary", detected=True, good="", bad="stray-citation rate"),
    Loss("grounding", "fraction", detected=True, good="grounding", bad="ungrounded share"),
    Loss("faithfulness", "weighted", detected=True, good="faithfulness", bad="unfaithful share"),
    Loss("positive_feedback", "binary", detected=True, good="positive feedback", bad="not liked"),
    Loss("slow", "binary", detected=True, good="", bad="slow-query rate"),
    Loss("latency_p50", "binary", detected=True, good="", bad="share above the usual median"),
    Loss("latency", "binary", detected=True, good="", bad="share above the usual 95th percentile"),
    Loss("mode_retrieval", "binary", detected=False, good="", bad="retrieval failures"),
    Loss("mode_ranking", "binary", detected=False, good="", bad="ranking failures"),
    Loss("mode_generation", "binary", detected=False, good="", bad="generation failures"),
    Loss("custom_score", "weighted", detected=False, good="custom score", bad="custom loss"),
)

INDEX = {loss.metric: index for index, loss in enumerate(LOSSES)}
DETECTED = tuple(loss.metric for loss in LOSSES if loss.detected)
MODES = ("mode_retrieval", "mode_ranking", "mode_generation")
BINARY: Bools = np.array([loss.shape == "binary" for loss in LOSSES])
LATENCY: Bools = np.array([loss.metric in ("latency", "latency_p50") for loss in LOSSES])
"""Follows the load, so that it has a season wherever traffic has one."""
WEIGHTED: Bools = np.array([loss.shape == "weighted" for loss in LOSSES])

OF_EVERY_QUERY = ("traffic", "judged", "positive_feedback")
"""Counted for repeats too: what came is traffic, and a rating is an act of its own."""

REPEAT = "repeat"
"""Column of those questions that were asked before in their minute (``ragmon.repeats``)."""

_OF_QUESTIONS: Ints = np.flatnonzero([loss.metric not in OF_EVERY_QUERY for loss in LOSSES])

JUDGED = "judged"
"""Column of zeros, one for each answer that some judge read."""

_AS_THEY_ARE = {
    JUDGED: "judged",
    "error": "error",
    "zero_result": "zero_result",
    "low_score": "low_score",
    "uncited": "uncited",
    "cited_unretrieved": "cited_unretrieved",
    "slow": "slow",
    "judged_loss": "faithfulness",
    "failure_mode{mode=retrieval}": "mode_retrieval",
    "failure_mode{mode=ranking}": "mode_ranking",
    "failure_mode{mode=generation}": "mode_generation",
}
_COMPLEMENTS = {
    "attribution": "attribution",
    "grounding_uncalibrated": "grounding",
    "positive_feedback": "positive_feedback",
}
_CUSTOM = "custom_loss{"
_TOTAL_MS = "latency_ms{stage=total}"
_EVIDENCE = ("label", "judge", "score", "citation")  # of relevance, the best first


class LossMap:
    """From a matrix of observations to a matrix of losses."""

    def __init__(self, columns: Sequence[str]) -> None:
        position = {name: index for index, name in enumerate(columns)}
        self.columns = tuple(columns)
        self._plain = _pairs(_AS_THEY_ARE, position)
        self._complement = _pairs(_COMPLEMENTS, position)
        self._hits = [position[name] for name in hit_columns(columns) if name in position]
        self._custom = [at for name, at in position.items() if name.startswith(_CUSTOM)]
        self._total_ms = position.get(_TOTAL_MS)
        self._repeat = position.get(REPEAT)

    def losses(self, values: Floats, edges_ms: Floats | None = None) -> Floats:
        """Losses of n records, NaN where unknown.

        A repeat has none but those of ``OF_EVERY_QUERY``: its question has been counted.

        Args:
            values: observations, (n, columns).
            edges_ms: the usual median and 95th percentile of each record's pipeline, (n, 2);
                NaN where they are not known yet.

        Returns:
            Shape (n, len(LOSSES)).
        """
        losses = np.full((len(values), len(LOSSES)), np.nan)
        losses[:, INDEX["traffic"]] = 0.0
        sources, targets = self._plain
        losses[:, targets] = values[:, sources]
        sources, targets = self._complement
        losses[:, targets] = 1.0 - values[:, sources]
        hit = np.full(len(values), np.nan)
        for source in self._hits:
            hit = np.where(np.isnan(hit), values[:, source], hit)
        losses[:, INDEX["hit"]] = 1.0 - hit
        if self._custom:
            losses[:, INDEX["custom_score"]] = _mean_of_known(values[:, self._custom])
        if self._total_ms is not None and edges_ms is not None:
            total = values[:, self._total_ms, None]
            above = np.where(np.isnan(total) | np.isnan(edges_ms), np.nan, total > edges_ms)
            losses[:, [INDEX["latency_p50"], INDEX["latency"]]] = above
        repeats = np.flatnonzero(self.repeats(values) > 0.0)
        losses[repeats[:, None], _OF_QUESTIONS] = np.nan
        return losses

    def repeats(self, values: Floats) -> Floats:
        """Earlier queries with the question of each of n records in its minute, (n,)."""
        if self._repeat is None:
            return np.zeros(len(values))
        return np.nan_to_num(values[:, self._repeat])

    def latency_ms(self, values: Floats) -> Floats:
        """Total latencies of n records, NaN where unknown."""
        if self._total_ms is None:
            return np.full(len(values), np.nan)
        return values[:, self._total_ms]


def observed(columns: Sequence[str], samples: Floats) -> Bools:
    """Mask of the losses that there are, from samples by column.

    Args:
        columns: keys of the observation columns.
        samples: number of known values, (n, columns).

    Returns:
        Shape (n, len(LOSSES)).
    """
    known = np.where(samples > 0.0, 0.0, np.nan)
    usual = np.zeros((len(known), 2))  # latencies are compared once they are known
    return ~np.isnan(LossMap(columns).losses(known, usual))


def sources(columns: Sequence[str]) -> tuple[str, ...]:
    """Those columns that losses are made of, in their order."""
    names = {*_AS_THEY_ARE, *_COMPLEMENTS, *hit_columns(columns), _TOTAL_MS, REPEAT}
    return tuple(name for name in columns if name in names)


def cells(losses: Floats) -> Floats:
    """Losses (n, m) as addable cells (n, m, 3) of n, Σ loss and Σ loss², exact in any order."""
    known = ~np.isnan(losses)
    sums = np.empty((*losses.shape, 3))
    value = np.where(known, losses, 0.0)
    sums[..., 0] = known
    sums[..., 1] = np.rint(value * _GRID) / _GRID
    sums[..., 2] = np.rint(value * value * _GRID) / _GRID
    return sums


def _pairs(metrics: dict[str, str], position: dict[str, int]) -> tuple[Ints, Ints]:
    """Columns of the observations, and those of the losses that they become."""
    known = {name: metric for name, metric in metrics.items() if name in position}
    columns = np.array([position[name] for name in known], dtype=np.int64)
    return columns, np.array([INDEX[metric] for metric in known.values()], dtype=np.int64)


def expected_shares() -> dict[str, str]:
    """Columns that are a stream of losses or its complement, and the metric of that stream."""
    return {**_AS_THEY_ARE, "attribution": "attribution", "positive_feedback": "positive_feedback"}


def hit_columns(columns: Sequence[str]) -> list[str]:
    """hit@k by each evidence, the best first, for the configured k nearest to 5."""
    hits = {name for name in columns if name.startswith("hit{k=")}
    ks = {int(name[len("hit{k=") : name.index(",")]) for name in hits}
    if not ks:
        return []
    k = min(ks, key=lambda each: (abs(each - HIT_K), each))
    return [f"hit{{k={k},evidence={evidence}}}" for evidence in _EVIDENCE]


def _mean_of_known(values: Floats) -> Floats:
    """Mean of each row over what is known, NaN where nothing is; shape (n,)."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    mean: Floats = np.full(len(values), np.nan)
    np.divide(np.where(known, values, 0.0).sum(axis=1), count, out=mean, where=count > 0)
    return mean
