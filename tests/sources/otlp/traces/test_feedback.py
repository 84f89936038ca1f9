"""Evaluations as changes to the query that they speak of."""

import pytest

from ragmon.errors import RecordError
from ragmon.event_time import NO_TIME, Bounds, from_nanoseconds
from ragmon.records import Feedback, Label
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.spans import SpanLink
from ragmon.sources.otlp.traces.feedback import (
    changes_for,
    rating_of,
    stamped,
    targeted_evaluations,
)
from ragmon.sources.otlp.traces.tree import build
from tests.support.otlp import NOW, TRACE, as_json, rig, span

KIND = "openinference.span.kind"
BOUNDS = Bounds(NOW - 7 * 86_400.0, NOW + 300.0)


@pytest.mark.parametrize(
    ("score", "label", "rating"),
    [
        (0.0, None, -1.0),
        (0.75, "relevant", 0.5),
        (1.0, None, 1.0),
        (1, "thumbs_down", -1.0),
        (0.0, "thumbs_down", -1.0),
        (None, "thumbs_up", 1.0),
        (None, "Bad", -1.0),
        (None, "somewhat", None),
        (-1.0, None, -1.0),
        (-0.5, None, -0.5),
        (-3.0, None, -1.0),
        (3, None, 0.0),
        (5, None, 1.0),
        (10, None, 1.0),
        (50, None, 0.0),
        (1e9, None, None),
    ],
)
def test_ratings(score, label, rating):
    assert rating_of(SpanEvaluation("x", score, label)) == rating


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [SpanEvaluation("user_feedback", 1.0)], [("feedback", 1.0)], id="nobody named"
        ),
        pytest.param(
            [
                SpanEvaluation("relevance", 0.0, annotator="LLM"),
                SpanEvaluation("x", 1, annotator="HUMAN"),
            ],
            [("feedback", 1.0)],
            id="a person",
        ),
        pytest.param(
            [SpanEvaluation("relevance", 0.0), SpanEvaluation("thumbs", 1.0, annotator="HUMAN")],
            [("feedback", 1.0)],
            id="a person is preferred",
        ),
        pytest.param([SpanEvaluation("relevance", 0.0, annotator="LLM")], [], id="a model alone"),
        pytest.param(
            [SpanEvaluation("Faithfulness", 0.8, annotator="LLM")],
            [("llm:Faithfulness", 0.8)],
            id="faithfulness by a model",
        ),
        pytest.param(
            [SpanEvaluation("Groundedness", 5)], [("otlp:Groundedness", 1.0)], id="of five"
        ),
        pytest.param(
            [SpanEvaluation("hallucination", 1.0, annotator="LLM")],
            [("llm:hallucination", 0.0)],
            id="the opposite",
        ),
        pytest.param(
            [SpanEvaluation("hallucination", None, "factual", annotator="LLM")],
            [("llm:hallucination", 1.0)],
            id="in a word",
        ),
    ],
)
def test_changes(given, expected):
    found = []
    for change in changes_for("q", [stamped(each, NOW, BOUNDS) for each in given]):
        assert change.query_id == "q"
        assert change.timestamp == NOW
        if isinstance(change, Feedback):
            found.append(("feedback", change.rating))
        else:
            assert isinstance(change, Label)
            found.append((change.labeller, pytest.approx(change.faithful)))
    assert found == expected


@pytest.mark.parametrize(
    ("time_ns", "seconds"),
    [
        pytest.param(int((NOW - 60) * 1e9), NOW - 60, id="a minute ago"),
        pytest.param(0, NOW, id="no time"),
        pytest.param(int((NOW + 60) * 1e9), NOW + 60, id="a minute ahead"),
    ],
)
@pytest.mark.parametrize("name", ["user_feedback", "Faithfulness"])
def test_the_time_of_an_evaluation(name, time_ns, seconds):
    sent = SpanEvaluation(name, 1.0, timestamp=from_nanoseconds(time_ns))
    (change,) = changes_for("q", [stamped(sent, NOW, BOUNDS)])
    assert change.timestamp == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("time_ns", "reason"),
    [
        pytest.param(NO_TIME, "invalid", id="no time at all"),
        pytest.param(-1, "too_old", id="before 1970: the store could not read it again"),
        pytest.param(int((NOW + 3e9) * 1e9), "future", id="a future that would win for ever"),
        pytest.param(2**64 - 1, "future", id="the largest time of the wire"),
    ],
)
def test_a_time_that_cannot_have_been_is_refused(time_ns, reason):
    with pytest.raises(RecordError) as caught:
        stamped(SpanEvaluation("x", 1.0, timestamp=from_nanoseconds(time_ns)), NOW, BOUNDS)
    assert caught.value.reason == reason


def test_trace_feedback_counts_once_however_often_it_is_said():
    said = {
        "trace.annotations.0.annotation.name": "user",
        "trace.annotations.0.annotation.score": 0,
    }
    tops = build([span(1, 0, said), span(2, 1, said), span(3, 1, said)])
    assert len(targeted_evaluations(tops)) == 1


def test_a_link_names_the_target_wherever_the_span_stands():
    other = b"o" * 16
    said = {KIND: "EVALUATOR", "annotations.0.annotation.name": "user"}
    late = span(2, 1, said, links=(SpanLink(other, b"12345678"),))
    (found,) = targeted_evaluations(build([span(1), late]))
    assert (found.trace_id, found.span_id) == (other, b"12345678")


def annotation(number, parent=0, *, score=0, scope="", **given):
    said = {
        KIND: "EVALUATOR",
        f"{scope}annotations.0.annotation.name": "user",
        f"{scope}annotations.0.annotation.score": score,
        f"{scope}annotations.0.annotation.annotator_kind": "HUMAN",
    }
    return span(number, parent, said, **given)


@pytest.fixture
def site(tmp_path):
    with rig(tmp_path) as built:
        yield built


def send(site, *spans):
    assert site.send(as_json(*spans), content_type="application/json").status == 200


QUERY = (span(1), span(2, 1, {KIND: "RETRIEVER", "output.value": "[]"}))


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(
            annotation(9, trace_id=b"o" * 16, links=(SpanLink(TRACE, (1).to_bytes(8, "big")),)),
            id="in a trace of its own, linked",
        ),
        pytest.param(annotation(9, 1), id="in the trace that was complete before"),
    ],
)
def test_feedback_after_the_trace_was_complete(site, late):
    send(site, *QUERY)
    site.wait()
    assert site.query(TRACE.hex())["feedback"] is None
    send(site, late)
    site.wait()
    assert site.query(TRACE.hex())["feedback"]["rating"] == -1.0
    assert (site.stored(), site.pending()) == (1, 0)


def test_session_feedback_belongs_to_no_query(site):
    send(site, *QUERY, annotation(3, 1, scope="session."))
    site.wait()
    assert site.query(TRACE.hex())["feedback"] is None
    assert site.counters.counts["otlp", "session_feedback"] == 1


def test_feedback_on_one_of_several_queries_of_a_trace(site):
    second = span(6, 5, {KIND: "RETRIEVER", "output.value": "[]"})
    send(site, *QUERY, span(5), second, annotation(7, 5), annotation(8, 1, score=1))
    site.wait()
    ratings = [
        site.query(f"{TRACE.hex()}:{number:016x}")["feedback"]["rating"] for number in (1, 5)
    ]
    assert ratings == [1.0, -1.0]
