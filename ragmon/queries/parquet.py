"""Parquet file of exported queries, made from lines of JSON a group of rows at a time.

It needs pyarrow, of the extra ``parquet``, and imports it only here.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ragmon.api_schema import QueryDetail
from ragmon.queries.exports import score_of
from ragmon.records import Feedback

_GROUP_ROWS = 5_000
_GROUP_BYTES = 32 << 20  # of lines of JSON, from which on they are not kept for more
_TEXTS = (
    "query_id", "pipeline", "version", "environment", "model", "session_id", "user_id", "trace_id",
    "span_id", "failure_mode", "query", "retrieval_query", "answer", "error", "comment",
)  # fmt: skip
_NUMBERS = ("feedback", "faithfulness", "latency_ms", "retrieval_ms", "generation_ms", "cost_usd")
_decode = msgspec.json.Decoder(QueryDetail).decode


def write(lines: Iterable[bytes], target: Path) -> None:
    """Write queries, each a line of the export ``jsonl``, as a Parquet file compressed by zstd.

    Args:
        lines: in their order.
        target: a new file.
    """
    from pyarrow import Table, parquet  # noqa: PLC0415 - optional

    schema = _schema()
    with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for group in _groups(lines):
            rows = [_row(_decode(line)) for line in group]
            writer.write_table(Table.from_pylist(rows, schema=schema))


def _groups(lines: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if len(group) == _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _schema() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - optional

    text, number, time = pa.string(), pa.float64(), pa.timestamp("us", tz="UTC")
    texts, numbers = pa.map_(text, text), pa.map_(text, number)
    chunk = {"id": text, "score": number, "text": text, "source": text}
    verdict = {
        "judge": text, "score": number, "reason": text, "probability": number, "rationale": text,
        "version": text, "timestamp": time,
    }  # fmt: skip
    label = {
        "labeller": text, "faithful": number, "relevant_ids": pa.list_(text), "grades": numbers,
        "timestamp": time,
    }  # fmt: skip
    columns = {"asked_at": time}
    columns |= dict.fromkeys(_TEXTS, text) | dict.fromkeys(_NUMBERS, number)
    columns |= {
        "prompt_tokens": pa.int64(),
        "completion_tokens": pa.int64(),
        "tags": texts,
        "chunks": pa.list_(pa.struct(list(chunk.items()))),
        "citations": pa.list_(text),
        "relevant_ids": pa.list_(text),
        "grades": numbers,
        "signals": numbers,
        "verdicts": pa.list_(pa.struct(list(verdict.items()))),
        "labels": pa.list_(pa.struct(list(label.items()))),
    }
    return pa.schema(list(columns.items()))


def _row(detail: QueryDetail) -> dict[str, Any]:
    """The values of one row; what was not recorded stays null."""
    record, later = detail.record, detail.feedback
    latency, tokens = record.latency_ms, record.tokens
    row = {name: getattr(record, name) for name in _TEXTS if hasattr(record, name)}
    row |= {name: getattr(record, name) for name in ("citations", "relevant_ids", "cost_usd")}
    if latency is not None:
        row["latency_ms"] = latency.total
        row["retrieval_ms"], row["generation_ms"] = latency.retrieval, latency.generation
    if tokens is not None:
        row["prompt_tokens"], row["completion_tokens"] = tokens.prompt, tokens.completion
    if isinstance(later, Feedback):
        row["comment"] = later.comment
    chunks = record.chunks
    return row | {
        "asked_at": _micros(record.timestamp),
        "failure_mode": detail.failure_mode,
        "feedback": later.rating if isinstance(later, Feedback) else later,
        "faithfulness": score_of(detail),
        "tags": _pairs(record.tags),
        "grades": _pairs(record.grades),
        "signals": _pairs(detail.signals),
        "chunks": None if chunks is None else [_fields(chunk) for chunk in chunks],
        "verdicts": [_fields(verdict) for verdict in detail.verdicts],
        "labels": [_fields(label) | {"grades": _pairs(label.grades)} for label in detail.labels],
    }


def _pairs(values: dict[str, Any] | None) -> list[tuple[str, Any]] | None:
    return None if values is None else list(values.items())


def _fields(struct: Any) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.structs.asdict(struct)
    if "timestamp" in values:
        values["timestamp"] = _micros(values["timestamp"])
    return values


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)
