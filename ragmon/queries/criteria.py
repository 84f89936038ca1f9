"""Observations that a filter asks for, and the order in which queries are listed."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.detectors.losses import hit_columns
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter
from ragmon.signals.evidence import BELIEVED, EMBEDDED_JUDGE, judge_score
from ragmon.signals.failure_mode import FAILED, MODES
from ragmon.stores import Block, amendments

FEEDBACK = ("positive", "negative", "neutral", "none")
"""Values of ``feedback=``."""
Order = Literal["newest", "slowest", "worst"]
_BEFORE_EMBEDDED = tuple(judge for judge in BELIEVED if judge != EMBEDDED_JUDGE)
_NAMES = tuple(judge.encode() for judge in _BEFORE_EMBEDDED)
_Floats = NDArray[np.float64]


class FailedWay(NamedTuple):
    """A way to fail: the first of these observations that is known has this value."""

    columns: tuple[int, ...]
    bad: float


class RankRange(NamedTuple):
    """Extremes of what queries of a block are ranked by; NaN where none has one."""

    low_score: float  # faithfulness by whoever is believed most
    high_score: float
    slowest: float  # ms


def failures(pipeline: Pipeline) -> dict[str, FailedWay]:
    """Names that ``failing=`` may hold, and what they look at."""
    catalogue = pipeline.catalogue
    named = {
        name: FailedWay((catalogue.index(name),), 1.0)
        for name in (
            "zero_result",
            "error",
            "slow",
            "uncited",
            "low_score",
            "cited_unretrieved",
            "refusal",
            "missing_refusal",
            "unfaithful",
        )
    }
    named["repeat"] = FailedWay((catalogue.index("repeat"),), 1.0)  # the first of its question
    named["disliked"] = FailedWay((catalogue.index("negative_feedback"),), 1.0)
    refused = (catalogue.index("false_refusal", evidence=name) for name in ("label", "score"))
    named["false_refusal"] = FailedWay(tuple(refused), 1.0)
    # As detectors see it, so that an alert's queries are those that it is about.
    hits = [name for name in hit_columns(pipeline.columns) if name in pipeline.columns]
    named["miss"] = FailedWay(tuple(map(pipeline.columns.index, hits)), 0.0)
    for mode in FAILED:
        named[mode] = FailedWay((catalogue.index("failure_mode", mode=mode),), 1.0)
    return named


def order_of(query_filter: QueryFilter) -> Order:
    """The order of the queries that fit; unfaithful ones alone come worst first."""
    if query_filter.slowest:
        return "slowest"
    is_worst = query_filter.worst or query_filter.failing == ("unfaithful",)
    return "worst" if is_worst else "newest"


class Criterion:
    """Columns that a filter looks at, so that no others are unpacked, and what fits in them."""

    def __init__(self, pipeline: Pipeline, query_filter: QueryFilter) -> None:
        index = pipeline.catalogue.index
        named = failures(pipeline)
        self._failing = [named[name] for name in dict.fromkeys(query_filter.failing)]
        self._needed: list[FailedWay] = []
        if query_filter.mode:
            self._needed.append(FailedWay((index("failure_mode", mode=query_filter.mode),), 1.0))
        if query_filter.feedback == "none":
            self._needed.append(FailedWay((index("feedback_coverage"),), 0.0))
        elif query_filter.feedback:
            self._needed.append(FailedWay((index(f"{query_filter.feedback}_feedback"),), 1.0))
        self.order = order_of(query_filter)
        self._scores = query_filter.least_score, query_filter.most_score
        self._is_scored = self.order == "worst" or self._scores != (None, None)
        self._latency = index("latency_ms", stage="total")
        self._judged = [index("faithfulness", judge=judge) for judge in ("grounding", "human")]
        columns = [column for way in self._failing + self._needed for column in way.columns]
        columns += self._judged if self._is_scored else []
        columns += [self._latency] if self.order == "slowest" else []
        self.columns = [*dict.fromkeys(columns)]
        self._place = {column: at for at, column in enumerate(self.columns)}

    @property
    def is_any(self) -> bool:
        """True where no observation is looked at."""
        return not self.columns

    @property
    def is_ranged(self) -> bool:
        """True where the range of a block matters."""
        return self._is_scored or self.order == "slowest"

    def fits(self, values: _Floats) -> NDArray[np.bool_]:
        """Mask of the rows that fail in one of the ways and have what else is asked for; (n,)."""
        fits = np.full(len(values), not self._failing)
        for way in self._failing:
            fits |= self._has(way, values)
        for way in self._needed:
            fits &= self._has(way, values)
        if self.order == "slowest":
            fits &= ~np.isnan(values[:, self._place[self._latency]])
        return fits

    def _has(self, way: FailedWay, values: _Floats) -> NDArray[np.bool_]:
        known = np.full(len(values), np.nan)
        for column in way.columns:
            known = np.where(np.isnan(known), values[:, self._place[column]], known)
        fits: NDArray[np.bool_] = known == way.bad
        return fits

    def may_fit(self, low: _Floats, high: _Floats, known: RankRange) -> bool:
        """False where no record of a block fits, of which these are the least and the greatest.

        Args:
            low: by column of the pipeline; NaN: never known.
            high: likewise.
            known: of the records that the filter may let through.
        """

        def may_have(way: FailedWay) -> bool:
            return any(bool(low[at] <= way.bad <= high[at]) for at in way.columns)

        least, most = self._scores
        return (
            (not self._failing or any(map(may_have, self._failing)))
            and all(map(may_have, self._needed))
            and (self.order != "slowest" or not math.isnan(known.slowest))
            and (not self._is_scored or not math.isnan(known.low_score))
            and (least is None or known.high_score >= least)
            and (most is None or known.low_score <= most)
        )

    def best_rank(self, newest: float, known: RankRange) -> float:
        """A rank that no record of a block exceeds."""
        if self.order == "newest":
            return newest
        return known.slowest if self.order == "slowest" else 1.0 - known.low_score

    def ranked(
        self, block: Block, values: _Floats, timestamps: _Floats, places: list[int]
    ) -> list[tuple[int, float]]:
        """Those of some places whose score fits, each with its rank."""
        if self._is_scored:
            scores = scores_of(block, values[:, [self._place[at] for at in self._judged]], places)
            least, most = self._scores
            scored = [
                (at, 1.0 - score)
                for at, score in zip(places, scores, strict=True)
                if not math.isnan(score)
                and (least is None or score >= least)
                and (most is None or score <= most)
            ]
            if self.order == "worst":
                return scored
            places = [at for at, _ in scored]
        if self.order == "slowest":
            ranks = values[places, self._place[self._latency]]
        else:
            ranks = timestamps[places]
        return list(zip(places, ranks.tolist(), strict=True))


def scores_of(block: Block, judged: _Floats, places: list[int]) -> list[float]:
    """Faithfulness of some answers by whoever is believed most; NaN where nobody judged.

    Args:
        block: of the answers.
        judged: by the embedded judge and by people, NaN for unknown; shape (records, 2).
        places: of the answers in the block.
    """
    scores = []
    for at in places:
        embedded, human = judged[at].tolist()
        has_label = not math.isnan(human)
        body = None if has_label else block.amendments.get(block.first_sequence + at)
        if body is not None and any(name in body for name in _NAMES):
            known = amendments.decode(body).known
            others = (judge_score(known, judge) for judge in _BEFORE_EMBEDDED)
            embedded = next((score for score in others if score is not None), embedded)
        scores.append(human if has_label else embedded)
    return scores


def check_filter(query_filter: QueryFilter, pipeline: Pipeline) -> None:
    """Refuse names that nothing has.

    Raises:
        ValueError: names a value that is not known, and those that are.
    """
    known: dict[str, tuple[tuple[str, ...], Callable[[], tuple[str, ...]]]] = {
        "failing": (query_filter.failing, lambda: tuple(failures(pipeline))),
        "failure_mode": ((query_filter.mode,), lambda: ("", *MODES)),
        "feedback": ((query_filter.feedback,), lambda: ("", *FEEDBACK)),
    }
    for parameter, (values, allowed) in known.items():
        for value in values:
            if value not in (names := allowed()):
                listed = ", ".join(filter(None, names))
                raise ValueError(f"{parameter}: {value[:100]!r} is not one of {listed}")
