"""Files made of stored queries: lines of JSON, a table, or a golden set for ``ragmon evaluate``."""

import csv
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ragmon.api_schema import QueryDetail
from ragmon.records import Amendments, Feedback
from ragmon.signals.evidence import BELIEVED, human_score, judge_score

_COLUMNS = (
    "query_id", "asked_at", "pipeline", "version", "environment", "model", "session_id", "user_id",
    "trace_id", "failure_mode", "feedback", "faithfulness", "latency_ms", "retrieval_ms",
    "generation_ms", "cost_usd", "chunks", "tags", "error", "query", "answer",
)  # fmt: skip
_COMPUTED = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that a spreadsheet takes for a formula."""

Encode = Callable[[Sequence[QueryDetail]], bytes]
_json = msgspec.json.Encoder().encode


def encoder(form: str, *, begun: bool = False) -> Encode:
    """The function that makes the next part of a file of some queries.

    Args:
        form: jsonl, csv or golden.
        begun: the file has its beginning, such as the names of columns.
    """
    if form == "csv":
        return _Table(begun=begun).rows
    return _golden if form == "golden" else _lines


def _lines(queries: Sequence[QueryDetail]) -> bytes:
    return b"".join(_json(query) + b"\n" for query in queries)


def _golden(queries: Sequence[QueryDetail]) -> bytes:
    cases = filter(None, map(case_of, queries))
    return b"".join(_json(case) + b"\n" for case in cases)


def case_of(query: QueryDetail) -> dict[str, Any] | None:
    """A case of a golden set; None where nobody said what is right, or the texts are gone."""
    record = query.record
    grades = dict(record.grades or {}) | dict.fromkeys(record.relevant_ids or (), 1.0)
    faithful = None
    for label in sorted(query.labels, key=lambda label: label.timestamp):
        grades = grades if label.grades is None else dict(label.grades)
        grades = grades if label.relevant_ids is None else dict.fromkeys(label.relevant_ids, 1.0)
        faithful = faithful if label.faithful is None else label.faithful
    answer = record.answer if faithful == 1.0 else None
    if not record.query or not (grades or answer):
        return None
    case: dict[str, Any] = {"query": record.query, "case_id": record.query_id}
    if grades:
        case["grades"] = grades
    if answer:
        case["ground_truth_answer"] = answer
    return case | {"metadata": {"pipeline": record.pipeline, "version": record.version}}


class _Table:
    """A table as CSV, whose first rows come after the names of the columns."""

    def __init__(self, *, begun: bool) -> None:
        self._begun = begun

    def rows(self, queries: Sequence[QueryDetail]) -> bytes:
        """Some more rows."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\r\n")
        if not self._begun:
            table.writerow(_COLUMNS)
            self._begun = True
        table.writerows(map(_row, queries))
        return text.getvalue().encode(errors="replace")


def _row(query: QueryDetail) -> list[Any]:
    record, latency = query.record, query.record.latency_ms
    rating = query.feedback.rating if isinstance(query.feedback, Feedback) else query.feedback
    stages = (None,) * 3 if latency is None else (
        latency.total, latency.retrieval, latency.generation,
    )  # fmt: skip
    row = (
        record.query_id, datetime.fromtimestamp(record.timestamp, UTC).isoformat(),
        record.pipeline, record.version, record.environment, record.model, record.session_id,
        record.user_id, record.trace_id, query.failure_mode, rating, score_of(query), *stages,
        record.cost_usd, None if record.chunks is None else len(record.chunks),
        _json(record.tags).decode() if record.tags else None, record.error, record.query,
        record.answer,
    )  # fmt: skip
    return [plain_cell(value) for value in row]


def plain_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(_COMPUTED):
        return "'" + value
    return value


def score_of(query: QueryDetail) -> float | None:
    """Faithfulness by whoever is believed most: people, the sampled judge, the embedded one."""
    known = Amendments(labels=query.labels, verdicts=query.verdicts)
    scores = (human_score(known), *(judge_score(known, judge) for judge in BELIEVED))
    return next((score for score in scores if score is not None), None)
