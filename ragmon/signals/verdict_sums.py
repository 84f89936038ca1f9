"""Sums of sampled verdicts and labels, which few answers take part in.

A row is made of blocks, each addable: the sums that all scores share, those of each score
(``ragmon.stats.judged_estimate``), and for each judge how it agrees with people
(``ragmon.stats.agreement``). Kept apart from the columns of every query, they cost nothing where
no judge runs.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord, Verdict
from ragmon.signals import Column, custom_loss
from ragmon.signals.evidence import (
    EMBEDDED_JUDGE,
    LOCAL_JUDGE,
    SAMPLED_JUDGE,
    human_score,
    people_score,
    verdict_of,
)
from ragmon.stats.agreement import CONFUSION, confusion_rows
from ragmon.stats.judged_estimate import CHOSEN_BY_HAND, SCORED, SHARED, scored_rows, shared_rows

Floats = NDArray[np.float64]

CORRECTED_SUFFIX = "_corrected"
CORRECTED = f"llm{CORRECTED_SUFFIX}"
"""The sampled judge's mean, corrected by its differences from the labels of people."""

LOCAL_CORRECTED = f"local{CORRECTED_SUFFIX}"
"""The local judge's mean, corrected likewise."""

JUDGES = (EMBEDDED_JUDGE, SAMPLED_JUDGE, LOCAL_JUDGE)
"""The judges whose agreement with people is counted."""

SCORES = {
    "faithfulness": "Mean share of an answer that its chunks support, by judge.",
    "answer_relevance": "Mean relevance of answers to the question (1: fully on topic), by judge.",
    "completeness": "Mean completeness of answers (1: all that was asked is answered), by judge.",
    "conciseness": "Mean conciseness of answers (1: nothing that was not asked for), by judge.",
    "context_precision": "Mean precision of the ranking (1: useful chunks come first), by judge.",
    "context_recall": "Mean share of the reference answer that the chunks support, by judge.",
}
_HIT = "Share of queries with a relevant chunk among the first k, by evidence of relevance."
_RANK = "Mean of 1/rank of the first relevant chunk (0 when none was retrieved), by evidence."


_OTHERS = ("people", "local", "local_people")
"""Blocks beside those of the sampled judge's scores."""

CUSTOM = "custom_score"
"""Metric of the custom judges, by judge."""

_CUSTOM_HELP = "Mean score of answers (0 worst, 1 best) by each judge of judge.custom."


