"""Fields that are read of the captured instrumentations, as a table of the reference."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from ragmon.clock import SystemClock
from ragmon.records import QueryRecord
from ragmon.sources.otlp.receiver import logs
from ragmon.sources.otlp.receiver.batch import MappingBatch, MappingOptions
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.source import LOGS
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.receiver.time_limit import TimeLimit
from ragmon.sources.otlp.spans import Span, pack
from ragmon.sources.otlp.wire import json, protobuf
from tests.support.otlp import CAPTURES, FOLDERS, NOW, Captured, captured, truth

COLUMNS = {
    "question": ("query", "retrieval_query"),
    "documents": ("n_docs", "doc_ids"),
    "scores": ("top_score",),
    "answer": ("answer",),
    "model": ("model",),
    "tokens": ("prompt", "completion"),
    "session, user": ("session_id", "user_id"),
    "times": ("retrieval", "generation"),
    "error": ("error",),
}
INTRO = """\
Read from captures of the real instrumentations (`tests/data/otlp`), and compared with the truth
about them: whether all fields of a column that the payload holds are right. An empty cell: the
payload does not hold it, and `ragmon trace-doctor` says what to add. A test makes this page, and
fails below 99 %."""
NOT_CAPTURED = """\
Semantic Kernel for .NET is not among the captures: it is read by the conventions of GenAI, and
tested with payloads made after its documentation."""

Fields = dict[str, tuple[Any, Any, Any]]
"""By name: whether the truth is known of it, the truth, and what was read."""


class Producer(NamedTuple):
    """A row: instrumentations and versions, and the captures of them."""

    made_by: str
    folders: tuple[str, ...]


def checked_fields(expected: dict[str, Any], record: QueryRecord) -> Fields:
    """Every field of a query beside the truth."""
    fields: Fields = {
        "query": (expected["query_in_payload"], expected["query"], record.query),
        "n_docs": (
            expected["n_docs_in_payload"],
            expected["n_docs"],
            None if record.chunks is None else len(record.chunks),
        ),
        "doc_ids": (
            expected["ids_in_payload"],
            expected["doc_ids"],
            [chunk.id for chunk in record.chunks or ()][: len(expected["doc_ids"])],
        ),
        "top_score": (
            expected["scores_in_payload"],
            pytest.approx(expected["top_score"]) if expected["top_score"] else None,
            record.chunks[0].score if record.chunks else None,
        ),
        "answer": (
            expected["answer_in_payload"],
            expected["answer_prefix"],
            record.answer and record.answer[: len(expected["answer_prefix"] or "")],
        ),
    }
    rewritten = expected["query_in_payload"] and expected["retrieval_query"]
    fields["retrieval_query"] = (rewritten, rewritten, record.retrieval_query)
    for field in ("model", "session_id", "user_id"):
        fields[field] = (expected[field], expected[field], getattr(record, field))
    for kind in ("prompt", "completion"):
        counted = expected[f"{kind}_tokens"]
        fields[kind] = (counted, counted, record.tokens and getattr(record.tokens, kind))
    for stage in ("retrieval", "generation"):
        least = expected[f"min_{stage}_ms"]
        took = getattr(record.latency_ms, stage)
        fields[stage] = (least, True, took is not None and least is not None and took >= least)
    return fields


def producers() -> list[Producer]:
    """Those that the captures' README names."""
    rows = []
    text = (CAPTURES / "README.md").read_text(encoding="utf-8")
    for names, made_by in re.findall(r"^\| (`.+?`) \| (.+) \|$", text, re.MULTILINE):
        base, *others = re.findall(r"`([^`]+)`", names)
        folders = [base, *(_folder(base, other) for other in others)]
        if any((CAPTURES / folder / "expected.json").exists() for folder in folders):
            rows.append(Producer(made_by, tuple(folders)))
    return rows


def page() -> str:
    """The page of the reference."""
    lines = [f"| made by | {' | '.join(COLUMNS)} |", f"|{' --- |' * (len(COLUMNS) + 1)}"]
    right = held = 0
    for producer in producers():
        counts = _counts(producer)
        right += sum(count[0] for count in counts.values())
        held += sum(count[1] for count in counts.values())
        cells = (_cell(*counts[column]) for column in COLUMNS)
        lines.append(f"| {producer.made_by} | {' | '.join(cells)} |")
    share = f"{right:,} of {held:,} fields are right ({right / held:.1%})."
    return "\n".join(["# Instrumentations", "", INTRO, "", share, "", *lines, "", NOT_CAPTURED, ""])


def shares() -> tuple[int, int]:
    """Fields that are right, and fields that payloads hold."""
    pairs = [pair for producer in producers() for pair in _counts(producer).values()]
    return sum(right for right, _ in pairs), sum(held for _, held in pairs)


def _folder(base: str, name: str) -> str:
    if not name.startswith("-"):
        return name
    longer = base + name
    return longer if longer in FOLDERS else base.rsplit("-", 1)[0] + name


def _cell(right: int, held: int) -> str:
    if not held:
        return ""
    return "all" if right == held else f"{right} of {held}"


def _counts(producer: Producer) -> dict[str, tuple[int, int]]:
    """By column the fields that are right, and those that the payloads hold."""
    counts = dict.fromkeys(COLUMNS, (0, 0))
    for folder in producer.folders:
        records = {record.query_id: record for record in _records(folder)}
        for expected in truth(folder)["traces"]:
            for field, is_right in _outcomes(expected, records.get(expected["trace_id"])):
                column = next(name for name, fields in COLUMNS.items() if field in fields)
                right, held = counts[column]
                counts[column] = (right + is_right, held + 1)
    return counts


def _outcomes(expected: dict[str, Any], record: QueryRecord | None) -> Iterator[tuple[str, bool]]:
    compared = checked_fields(expected, record or QueryRecord(query_id="none", timestamp=0.0))
    for field, (is_known, wanted, read) in compared.items():
        if is_known:
            yield field, wanted == read
    if error := expected["error"]:
        told = record.error if record else None
        yield "error", bool(told and error["type"] in told and error["message"] in told)


def _records(folder: str) -> list[QueryRecord]:
    options = MappingOptions(retention_s=7 * 86_400.0, max_skew_s=300.0, timeout_s=10.0)
    results = Results(Targets(), NOW, options.bounds(NOW))
    batch = MappingBatch(results, NOW, options, TimeLimit(10.0, SystemClock()))
    for row in pack(span for request in captured(folder) for span in _spans(request)):
        batch.add(row.trace_id, [row.body])
    batch.finish()
    return results.records


def _spans(request: Captured) -> Iterator[Span]:
    is_json = "json" in request.content_type
    if request.path in LOGS:
        for logged in logs.decode(request.plain, "json" if is_json else "protobuf"):
            yield from logged.content.spans
        return
    for decoded in (json if is_json else protobuf).decode(request.plain):
        yield from decoded.spans
