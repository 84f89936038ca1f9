"""One evaluation as it is written to JSON: the report, and the baseline of the next.

The schema is these structs; ``ragmon/evaluation/1`` names it, and fields are only ever added.
"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from ragmon import __version__
from ragmon.evaluate.cases import Case, Metadata
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.ranking import ELEVEN_LEVELS, batch, curve, diminishing_k
from ragmon.evaluate.ranking.blocks import Floats
from ragmon.evaluate.score import strata
from ragmon.evaluate.score.graders import HumanGrader
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.metrics import Better, Kind, Metric, band
from ragmon.evaluate.score.scoring import Scored, judged_pairs
from ragmon.stats.agreement import agreement, confusion_rows
from ragmon.stats.paired import bca_intervals

SCHEMA = "ragmon/evaluation/1"
_SEED = 20_240_501  # the same data give the same bounds
_DEEPEST = 50
_ASIDE = re.compile(r" \([^()]*+\)")


class MetricMean(Struct, frozen=True):
    """The mean of one metric over some cases, with its 95 % interval."""

    mean: float
    lower: float | None  # none below two cases of an unbounded metric
    upper: float | None
    samples: int


class Summary(MetricMean, frozen=True, kw_only=True):
    """One metric over all cases that have a score."""

    name: str
    kind: Kind
    better: Better
    band: str = ""  # good, fair or poor


class Stratum(Struct, frozen=True):
    """The cases that share one value of a metadata key."""

    key: str
    value: str
    cases: int
    small: bool  # too few to conclude from
    metrics: dict[str, MetricMean]


class Curves(Struct, frozen=True):
    """Means over the cases with labels."""

    ks: list[int]
    at_k: dict[str, list[float]]  # by metric: hit, ndcg, precision, recall
    enough_k: int | None  # the K after which recall gains less than 5 % of its highest value
    recall_levels: list[float]
    precision: list[float]  # interpolated, at each recall level


class CaseLine(Struct, frozen=True, omit_defaults=True):
    """One case as a comparison reads it."""

    case_id: str
    query: str
    metadata: Metadata = {}
    answer: str | None = None  # of the system; pairwise preference compares two
    truth: str | None = None


class ReportFigure(Struct, frozen=True):
    """A number with its 95 % interval."""

    value: float
    lower: float
    upper: float


class JudgeAgreement(Struct, frozen=True):
    """Agreement of a judge with human labels of the same answers, both cut at one half."""

    judge: str
    labels: int
    balanced_accuracy: ReportFigure | None  # unknown without both good and bad answers
    kappa: ReportFigure | None


class Evaluation(Struct, frozen=True, kw_only=True):
    """Everything that one evaluation measured."""

    schema: str = SCHEMA
    name: str
    created_at: float  # unix seconds
    ragmon: str = __version__
    metrics: list[Summary]
    strata: list[Stratum] = []
    curves: Curves | None = None
    absent: dict[str, str] = {}  # metrics that could not be measured, with the reason
    notes: list[str] = []
    missing: list[str] = []  # cases without a result
    judges: list[UsageSummary] = []  # answers judged and failed, tokens, cost
    agreement: list[JudgeAgreement] = []  # of judges with people, where people labelled answers
    cases: list[CaseLine]
    scores: dict[str, list[float | None]]  # by metric, in the order of ``cases``

    def matrix(self, names: Sequence[str]) -> Floats:
        """Scores of shape (cases, names); NaN where unknown, also for an unknown metric."""
        unknown: list[float | None] = [None] * len(self.cases)
        columns = [self.scores.get(name, unknown) for name in names]
        return np.array(columns, dtype=np.float64).reshape(len(names), len(self.cases)).T

    def absences(self) -> list[str]:
        """Metrics that could not be measured, one line per reason."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.absent.items():
            names = by_reason.setdefault(_ASIDE.sub("", reason), [])
            names.append(name.partition("@")[0])  # a metric is absent at every k or at none
        return [
            f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in by_reason.items()
        ]

    def summary(self, name: str) -> Summary | None:
        """One metric."""
        return next((metric for metric in self.metrics if metric.name == name), None)


def describe(
    scored: Scored, name: str, created_at: float, keys: Sequence[str] | None = None
) -> Evaluation:
    """The evaluation of a scored run.

    Args:
        scored: the scores.
        name: of this run.
        created_at: unix seconds.
        keys: metadata keys to break down by; None: those with few values.

    Raises:
        DataError: no case has one of the keys.
    """
    names = [metric.name for metric in scored.metrics]
    means = _means(scored.values, scored.metrics)
    return Evaluation(
        name=name,
        created_at=created_at,
        metrics=[
            Summary(
                *msgspec.structs.astuple(mean),
                name=metric.name,
                kind=metric.kind,
                better=metric.better,
                band=band(metric, mean.mean),
            )
            for metric, mean in zip(scored.metrics, means, strict=True)
            if mean is not None
        ],
        strata=[_stratum(group, scored) for group in _groups(scored.cases, keys)],
        curves=_curves(scored),
        absent=dict(scored.absent),
        notes=list(scored.notes),
        missing=list(scored.missing),
        judges=list(scored.judges),
        agreement=_agreement(scored),
        cases=[
            CaseLine(
                case.case_id, case.query, case.metadata, record.answer, case.ground_truth_answer
            )
            for case, record in zip(scored.cases, scored.records, strict=True)
        ],
        scores={key: _listed(column) for key, column in zip(names, scored.values.T, strict=True)},
    )


