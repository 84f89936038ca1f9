"""Losses of observations: each metric as a loss that is never negative, so that up is bad.

Losses are rounded to multiples of 2^-20 and so are their squares: sums of them are exact in
whatever order they are added, which is why live traffic, a restart, a replay and replicas agree
bit for bit.
"""

import difflib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

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
    Loss("refusal", "binary", detected=True, good="", bad="refusal rate"),
    Loss("false_refusal", "binary", detected=True, good="", bad="false-refusal rate"),
    Loss("positive_feedback", "binary", detected=True, good="positive feedback", bad="not liked"),
    Loss("slow", "binary", detected=True, good="", bad="slow-query rate"),
    Loss("latency_p50", "binary", detected=True, good="", bad="share above the usual median"),
    Loss("latency", "binary", detected=True, good="", bad="share above the usual 95th percentile"),
    Loss("mode_retrieval", "binary", detected=False, good="", bad="retrieval failures"),
    Loss("mode_ranking", "binary", detected=False, good="", bad="ranking failures"),
    Loss("mode_generation", "binary", detected=False, good="", bad="generation failures"),
    Loss("repeat", "binary", detected=False, good="", bad="repeat rate"),
    Loss("custom_score", "weighted", detected=True, good="custom score", bad="custom loss"),
)
CUSTOM = LOSSES[-1].metric
"""Family of the custom judges: the streams of each are ``custom_score/NAME``."""

INDEX = {loss.metric: index for index, loss in enumerate(LOSSES)}
DETECTED = tuple(loss.metric for loss in LOSSES if loss.detected)
MODES = ("mode_retrieval", "mode_ranking", "mode_generation")
BINARY: Bools = np.array([loss.shape == "binary" for loss in LOSSES])
LATENCY: Bools = np.array([loss.metric in ("latency", "latency_p50") for loss in LOSSES])
"""Follows the load, so that it has a season wherever traffic has one."""

OF_EVERY_QUERY = ("traffic", "judged", "positive_feedback", "repeat")
"""Counted for repeats too: what came is traffic, and a rating is an act of its own."""

REPEAT = "repeat"
"""Column of those questions that were asked before in their minute (``ragmon.repeats``), and their
metric; not watched by slice, since a client that retries is found in its pipeline."""

_OF_QUESTIONS: Ints = np.flatnonzero([loss.metric not in OF_EVERY_QUERY for loss in LOSSES])

JUDGED = "judged"
"""Column of zeros, one for each answer that some judge read."""

_AS_THEY_ARE = {
    JUDGED: "judged",
    "error": "error",
    "zero_result": "zero_result",
    "low_score": "low_score",
    "uncited": "uncited",
    "refusal": "refusal",
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
_CUSTOM_LOSS = "custom_loss{judge="
_FALSE_REFUSALS = ("false_refusal{evidence=label}", "false_refusal{evidence=score}")
"""By the better evidence first."""

_TOTAL_MS = "latency_ms{stage=total}"
_EVIDENCE = ("label", "judge", "score", "citation")  # of relevance, the best first


def family(metric: str) -> str:
    """The metric of ``LOSSES`` that one belongs to: ``custom_score`` of ``custom_score/tone``."""
    return metric.partition("/")[0]


def loss_of(metric: str) -> Loss:
    """A metric seen as a loss; one of a custom judge speaks of its name.

    Raises:
        KeyError: there is no such metric.
    """
    of, _, judge = metric.partition("/")
    loss = LOSSES[INDEX[of]]
    if not judge:
        return loss
    return replace(loss, metric=metric, good=f"{judge} score", bad=f"{judge} loss")


def known_metric(metric: str) -> str:
    """The name of a metric that rules may watch.

    Raises:
        ValueError: there is no such metric; the nearest is named.
    """
    name, slash, judge = metric.partition("/")
    if name not in INDEX or (slash and (name != CUSTOM or not judge)):
        near = difflib.get_close_matches(name, INDEX, n=1)
        known = f"did you mean {near[0]}?" if near else f"known are {', '.join(INDEX)}"
        raise ValueError(f"there is no metric {metric!r}; {known}")
    return metric


class LossMap:
    """From a matrix of observations to a matrix of losses.

    ``metrics`` are its columns: those of ``LOSSES``, of which ``CUSTOM`` stays empty, and one a
    custom judge. ``index`` is the place of each of them.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        position = {name: index for index, name in enumerate(columns)}
        self.columns = tuple(columns)
        self._plain = _pairs(_AS_THEY_ARE, position)
        self._complement = _pairs(_COMPLEMENTS, position)
        self._hits = [position[name] for name in hit_columns(columns) if name in position]
        self._refusals = [position[name] for name in _FALSE_REFUSALS if name in position]
        customs = [name for name in columns if name.startswith(_CUSTOM_LOSS)]
        self._custom = [position[name] for name in customs]
        judges = [f"{CUSTOM}/{name[len(_CUSTOM_LOSS) : -1]}" for name in customs]
        self.metrics = (*INDEX, *judges)
        self.index = {metric: at for at, metric in enumerate(self.metrics)}
        self.weighted: Bools = np.array(
            [loss_of(name).shape == "weighted" for name in self.metrics]
        )
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
            Shape (n, len(metrics)).
        """
        losses = np.full((len(values), len(self.metrics)), np.nan)
        losses[:, INDEX["traffic"]] = 0.0
        sources, targets = self._plain
        losses[:, targets] = values[:, sources]
        sources, targets = self._complement
        losses[:, targets] = 1.0 - values[:, sources]
        losses[:, INDEX["hit"]] = 1.0 - _first_known(values, self._hits)
        losses[:, INDEX["false_refusal"]] = _first_known(values, self._refusals)
        losses[:, len(LOSSES) :] = values[:, self._custom]
        if self._total_ms is not None and edges_ms is not None:
            total = values[:, self._total_ms, None]
            above = np.where(np.isnan(total) | np.isnan(edges_ms), np.nan, total > edges_ms)
            losses[:, [INDEX["latency_p50"], INDEX["latency"]]] = above
        if self._repeat is not None:
            is_repeat = self.repeats(values) > 0.0
            repeats = np.flatnonzero(is_repeat)
            losses[repeats[:, None], _OF_QUESTIONS] = np.nan
            losses[repeats, len(LOSSES) :] = np.nan
            losses[:, INDEX[REPEAT]] = is_repeat
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
        Shape (n, metrics of a ``LossMap``).
    """
    known = np.where(samples > 0.0, 0.0, np.nan)
    usual = np.zeros((len(known), 2))  # latencies are compared once they are known
    return ~np.isnan(LossMap(columns).losses(known, usual))


def sources(columns: Sequence[str]) -> tuple[str, ...]:
    """Those columns that losses are made of, in their order."""
    names = {*_AS_THEY_ARE, *_COMPLEMENTS, *hit_columns(columns), *_FALSE_REFUSALS}
    names |= {_TOTAL_MS, REPEAT}
    return tuple(name for name in columns if name in names or name.startswith(_CUSTOM_LOSS))


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


def _first_known(values: Floats, sources: Sequence[int]) -> Floats:
    """Of each row the first known value among some columns, NaN where none is; shape (n,)."""
    first: Floats = np.full(len(values), np.nan)
    for source in sources:
        first = np.where(np.isnan(first), values[:, source], first)
    return first
