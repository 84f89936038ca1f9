"""Spans of a token for some pipelines stay out of the queries of others."""

from ragmon.access import Permit, Pipelines
from ragmon.sources.otlp.receiver.permitted import admit
from ragmon.sources.otlp.spans import DecodedSpans, Resource
from tests.support.otlp import span

RETRIEVER = {"openinference.span.kind": "RETRIEVER", "input.value": "a question"}
MINE = Permit("mine", Pipelines(["shop"]))
THEIRS = Permit("theirs", Pipelines(["bank"]))


def spans_of(service, *spans):
    return [span(*given, resource=Resource(service)) for given in spans]


def admitted(permit, *spans):
    decoded = DecodedSpans(list(spans))
    admit(decoded, permit.pipelines)
    return decoded


def test_spans_of_another_service_are_refused_when_they_come():
    decoded = admitted(MINE, *spans_of("shop", (1,)), *spans_of("bank", (2,)), *spans_of("", (3,)))
    assert [each.resource.service for each in decoded.spans] == ["shop"]
    assert decoded.refused == {"pipeline_forbidden": 2}


def test_the_project_counts_as_well():
    odd = span(1, resource=Resource("shop", project="bank"))
    assert admitted(MINE, odd).spans == []


def test_without_a_service_the_default_pipeline_is_meant():
    permit = Permit("default", Pipelines(["default"]))
    assert len(admitted(permit, span(1, resource=Resource())).spans) == 1


def results(tmp_path, *spans):
    """Queries and refusals of one trace with spans of several senders."""
    from ragmon.event_time import Bounds
    from ragmon.sources.otlp.receiver.results import Results
    from ragmon.sources.otlp.receiver.targets import Targets
    from tests.support.examples import NOON

    found = Results(Targets(), NOON, Bounds(0.0, 4e9))
    found.add(list(spans))
    return found


def test_a_stranger_joins_no_query(tmp_path):
    (root,) = spans_of("bank", (1, 0, RETRIEVER | {"output.value": "theirs"}))
    (child,) = spans_of("shop", (2, 1, RETRIEVER | {"input.value": "a question of mine"}))
    (child,) = admitted(MINE, child).spans
    found = results(tmp_path, root, child)
    assert [each.pipeline for each in found.records] == ["bank"]
    assert found.refused == {"pipeline_forbidden": 1}


def test_a_stranger_takes_no_trace_over(tmp_path):
    (stranger,) = admitted(MINE, *spans_of("shop", (1, 0, RETRIEVER))).spans
    (own,) = spans_of("bank", (2, 1, RETRIEVER))
    (own,) = admitted(THEIRS, own).spans
    found = results(tmp_path, stranger, own)
    assert [each.pipeline for each in found.records] == ["shop"]
    assert found.refused == {"pipeline_forbidden": 1}


def test_limits_are_kept_on_disk_until_the_trace_is_complete(tmp_path):
    from ragmon.sources.otlp.spans import pack, unpack

    (limited,) = admitted(MINE, *spans_of("shop", (1,))).spans
    (row,) = pack([limited])
    assert unpack([row.body])[0].sender_pipelines == ("shop",)
