"""Signals of answers with several steps, and of logged embeddings."""

import math

import msgspec
import numpy as np
import pytest

from ragmon.records import AnswerStep, Embeddings, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from tests.support.examples import chunks, record

CATALOGUE = build(SignalOptions(ks=(1, 3), relevant_score=0.5, diagnosis_k=2))


def observed(query: QueryRecord, name: str, **labels: str) -> float | None:
    value = CATALOGUE.observe([query])[0, CATALOGUE.index(name, **labels)]
    return None if np.isnan(value) else float(value)


def found(*ids: str, **more) -> AnswerStep:
    return AnswerStep(chunk_ids=list(ids), **more)


TOOL = AnswerStep(kind="tool", tool="calculator")


@pytest.mark.parametrize(
    ("steps", "searches", "redundant", "failed"),
    [
        pytest.param(None, None, None, None, id="steps not recorded"),
        pytest.param([], 0.0, None, None, id="no steps"),
        pytest.param([TOOL], 0.0, None, 0.0, id="a tool that retrieves nothing"),
        pytest.param([found("a"), found("b")], 2.0, 0.0, 0.0, id="each found something new"),
        pytest.param(
            [found("a", "b"), found("b")], 2.0, 0.5, 0.0, id="the second found nothing new"
        ),
        pytest.param([found("a"), found("a"), found("a", "b")], 3.0, 1 / 3, 0.0, id="one of three"),
        pytest.param([found("a"), found()], 2.0, 0.0, 0.0, id="an empty result is not redundant"),
        pytest.param(
            [AnswerStep(failed=True), found("a")], 2.0, 0.0, 0.5, id="a search that failed"
        ),
        pytest.param(
            [found("a"), AnswerStep(kind="tool", failed=True), TOOL],
            1.0,
            0.0,
            1 / 3,
            id="a failed tool",
        ),
    ],
)
def test_searches_redundance_and_errors(steps, searches, redundant, failed):
    query = record(steps=steps, chunks=chunks("a", "b"))
    assert observed(query, "retrieval_steps") == searches
    assert observed(query, "redundant_search") == redundant
    assert observed(query, "tool_error") == failed


@pytest.mark.parametrize(
    ("fields", "by_label", "by_citation", "by_score"),
    [
        pytest.param({}, None, None, None, id="nothing is known to be relevant"),
        pytest.param({"relevant_ids": ["e"]}, 1.0, None, None, id="first of the last step"),
        pytest.param({"citations": ["b"]}, None, 1.0, None, id="second of a step"),
        pytest.param({"citations": ["c"]}, None, 0.0, None, id="third of a step"),
        pytest.param({"relevant_ids": ["z"]}, 0.0, None, None, id="not retrieved"),
        pytest.param(
            {"chunks": chunks("a", "b", "c", "d", "e", scores=(0.1, 0.2, 0.1, 0.9, 0.1))},
            None,
            None,
            1.0,
            id="scores as relevant",
        ),
        pytest.param({"chunks": None, "relevant_ids": ["e"]}, None, None, None, id="no chunks"),
        pytest.param({"steps": [TOOL], "relevant_ids": ["e"]}, None, None, None, id="no retrieval"),
    ],
)
def test_a_hit_of_any_step(fields, by_label, by_citation, by_score):
    defaults = {
        "chunks": chunks("a", "b", "c", "d", "e"),
        "steps": [found("a", "b", "c"), found("d"), found("e", "a")],
    }
    query = record(**(defaults | fields))
    assert observed(query, "step_hit", evidence="label") == by_label
    assert observed(query, "step_hit", evidence="citation") == by_citation
    assert observed(query, "step_hit", evidence="score") == by_score


def test_embeddings_become_their_cosine_and_are_not_kept():
    line = b'{"query_id":"q","embeddings":{"query":[1,0,1],"answer":[1,1,0]}}'
    query = msgspec.json.decode(line, type=QueryRecord)
    assert query.embeddings is None
    assert observed(query, "query_answer_similarity") == pytest.approx(0.5)
    assert b"embeddings" not in msgspec.msgpack.encode(query)
    assert observed(record(), "query_answer_similarity") is None


@pytest.mark.parametrize(
    ("query", "answer", "similarity"),
    [
        pytest.param([1.0, 2.0], [2.0, 4.0], 1.0, id="the same direction"),
        pytest.param([1.0, 0.0], [-3.0, 0.0], -1.0, id="the opposite one"),
        pytest.param([0.0, 0.0], [1.0, 0.0], None, id="a vector of zeros"),
        pytest.param([1e200, 1e200], [1e200, 1e200], None, id="too long to be multiplied"),
        pytest.param([0.1] * 1_536, [0.1] * 1_536, 1.0, id="rounded to within the range"),
    ],
)
def test_cosine(query, answer, similarity):
    cosine = Embeddings(query, answer).similarity
    assert cosine == (None if similarity is None else pytest.approx(similarity))
    assert cosine is None or math.fabs(cosine) <= 1.0


def test_vectors_of_two_models_are_refused_with_the_reason():
    line = b'{"query_id":"q","embeddings":{"query":[1,0],"answer":[1]}}'
    with pytest.raises(msgspec.ValidationError, match="differ in length"):
        msgspec.json.decode(line, type=QueryRecord)