class VerdictLayout(Struct, frozen=True):
    """The blocks of a row, and the columns that show their estimates."""

    scores: tuple[Column, ...]  # one a score of the sampled judge
    corrected: Column
    local: Column
    local_corrected: Column
    custom: tuple[Column, ...]  # one a custom judge
    custom_corrected: tuple[Column, ...]  # by labels of people, one a custom judge
    names: tuple[str, ...]  # of the blocks

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the estimates."""
        of_custom = (*self.custom, *self.custom_corrected)
        return (*self.scores, self.corrected, self.local, self.local_corrected, *of_custom)

    @property
    def counted(self) -> tuple[Column, ...]:
        """The columns whose scores are counted for ever."""
        return (*self.scores, self.local, *self.custom)

    @property
    def width(self) -> int:
        """Length of a row."""
        stop: int = self._spans[-1].stop
        return stop

    @property
    def _spans(self) -> list[slice]:
        return _spans(self.names)

    def _pair(self, rows: Floats, of: str) -> tuple[Floats, Floats]:
        spans = dict(zip(self.names, self._spans, strict=True))
        return rows[..., spans[f"shared:{of}"]], rows[..., spans[f"scored:{of}"]]

    def shared(self, rows: Floats) -> Floats:
        """Sums over ``SHARED``, of rows (..., width)."""
        return rows[..., : len(SHARED)]

    def scored(self, rows: Floats) -> Floats:
        """Sums over ``SCORED``; shape (..., scores, len(SCORED))."""
        end = len(SHARED) + len(SCORED) * len(self.scores)
        return rows[..., len(SHARED) : end].reshape(*rows.shape[:-1], len(self.scores), len(SCORED))

    def weighted(self, rows: Floats) -> Floats:
        """Weight of the scored answers, and weighted sum of scores; shape (..., counted, 2)."""
        others = [self.locally(rows), *(self.by_custom(rows, name) for name in self.custom_names)]
        apart = [scored[..., None, :] for _, scored in others]
        scored = np.concatenate([self.scored(rows), *apart], axis=-2)
        return scored[..., [SCORED.index("weight"), SCORED.index("weight_y")]]

    def confusion(self, rows: Floats) -> Floats:
        """Counts over ``CONFUSION``; shape (..., len(JUDGES), len(CONFUSION))."""
        begin = len(SHARED) + len(SCORED) * len(self.scores)
        end = begin + len(JUDGES) * len(CONFUSION)
        return rows[..., begin:end].reshape(*rows.shape[:-1], len(JUDGES), len(CONFUSION))

    def people(self, rows: Floats) -> tuple[Floats, Floats]:
        """Sums over ``SHARED`` and ``SCORED`` of labels as scores, with the judge's as proxy."""
        return self._pair(rows, "people")

    def locally(self, rows: Floats) -> tuple[Floats, Floats]:
        """Sums over ``SHARED`` and ``SCORED`` of the local judge's faithfulness."""
        return self._pair(rows, "local")

    @property
    def custom_names(self) -> tuple[str, ...]:
        """The custom judges, in the order of their columns."""
        return tuple(dict(column.labels)["judge"] for column in self.custom)

    def by_custom(self, rows: Floats, judge: str) -> tuple[Floats, Floats]:
        """Sums over ``SHARED`` and ``SCORED`` of a custom judge's scores."""
        return self._pair(rows, _custom_block(judge))

    def custom_people(self, rows: Floats, judge: str) -> tuple[Floats, Floats]:
        """Those of ``people`` about a custom judge's question, with its score as proxy."""
        return self._pair(rows, _custom_people_block(judge))

    def local_people(self, rows: Floats) -> tuple[Floats, Floats]:
        """Those of ``people`` with the local judge's score as proxy."""
        return self._pair(rows, "local_people")

    def converted(self, names: tuple[str, ...], rows: Floats) -> Floats:
        """Rows of another layout in this one; what is new is zero."""
        if names == self.names:
            return rows
        converted = np.zeros((len(rows), self.width))
        here = dict(zip(self.names, _spans(self.names), strict=True))
        for name, span in zip(names, _spans(names), strict=True):
            if name in here:
                converted[:, here[name]] = rows[:, span]
        return converted


def layout(ks: Sequence[int], judges: Sequence[str] = ()) -> VerdictLayout:
    """The layout for the k of hit@k, and the names of custom judges."""
    plain = [
        Column(name, (("judge", SAMPLED_JUDGE),), "fraction", text, f"{name}_ratio")
        for name, text in SCORES.items()
    ]
    hits = [
        Column("hit", (("k", str(k)), ("evidence", "judge")), "proportion", _HIT, "hit_ratio")
        for k in ks
    ]
    rank = Column("reciprocal_rank", (("evidence", "judge"),), "fraction", _RANK, "reciprocal_rank")
    scores = (*plain, *hits, rank)
    corrected, local, local_corrected = (
        Column(
            "faithfulness",
            (("judge", judge),),
            "fraction",
            SCORES["faithfulness"],
            "faithfulness_ratio",
        )
        for judge in (CORRECTED, LOCAL_JUDGE, LOCAL_CORRECTED)
    )
    scored = (f"scored:{column.key}" for column in scores)
    agreed = (f"agreement:{judge}" for judge in JUDGES)
    custom, custom_corrected = (
        tuple(
            Column(CUSTOM, (("judge", f"{judge}{suffix}"),), "fraction", text, f"{CUSTOM}_ratio")
            for judge in judges
        )
        for suffix, text in (("", _CUSTOM_HELP), (CORRECTED_SUFFIX, _CUSTOM_HELP))
    )
    of_custom = (make(judge) for make in (_custom_block, _custom_people_block) for judge in judges)
    blocks = (*_OTHERS, *of_custom)
    others = (f"{part}:{of}" for of in blocks for part in ("shared", "scored"))
    names = ("shared", *scored, *agreed, *others)
    return VerdictLayout(scores, corrected, local, local_corrected, custom, custom_corrected, names)


