"""Scoring: cases and a run to a matrix of scores, one row a case."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragmon.evaluate.cases import Case, CaseSet, Run, by_case, relevant_and_retrieved, unmatched
from ragmon.evaluate.errors import NAME_A_RUN, DataError
from ragmon.evaluate.ranking import batch, judge
from ragmon.evaluate.ranking.blocks import Floats, JudgedRankings
from ragmon.evaluate.ranking.single import Gain
from ragmon.evaluate.score import content
from ragmon.evaluate.score.graders import NEEDS_LLM, AnswerGrader, absence_reason
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.metrics import Metric, metric
from ragmon.evaluate.score.parallel import Track, in_parallel
from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.report import metric_key
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build

Columns = dict[str, Floats]
_LIVE = ("_coverage", "_moment", "_feedback")
"""Endings of signals that exist for live traffic only."""
_UNLABELLED = "no case has relevant_doc_ids or grades, and chunks that were recorded"
_MOST_CHARACTERS = 120  # of an error in a note
_SIGNALS = SignalOptions()


class ScoringOptions(Struct, frozen=True, kw_only=True):
    """Cut-offs and thresholds of the metrics."""

    ks: tuple[int, ...] = _SIGNALS.ks
    gain: Gain = "linear"
    slow_ms: float = _SIGNALS.slow_ms
    ids_match: bool = False  # known from before: finding nothing relevant is then a result


class Scored(Struct, frozen=True):
    """Scores of n cases."""

    cases: tuple[Case, ...]
    records: tuple[QueryRecord, ...]  # the system's result for each case
    metrics: tuple[Metric, ...]
    values: Floats  # (n, metrics); NaN: unknown for this case
    absent: Mapping[str, str]  # metrics that could not be measured at all, with the reason
    notes: tuple[str, ...]
    missing: tuple[str, ...]  # ids of cases without a result, which are not in ``cases``
    judges: tuple[UsageSummary, ...] = ()  # their usage

    def column(self, name: str) -> Floats:
        """Scores of one metric, shape (n,).

        Raises:
            KeyError: there is no such metric.
        """
        for at, known in enumerate(self.metrics):
            if known.name == name:
                column: Floats = self.values[:, at]
                return column
        raise KeyError(name)


def score(
    case_set: CaseSet,
    run: Run,
    options: ScoringOptions,
    judges: Sequence[AnswerGrader] = (),
    track: Track = iter,
) -> Scored:
    """Every metric that a run can be scored by.

    Args:
        case_set: the golden set.
        run: the system's results.
        options: cut-offs and thresholds.
        judges: graders of the answers.
        track: wraps the cases that a judge reads, to show progress.

    Raises:
        DataError: no case has a usable result, or the ids of chunks and labels have
            nothing in common.
    """
    run = by_case(case_set.cases, run)
    missing, extra = unmatched(case_set.cases, run)
    pairs = [(case, run[case.case_id]) for case in case_set.cases if case.case_id in run]
    if not pairs:
        raise DataError(
            f"none of {len(case_set.cases)} cases has a result among {len(run)}",
            field="case_id",
            hint=f"Case ids look like {_first(missing)!r}, result ids like {_first(extra)!r}: "
            "give both the same id, or the same query",
        )
    _check_answers([record for _, record in pairs])
    if not options.ids_match:
        _check_ids([case for case, _ in pairs], run)
    pairs = [(case, _with_labels(case, record)) for case, record in pairs]
    judged, absent = _judged_columns(pairs, judges, track)
    computed = ranking_columns(pairs, options) | content.columns(pairs, max(options.ks)) | judged
    signals = _signal_columns([record for _, record in pairs], options)
    columns = computed | {name: signals[name] for name in signals if name not in computed}
    known = {name: column for name, column in columns.items() if not np.isnan(column).all()}
    unlabelled = {name: _UNLABELLED for name in computed if name not in known}
    return Scored(
        cases=tuple(case for case, _ in pairs),
        records=tuple(record for _, record in pairs),
        metrics=tuple(metric(name) for name in known),
        values=np.column_stack(list(known.values())),
        absent=unlabelled | absent,
        notes=(*case_set.notes, *_notes(case_set, pairs, extra)),
        missing=tuple(missing),
        judges=tuple(judge.usage() for judge in judges),
    )


def judged_pairs(pairs: Sequence[tuple[Case, QueryRecord]]) -> JudgedRankings:
    """The rankings with their labels as arrays."""
    return judge(
        [[chunk.id for chunk in record.chunks or ()] for _, record in pairs],
        [case.judgements for case, _ in pairs],
    )


def ranking_columns(pairs: Sequence[tuple[Case, QueryRecord]], options: ScoringOptions) -> Columns:
    """Metrics by labels; unknown without labels, or when the retrieved chunks were not recorded."""
    arrays = judged_pairs(pairs)
    scale = float(arrays.ideal.max(initial=0.0))
    columns: Columns = {}
    for k in options.ks:
        columns[f"precision@{k}"] = batch.precision(arrays, k)
        columns[f"recall@{k}"] = batch.recall(arrays, k)
        columns[f"hit@{k}"] = batch.hit(arrays, k)
        columns[f"f1@{k}"] = batch.f_beta(arrays, k)
        columns[f"ndcg@{k}"] = batch.ndcg(arrays, k, options.gain)
    columns["average_precision"] = batch.average_precision(arrays)
    columns["auc_pr"] = batch.auc_pr(arrays)
    columns["reciprocal_rank"] = batch.reciprocal_rank(arrays)
    columns["r_precision"] = batch.r_precision(arrays)
    deepest = max(options.ks)
    if scale > 1.0:
        columns[f"err@{deepest}"] = batch.err(arrays, deepest, highest=scale)
    if arrays.irrelevant.any():
        columns["bpref"] = np.where(arrays.irrelevant > 0, batch.bpref(arrays), np.nan)
        columns[f"unjudged@{deepest}"] = batch.unjudged(arrays, deepest)
    recorded = np.array([record.chunks is not None for _, record in pairs])
    known = recorded & (arrays.relevant > 0)
    return {name: np.where(known, column, np.nan) for name, column in columns.items()}


def _signal_columns(records: Sequence[QueryRecord], options: ScoringOptions) -> Columns:
    """The monitor's own signals over the run, so that offline and live figures agree."""
    catalogue = build(SignalOptions(ks=options.ks, slow_ms=options.slow_ms))
    pipeline = Pipeline(catalogue)
    values = catalogue.observe([pipeline.admit(record) for record in records])
    return {
        metric_key(column): values[:, at]
        for at, column in enumerate(catalogue.columns)
        if not column.name.endswith(_LIVE) and ("evidence", "label") not in column.labels
    }


