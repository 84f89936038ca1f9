"""Records, pipelines and windows to test with."""

from typing import Any

from hypothesis import strategies as st

from ragmon.pipeline import Pipeline
from ragmon.records import AnswerStep, Chunk, Latency, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from ragmon.windows import Windows

NOON = 1_700_049_600.0
"""A Wednesday in 2023, on the hour; most examples happen around it."""

DAY_S = 86_400.0


def record(query_id: str = "q1", at: float = NOON, **fields: Any) -> QueryRecord:
    """One logged query."""
    return QueryRecord(query_id=query_id, timestamp=at, **fields)


def chunks(*ids: str, scores: tuple[float | None, ...] = ()) -> list[Chunk]:
    """Retrieved chunks, best first; without scores where none are given."""
    padded = (*scores, *[None] * (len(ids) - len(scores)))
    return [Chunk(each, score) for each, score in zip(ids, padded, strict=True)]


def pipeline(slices: tuple[str, ...] = (), **options: Any) -> Pipeline:
    """The pipeline with every signal."""
    return Pipeline(build(SignalOptions(**options)), slices)


def windows(pipeline: Pipeline, limit: int = 100, longest_s: float = 7 * DAY_S) -> Windows:
    """Empty windows for what a pipeline observes."""
    return Windows(
        pipeline.catalogue.columns, slices=pipeline.slices, longest_s=longest_s, limit=limit
    )


_IDS = st.sampled_from(["a", "b", "c", "d", "e"])
_SCORES = st.none() | st.sampled_from([-1.0, 0.0, 0.2, 0.5, 0.9])
_MILLISECONDS = st.none() | st.floats(0.0, 1e6)
_LATENCIES = st.builds(
    Latency, total=_MILLISECONDS, retrieval=_MILLISECONDS, generation=_MILLISECONDS
)


_AT_NOON = st.just(NOON)
_ANY_ID = st.uuids().map(lambda each: each.hex)

_STEPS = st.builds(
    AnswerStep,
    kind=st.sampled_from(["retrieval", "retrieval", "tool"]),
    chunk_ids=st.none() | st.lists(_IDS, max_size=4),
    failed=st.booleans(),
)


def query_records(
    timestamps: st.SearchStrategy[float] = _AT_NOON,
    query_ids: st.SearchStrategy[str] = _ANY_ID,
) -> st.SearchStrategy[QueryRecord]:
    """Queries of few pipelines, versions, tenants and chunks, so that they meet one another."""
    return st.builds(
        QueryRecord,
        query_id=query_ids,
        timestamp=timestamps,
        pipeline=st.sampled_from(["docs", "support"]),
        version=st.sampled_from(["", "v1", "v2"]),
        tags=st.none() | st.dictionaries(st.sampled_from(["tenant", "region"]), _IDS),
        query=st.none() | st.sampled_from(["How do I pay?", "Wie bezahle ich?", ""]),
        answer=st.none() | st.sampled_from(["By card [1].", "Mit Karte.", "I do not know.", ""]),
        chunks=st.none() | st.lists(st.builds(Chunk, _IDS, _SCORES), max_size=6),
        citations=st.none() | st.lists(_IDS, max_size=4),
        latency_ms=st.none() | _LATENCIES,
        feedback=st.none() | st.sampled_from([-1.0, -0.3, 0.0, 0.3, 1.0]),
        relevant_ids=st.none() | st.lists(_IDS, max_size=3),
        grades=st.none() | st.dictionaries(_IDS, st.sampled_from([-1.0, 0.0, 1.0, 3.0])),
        error=st.none() | st.just("TimeoutError"),
        steps=st.none() | st.lists(_STEPS, max_size=4),
        query_answer_similarity=st.none() | st.sampled_from([-1.0, 0.0, 0.8]),
        repeat=st.sampled_from([0, 0, 0, 1, 4]),
    )
