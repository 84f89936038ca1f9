"""Optional fields of a query, beside the question, the answer and the documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict


class QueryFields(TypedDict, total=False):
    """Keyword arguments of ``Monitor.log_query``; one that is absent is not recorded.

    Any other argument is sent as it is; if the server does not know it, that is logged once.
    """

    latency_ms: float | Mapping[str, float] | None
    """The total, or ``total``, ``retrieval`` and ``generation``, as keys or attributes."""
    citations: Iterable[Any] | None
    """Ids of the chunks that the answer rests on, or those documents; ``[]`` is none."""
    user_feedback: str | bool | float | None
    """``positive``, ``negative``, a boolean, or a number in [-1, 1]."""
    pipeline: str | None
    """The application or route, instead of the monitor's."""
    version: str | None
    """Release, prompt or model version, instead of the monitor's."""
    environment: str | None
    """Such as ``production``, instead of the monitor's."""
    query_id: str | None
    """The application's own id, if it has one; at most 256 characters."""
    timestamp: float | datetime | None
    """Time of the question, in unix seconds or as ``datetime``; default: now."""
    tags: Mapping[str, str] | None
    """Tags by which the server may break metrics down."""
    error: str | BaseException | None
    """The error with which the query failed."""
    retrieval_query: str | None
    """The question as the retriever was asked it, where it was rewritten."""
    steps: Iterable[Any] | None
    """An agent's calls in their order: ``kind`` (``retrieval`` or ``tool``), ``tool``,
    ``chunk_ids`` that a retrieval found (ids, or those documents) and ``failed``."""
    embeddings: Any
    """Vectors of ``query`` and ``answer`` by one model, as keys or attributes: lists or arrays."""
    query_answer_similarity: float | None
    """Their cosine, in place of the vectors."""
    relevant_ids: Iterable[str] | None
    """Ground truth, where it is known: ids of the chunks that answer the question."""
    grades: Mapping[str, float] | None
    """Ground truth in grades by chunk id, higher is better."""
    model: str | None
    tokens: Any
    """``prompt`` and ``completion``, or the usage object of a model client."""
    cost_usd: float | None
    session_id: str | None
    user_id: str | None
    trace_id: str | None
    span_id: str | None