def _judged_columns(
    pairs: Sequence[tuple[Case, QueryRecord]], judges: Sequence[AnswerGrader], track: Track
) -> tuple[Columns, dict[str, str]]:
    columns: Columns = {}
    graded = {name for grader in judges for name in grader.metrics}
    has_llm = any(name in graded for name in NEEDS_LLM)
    reason = "the LLM judge was not asked for it ({})"
    reason = reason if has_llm else "needs an LLM judge ({}); none is configured"
    absent = {
        name: reason.format(question) for name, question in NEEDS_LLM.items() if name not in graded
    }
    for grader in judges:
        grades = list(in_parallel(partial(_grade, grader), pairs, grader.concurrency, track))
        for name in grader.metrics:
            column = np.array([grade.get(name, np.nan) for grade in grades], dtype=np.float64)
            columns[f"{name}/{grader.name}"] = column
            if np.isnan(column).all():
                absent[f"{name}/{grader.name}"] = absence_reason(name, grader.usage())
    return columns, absent


def _grade(grader: AnswerGrader, pair: tuple[Case, QueryRecord]) -> Mapping[str, float]:
    return grader.grade(*pair)


def _with_labels(case: Case, record: QueryRecord) -> QueryRecord:
    """The record with the labels of its case, as the signals read them."""
    return replace(
        record,
        query=record.query or case.query,
        grades=case.judgements or None,
        relevant_ids=None,
        feedback=None,
    )


def _check_answers(records: Iterable[QueryRecord]) -> None:
    """Refuse a golden set in place of a run: it would score as a system that never fails."""
    for record in records:
        fields = (record.answer, record.chunks, record.citations, record.error, record.latency_ms)
        if any(field is not None for field in fields):
            return
    raise DataError("no result holds an answer, chunks or an error", hint=NAME_A_RUN)


def _check_ids(cases: Sequence[Case], run: Run) -> None:
    relevant, hits = relevant_and_retrieved(cases, run)
    ids = (chunk.id for record in run.values() for chunk in record.chunks or ())
    retrieved = next(ids, None)
    if relevant and retrieved is not None and not hits:
        raise DataError(
            "no relevant id was ever retrieved",
            field="relevant_doc_ids",
            hint=f"Labelled ids look like {min(relevant)!r}, retrieved ids like {retrieved!r}: "
            "use the same ids for both",
        )


def _first(names: Sequence[str]) -> str:
    return names[0] if names else ""


def _notes(
    case_set: CaseSet, pairs: Sequence[tuple[Case, QueryRecord]], extra: Sequence[str]
) -> Iterable[str]:
    answered = {case.case_id for case, _ in pairs}
    missing = [case.query for case in case_set.cases if case.case_id not in answered]
    if missing:
        have = _of(len(missing), "case has no result and is", "cases have no result and are")
        yield f"{have} left out, such as {missing[0]!r}"
    if extra:
        yield f"{_of(len(extra), 'result matches', 'results match')} no case, such as {extra[0]!r}"
    failed = [(case.query, record.error) for case, record in pairs if record.error is not None]
    if failed:
        query, error = failed[0]
        known = "fields that they did not record are left out of the means"
        count = _of(len(failed), "query", "queries")
        yield f"{count} failed ({known}), such as {query!r}: {error[:_MOST_CHARACTERS]}"
    unlabelled = sum(not case.answerable for case, _ in pairs)
    if 0 < unlabelled < len(pairs):
        have = _of(unlabelled, "case has", "cases have")
        yield f"{have} no relevant id and are left out of metrics that need labels"
    relevant, hits = relevant_and_retrieved(
        [case for case, record in pairs if record.chunks is not None],
        {record.query_id: record for _, record in pairs},
    )
    if hits != relevant:
        lost = min(relevant - hits)
        yield (
            f"{len(relevant - hits):,} of {len(relevant):,} relevant ids were never retrieved, "
            f"such as {lost!r}: ranked too low, or not in the index"
        )


def _of(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