def layout_of(columns: Sequence[Column]) -> VerdictLayout:
    """The layout beside these columns, which name the k and the custom judges."""
    hits = (column.labels for column in columns if column.name == "hit")
    ks = sorted({int(dict(labels)["k"]) for labels in hits})
    custom = (column.labels for column in columns if column.name == custom_loss.NAME)
    return layout(ks, [dict(labels)["judge"] for labels in custom])


def _custom_block(judge: str) -> str:
    return f"custom.{judge}"


def _custom_people_block(judge: str) -> str:
    return f"custom_people.{judge}"


class SparseRows(NamedTuple):
    """The records of a batch that have something to add."""

    record: NDArray[np.int32]  # (m,)
    rows: Floats  # (m, width)


def observe(
    records: Sequence[QueryRecord],
    known: Sequence[Amendments],
    kept: VerdictLayout,
    drawn: Collection[str] = (),
) -> SparseRows | None:
    """The records that have verdicts or labels, as rows; None when none has.

    The number of answers that could have been judged is no part of it: every answer counts
    there, so that is a column (``sampled_moment``).

    Args:
        records: of a batch.
        known: of each record, what came later.
        kept: the layout of the rows.
        drawn: names of the custom judges that are asked about what the sampled judge is asked.
    """
    judges = kept.custom_names
    at = [index for index, each in enumerate(known) if _says_something(each, judges)]
    if not at:
        return None
    mine, of = [known[index] for index in at], [records[index] for index in at]
    judged, agreed = _judged_rows(of, mine, kept), _agreement_rows(mine)
    others = (
        _people_rows(mine, SAMPLED_JUDGE),
        _read_rows(mine, LOCAL_JUDGE),
        _people_rows(mine, LOCAL_JUDGE),
        *(_read_rows(mine, judge, by_draw=judge in drawn) for judge in judges),
        *(_people_rows(mine, judge) for judge in judges),
    )
    rows = np.concatenate([judged, agreed.reshape(len(at), -1), *others], axis=1)
    return SparseRows(np.array(at, dtype=np.int32), rows)


def scores(record: QueryRecord, verdict: Verdict | None, columns: Sequence[Column]) -> list[float]:
    """One verdict as a score for each column; NaN where it says nothing."""
    if verdict is None or verdict.failed:
        return [math.nan] * len(columns)
    rank = _useful_rank(record, verdict)
    return [_score(verdict, rank, column) for column in columns]


def _spans(names: Sequence[str]) -> list[slice]:
    widths = {"shared": len(SHARED), "scored": len(SCORED), "agreement": len(CONFUSION)}
    spans, begin = [], 0
    for name in names:
        end = begin + widths[name.partition(":")[0]]
        spans.append(slice(begin, end))
        begin = end
    return spans


def _says_something(known: Amendments, custom: Sequence[str]) -> bool:
    for verdict in known.verdicts:
        if verdict.judge == LOCAL_JUDGE or verdict.judge in custom:
            return True
        if verdict.judge == SAMPLED_JUDGE and known.draw:
            return True
    return bool(known.labels and known.verdicts)


def _judged_rows(
    records: Sequence[QueryRecord], known: Sequence[Amendments], kept: VerdictLayout
) -> Floats:
    """The shared and scored blocks, side by side; zero for answers that were not drawn."""
    verdicts = [verdict_of(each, SAMPLED_JUDGE) if each.draw else None for each in known]
    proxy = np.array([each.draw.proxy if each.draw else 0.0 for each in known])
    probability = np.array([each.draw.probability if each.draw else 1.0 for each in known])
    failed = np.array([verdict is not None and verdict.failed for verdict in verdicts])
    judged = np.array([verdict is not None for verdict in verdicts]) & ~failed
    shared = shared_rows(proxy, probability, judged, failed)
    shared[:, : SHARED.index("judged")] = 0.0
    by_record = np.array(
        [
            scores(record, verdict, kept.scores)
            for record, verdict in zip(records, verdicts, strict=True)
        ]
    )
    scored = [scored_rows(proxy, probability, column) for column in by_record.T]
    return np.concatenate([shared, *scored], axis=1)