def _groups(cases: Sequence[Case], keys: Sequence[str] | None) -> list[strata.CaseGroup]:
    metadata = [case.metadata for case in cases]
    queries = [case.query for case in cases]
    groups = strata.groups(metadata, queries, keys)
    for key in keys or ():
        if all(group.key != key for group in groups):
            known = ", ".join(strata.labelled(metadata, queries))
            raise DataError(f"no case has the key {key!r}", hint=f"The keys are {known}")
    return groups


def save(evaluation: Evaluation, path: Path) -> None:
    """Write an evaluation as JSON.

    Raises:
        DataError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(evaluation), indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", path=path) from error


def load(path: Path) -> Evaluation:
    """Read an evaluation from the JSON file that ``save`` wrote.

    Raises:
        DataError: unreadable, or not an evaluation.
    """
    try:
        return parse(path.read_bytes(), path)
    except OSError as error:
        hint = "Make one: ragmon evaluate … --json FILE"
        raise DataError(f"cannot be read: {error.strerror}", path=path, hint=hint) from error


def parse(body: bytes, path: Path) -> Evaluation:
    """Decode an evaluation, whether from a file or from the store.

    Args:
        body: JSON.
        path: named in errors.

    Raises:
        DataError: not an evaluation.
    """
    try:
        evaluation = msgspec.json.decode(body, type=Evaluation)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "Pass a file that `ragmon evaluate --json FILE` wrote"
        raise DataError(f"is not an evaluation: {error}", path=path, hint=hint) from error
    if evaluation.schema != SCHEMA:
        raise DataError(f"has schema {evaluation.schema!r}, not {SCHEMA!r}", path=path)
    cases = len(evaluation.cases)
    if any(len(column) != cases for column in evaluation.scores.values()):
        raise DataError("has a different number of scores than cases", path=path, field="scores")
    return evaluation


def _means(values: Floats, metrics: Iterable[Metric]) -> list[MetricMean | None]:
    metrics = list(metrics)
    bounded = np.array([metric.kind != "quantity" for metric in metrics])
    intervals = bca_intervals(values, np.random.default_rng(_SEED), bounded=bounded)
    samples = (~np.isnan(values)).sum(axis=0)
    return [
        MetricMean(float(mean), _plain(lower), _plain(upper), int(n)) if n else None
        for mean, lower, upper, n in zip(*intervals, samples, strict=True)
    ]


def _stratum(group: strata.CaseGroup, scored: Scored) -> Stratum:
    means = _means(scored.values[list(group.rows)], scored.metrics)
    return Stratum(
        group.key,
        group.value,
        len(group.rows),
        group.small,
        {
            metric.name: mean
            for metric, mean in zip(scored.metrics, means, strict=True)
            if mean is not None
        },
    )


def _agreement(scored: Scored) -> list[JudgeAgreement]:
    """Agreement of every judge of faithfulness with human labels."""
    columns = {
        metric.name.partition("/")[2]: scored.values[:, at]
        for at, metric in enumerate(scored.metrics)
        if metric.base == "faithfulness"
    }
    labels = columns.pop(HumanGrader.name, None)
    if labels is None:
        return []
    agreements = {
        name: agreement(confusion_rows(column, labels).sum(axis=0))
        for name, column in columns.items()
    }
    return [
        JudgeAgreement(name, rates.labels, _figure(rates.balanced_accuracy), _figure(rates.kappa))
        for name, rates in agreements.items()
    ]


def _figure(rate: tuple[float, float, float]) -> ReportFigure | None:
    return None if math.isnan(rate[0]) else ReportFigure(*rate)


def _curves(scored: Scored) -> Curves | None:
    """Metrics against k, as deep as anything was retrieved."""
    pairs = [
        (case, record)
        for case, record in zip(scored.cases, scored.records, strict=True)
        if case.answerable and record.chunks is not None
    ]
    if not pairs:
        return None
    judged = judged_pairs(pairs)
    deepest = min(int(judged.retrieved.max()), _DEEPEST)
    if not deepest:
        return None
    ks = list(range(1, deepest + 1))
    drawn = {
        "hit": batch.hit,
        "ndcg": batch.ndcg,
        "precision": batch.precision,
        "recall": batch.recall,
    }
    at_k = {name: curve(measure, judged, ks).tolist() for name, measure in drawn.items()}
    precision = batch.interpolated_precision(judged, ELEVEN_LEVELS).mean(axis=0)
    enough = diminishing_k(ks, at_k["recall"]) if max(at_k["recall"]) > 0 else None
    return Curves(ks, at_k, enough, ELEVEN_LEVELS.tolist(), precision.tolist())


def _listed(column: Floats) -> list[float | None]:
    return [_plain(value) for value in column.tolist()]


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
