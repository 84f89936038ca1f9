"""Questions asked of both sides of a comparison, as rows, and how often only one side failed."""

from typing import NamedTuple

from ragmon.api_schema import QueryDetail
from ragmon.shared_questions import SharedQuestion, SharedQuestions
from ragmon.signals.failure_mode import FAILED
from ragmon.stats.paired import mcnemar
from ragmon.web.pages.queries import ListedQuery, row_of

_MOST = 40


class QuestionRow(NamedTuple):
    """A question with the newest query of each side."""

    question: SharedQuestion
    reference: ListedQuery
    candidate: ListedQuery


class QuestionSummary(NamedTuple):
    """The same questions under both, each counted once."""

    questions: int
    only_candidate: int  # failed with the candidate alone
    only_reference: int
    p_value: float  # of as uneven a split, or a more uneven one, if both were equal


def question_rows(shared: SharedQuestions) -> list[QuestionRow]:
    """The questions at which the candidate does worst beside the reference, then the others."""
    rows = [
        QuestionRow(question, row_of(question.reference), row_of(question.candidate))
        for question in shared.questions
    ]
    return sorted(rows, key=_gain)[:_MOST]


def summary_of(shared: SharedQuestions) -> QuestionSummary:
    """Count of the questions at which only one side failed, with the exact test of McNemar."""
    outcomes = [_failures(question) for question in shared.questions]
    lost, won = outcomes.count((False, True)), outcomes.count((True, False))
    p_value = min(1.0, 2.0 * min(mcnemar(lost, won)))
    return QuestionSummary(len(outcomes), lost, won, p_value)


def _failures(question: SharedQuestion) -> tuple[bool, bool]:
    return _failed(question.reference), _failed(question.candidate)


def _failed(detail: QueryDetail) -> bool:
    return detail.failure_mode in FAILED


def _gain(row: QuestionRow) -> tuple[int, float]:
    """By how much the candidate does better: in failures, then in faithfulness."""
    reference_failed, candidate_failed = _failures(row.question)
    before, after = row.reference.score, row.candidate.score
    gain = 0.0 if before is None or after is None else after - before
    return int(reference_failed) - int(candidate_failed), gain