def _agreement_rows(known: Sequence[Amendments]) -> Floats:
    """Shape (m, len(JUDGES), len(CONFUSION))."""
    people = np.array([human_score(each) for each in known], dtype=np.float64)
    by_judge = [
        confusion_rows([calls_good(verdict_of(each, judge)) for each in known], people)
        for judge in JUDGES
    ]
    return np.stack(by_judge, axis=1)


def _read_rows(known: Sequence[Amendments], judge: str, *, by_draw: bool = False) -> Floats:
    """A judge's blocks, side by side; an answer that was drawn stands for those that were not.

    There is no proxy, and the number of all answers is estimated by the draws themselves. A judge
    that was asked about the sampled judge's answers shares their chance, as it is now: `ragmon
    judge` draws again, and answers of both rounds stand for the same ones.
    """
    verdicts = [verdict_of(each, judge) for each in known]
    chances = (_chance(*pair, by_draw=by_draw) for pair in zip(known, verdicts, strict=True))
    probability = np.fromiter(chances, np.float64, len(verdicts))
    failed = np.array([each is not None and each.failed for each in verdicts])
    judged = np.array([each is not None for each in verdicts]) & ~failed
    shared = shared_rows(0.0, probability, judged, failed)
    shared[:, SHARED.index("answers")] = (judged | failed) / probability
    scores = [math.nan if each is None or each.score is None else each.score for each in verdicts]
    return np.concatenate([shared, scored_rows(0.0, probability, scores)], axis=1)


def _chance(known: Amendments, verdict: Verdict | None, *, by_draw: bool) -> float:
    if by_draw and known.draw is not None:
        return known.draw.probability
    return 1.0 if verdict is None else verdict.probability


def _people_rows(known: Sequence[Amendments], judge: str) -> Floats:
    """Labels of answers that a judge scored: both blocks, side by side."""
    people = np.array([people_score(each, judge) for each in known], dtype=np.float64)
    verdicts = [verdict_of(each, judge) for each in known]
    proxy = np.array([math.nan if v is None or v.score is None else v.score for v in verdicts])
    both = ~np.isnan(people) & ~np.isnan(proxy)
    proxy = np.where(both, proxy, 0.0)
    shared = shared_rows(proxy, CHOSEN_BY_HAND, both)
    shared[:, : SHARED.index("judged")] = 0.0  # the number of answers is a column
    scored = scored_rows(proxy, CHOSEN_BY_HAND, np.where(both, people, math.nan))
    return np.concatenate([shared, scored], axis=1)


def calls_good(verdict: Verdict | None) -> float:
    """1 where a judge calls the answer good, 0 where not, NaN where it has no score."""
    if verdict is None or verdict.score is None:
        return math.nan
    return float(verdict.score >= (0.5 if verdict.doubted_below is None else verdict.doubted_below))


def _score(verdict: Verdict, rank: float, column: Column) -> float:
    if column.name == "hit":
        return math.nan if math.isnan(rank) else float(rank <= int(dict(column.labels)["k"]))
    if column.name == "reciprocal_rank":
        return 1.0 / rank
    if column.name == "faithfulness":
        return math.nan if verdict.score is None else verdict.score
    return verdict.scores.get(column.name, math.nan)


def _useful_rank(record: QueryRecord, verdict: Verdict) -> float:
    """Rank of the first useful chunk; infinite when none is, NaN when that was not asked."""
    if verdict.useful is None:
        return math.nan
    useful = set(verdict.useful)
    ranks = (rank for rank, chunk in enumerate(record.chunks or (), 1) if chunk.id in useful)
    return next(ranks, math.inf)
