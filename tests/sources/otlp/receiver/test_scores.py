"""Langfuse scores and Phoenix annotations: each is read or refused on its own."""

import json

import pytest

from ragmon.errors import RecordError
from ragmon.sources.otlp.receiver import scores
from ragmon.sources.otlp.receiver.targets import Targets

TRACE = "a" * 32
GOOD = {"traceId": TRACE, "name": "user-feedback", "value": 1, "id": "own"}
ANNOTATED = {"trace_id": TRACE, "name": "user", "result": {"score": 0.5, "label": "up"}}


def read(path, body):
    items = [item for part in scores.parts(path, body) for item in part]
    return scores.read(path, items, Targets(), lambda evaluation: evaluation)


def test_the_good_ones_among_others_are_kept():
    odd = [5, None, [], "x", {"traceId": TRACE}, {"name": "nobody", "value": 1}]
    accepted, refused = read(scores.LANGFUSE, json.dumps([GOOD, *odd, GOOD]).encode())
    assert [own_id for _, _, own_id in accepted] == ["own", "own"]
    assert [error.reason for error in refused] == ["invalid"] * 5 + ["no_target"]


def test_a_list_or_an_object_is_no_value():
    nested = {name: [[{"a": 1}]] for name in ("value", "comment", "stringValue", "timestamp", "id")}
    ((_, evaluation, own_id),), refused = read(
        scores.LANGFUSE, json.dumps({**GOOD, **nested, "metadata": [nested] * 9}).encode()
    )
    assert (evaluation.score, evaluation.label, own_id, refused) == (None, None, "", [])


def test_an_annotation_with_values_and_without():
    for result, score in ((ANNOTATED["result"], 0.5), ({}, None), (None, None), (["x"], None)):
        body = {"data": [{**ANNOTATED, "result": result}]}
        ((query_id, evaluation, _),), _ = read("/v1/trace_annotations", json.dumps(body).encode())
        assert (query_id, evaluation.score) == (TRACE, score)


@pytest.mark.parametrize("body", [b"[]", b'{"other": 1}', b"5", b'{"data": '])
def test_a_body_of_another_shape_is_refused_whole(body):
    with pytest.raises(RecordError):
        scores.parts("/v1/span_annotations", body)


def test_many_come_in_parts():
    parts = scores.parts(scores.LANGFUSE, json.dumps([GOOD] * 450).encode())
    assert [len(part) for part in parts] == [200, 200, 50]
    assert scores.parts(scores.LANGFUSE, b"[]") == []
