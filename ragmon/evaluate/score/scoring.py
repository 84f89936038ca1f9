"""Cases and a run to a matrix of scores, one row a case."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragmon.evaluate.cases import Case, CaseSet, Run, by_case, never_found, unmatched
from ragmon.evaluate.errors import NAME_A_RUN, DataError
from ragmon.evaluate.ranking import batch, judge
from ragmon.evaluate.ranking.blocks import Floats, JudgedRankings
from ragmon.evaluate.ranking.single import Gain
from ragmon.evaluate.score import content
from ragmon.evaluate.score.graders import NEEDS_LLM, AnswerGrader, why_absent
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.metrics import Metric, metric
from ragmon.evaluate.score.parallel import Track, each_of
from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.report import metric_key
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build

Columns = dict[str, Floats]
_LIVE = ("_coverage", "_moment", "_feedback")
"""Endings of signals that speak of live traffic alone."""
_UNLABELLED = "no case has relevant_doc_ids or grades, and chunks that were recorded"
_MOST_CHARACTERS = 120  # of an error in a note
_SIGNALS = SignalOptions()


class ScoringOptions(Struct, frozen=True, kw_only=True):
    """How to score."""

    ks: tuple[int, ...] = _SIGNALS.ks
    gain: Gain = "linear"
    slow_ms: float = _SIGNALS.slow_ms
    ids_match: bool = False  # known from before: finding nothing relevant is then a result


class Scored(Struct, frozen=True):
    """Scores of n cases."""

    cases: tuple[Case, ...]
    records: tuple[QueryRecord, ...]  # what the system did with each
    metrics: tuple[Metric, ...]
    values: Floats  # (n, metrics); NaN: unknown for this case
    absent: Mapping[str, str]  # metrics that could not be had at all, with the reason
    notes: tuple[str, ...]
    missing: tuple[str, ...]  # ids of cases without a result, which are not in ``cases``
    accounts: tuple[UsageSummary, ...] = ()  # of the judges

    def column(self, name: str) -> Floats:
        """Scores of one metric, shape (n,).

        Raises:
            KeyError: there is no such metric.
        """
        for at, each in enumerate(self.metrics):
            if each.name == name:
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
    """Everything that can be known of a run.

    Args:
        case_set: what is right.
        run: what was answered.
        options: how to score.
        judges: who grades the answers.
        track: wraps the work of a judge, to show progress.

    Raises:
        DataError: no case has a result that says anything, or the ids of chunks and labels have
            nothing in common.
    """
    run = by_case(case_set.cases, run)
    missing, extra = unmatched(case_set.cases, run)
    pairs = [(each, run[each.case_id]) for each in case_set.cases if each.case_id in run]
    if not pairs:
        raise DataError(
            f"none of {len(case_set.cases)} cases has a result among {len(run)}",
            field="case_id",
            hint=f"Cases are called like {_first(missing)!r}, results like {_first(extra)!r}: "
            "give both the same id, or the same query",
        )
    _check_answers([record for _, record in pairs])
    if not options.ids_match:
        _check_ids([each for each, _ in pairs], run)
    pairs = [(each, _with_truth(each, record)) for each, record in pairs]
    judged, absent = _judged_columns(pairs, judges, track)
    asked = ranking_columns(pairs, options) | content.columns(pairs, max(options.ks)) | judged
    signals = _signal_columns([record for _, record in pairs], options)
    columns = asked | {name: column for name, column in signals.items() if name not in asked}
    known = {name: column for name, column in columns.items() if not np.isnan(column).all()}
    unlabelled = {name: _UNLABELLED for name in asked if name not in known}
    return Scored(
        cases=tuple(case for case, _ in pairs),
        records=tuple(record for _, record in pairs),
        metrics=tuple(metric(name) for name in known),
        values=np.column_stack(list(known.values())),
        absent=unlabelled | absent,
        notes=(*case_set.notes, *_notes(case_set, pairs, extra)),
        missing=tuple(missing),
        accounts=tuple(each.account() for each in judges),
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
    given = {name for each in judges for name in each.metrics}
    asked = any(name in given for name in NEEDS_LLM)
    reason = "was not asked of the LLM judge ({})"
    reason = reason if asked else "needs an LLM judge ({}); none is configured"
    absent = {
        name: reason.format(question) for name, question in NEEDS_LLM.items() if name not in given
    }
    for each in judges:
        grades = list(each_of(partial(_graded, each), pairs, each, track))
        for name in each.metrics:
            column = np.array([grade.get(name, np.nan) for grade in grades], dtype=np.float64)
            columns[f"{name}/{each.name}"] = column
            if np.isnan(column).all():
                absent[f"{name}/{each.name}"] = why_absent(name, each.account())
    return columns, absent


def _graded(judge: AnswerGrader, pair: tuple[Case, QueryRecord]) -> Mapping[str, float]:
    return judge.grade(*pair)


def _with_truth(case: Case, record: QueryRecord) -> QueryRecord:
    """The record with the labels of its case, as the signals read them."""
    return replace(
        record,
        query=record.query or case.query,
        grades=case.judgements or None,
        relevant_ids=None,
        feedback=None,
    )


def _check_answers(records: Iterable[QueryRecord]) -> None:
    """A golden set alone is no run, and would pass as one that never fails."""
    for each in records:
        said = (each.answer, each.chunks, each.citations, each.error, each.latency_ms)
        if any(field is not None for field in said):
            return
    raise DataError("no result holds an answer, chunks or an error", hint=NAME_A_RUN)


def _check_ids(cases: Sequence[Case], run: Run) -> None:
    relevant, found = never_found(cases, run)
    retrieved = next((chunk.id for each in run.values() for chunk in each.chunks or ()), None)
    if relevant and retrieved is not None and not found:
        raise DataError(
            "no relevant id was ever retrieved",
            field="relevant_doc_ids",
            hint=f"Labels read like {min(relevant)!r}, retrieved ids like {retrieved!r}: "
            "label and retrieve by the same ids",
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
        known = "what they did not record counts in no mean"
        count = _of(len(failed), "query", "queries")
        yield f"{count} failed ({known}), such as {query!r}: {error[:_MOST_CHARACTERS]}"
    unlabelled = sum(not case.answerable for case, _ in pairs)
    if 0 < unlabelled < len(pairs):
        knows = _of(unlabelled, "case knows", "cases know")
        yield f"{knows} nothing relevant: label metrics leave them out"
    relevant, found = never_found(
        [case for case, record in pairs if record.chunks is not None],
        {record.query_id: record for _, record in pairs},
    )
    if found != relevant:
        lost = min(relevant - found)
        yield (
            f"{len(relevant - found):,} of {len(relevant):,} relevant ids were retrieved for no "
            f"question, such as {lost!r}: ranked too low, or not an id of the index"
        )


def _of(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
