"""Traces that go to the quarantine, and stored spans that cannot be read."""

import sqlite3

import pytest

from ragmon.clock import SystemClock
from ragmon.event_time import Bounds
from ragmon.quarantine import DamagedContent, TraceContent, decode
from ragmon.sources.otlp.conventions import openinference
from ragmon.sources.otlp.receiver.batch import MappingBatch, MappingOptions
from ragmon.sources.otlp.receiver.isolated import IsolatedRequest, map_isolated
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.receiver.time_limit import TimeLimit
from ragmon.sources.otlp.spans import Resource, pack
from tests.support.otlp import NOW, as_json, rig, span

JSON = {"content_type": "application/json"}


def trace(number, **fields):
    attributes = {
        "openinference.span.kind": "CHAIN",
        "input.value": f"question {number}",
        "output.value": "an answer",
    }
    return span(number, trace_id=number.to_bytes(16, "big"), attributes=attributes, **fields)


def quarantined(site, stage=""):
    return site.engine.thread.ask(lambda: site.engine.quarantine.rows(10, stage))


def content(site, row):
    _, body = site.engine.thread.ask(lambda: site.engine.quarantine.find(row.number))
    return decode(body)


def test_a_trace_whose_mapping_raises_costs_itself_alone(tmp_path, monkeypatch):
    read = openinference.read

    def failing(span, facts):
        if span.attributes["input.value"] == "question 2":
            raise RuntimeError("an error of a kind that no list names")
        read(span, facts)

    monkeypatch.setattr(openinference, "read", failing)
    with rig(tmp_path) as site:
        site.send(as_json(trace(1), trace(2), trace(3)), **JSON)
        site.wait()
        assert site.stored() == 2
        assert site.pending() == 0
        [row] = quarantined(site)
        assert (row.stage, row.reason) == ("map", "defect")
        assert row.name == (2).to_bytes(16, "big").hex()
        assert row.error == "RuntimeError: an error of a kind that no list names"
        assert isinstance(content(site, row), TraceContent)
        assert site.counters.counts["otlp", "defect"] == 1
        assert site.engine.thread.ask(lambda: site.engine.shard.spans().marked()) == []


def test_a_query_that_is_refused_goes_to_the_quarantine_unless_it_is_only_old():
    options = MappingOptions(retention_s=3_600.0, max_skew_s=300.0, timeout_s=10.0)
    results = Results(Targets(), NOW, options.bounds(NOW))
    batch = MappingBatch(results, NOW, options, TimeLimit(10.0, SystemClock()))
    refused = trace(1, resource=Resource("a service with a long name" * 50))
    old = trace(2, start_ns=1_000_000_000, end_ns=2_000_000_000)
    for row in pack([refused, old, trace(3)]):
        batch.add(row.trace_id, [row.body])
    assert [record.query for record in batch.results.records] == ["question 3"]
    assert batch.results.refused == {"invalid": 1, "too_old": 1}
    [item] = batch.quarantined
    assert (item.stage, item.reason) == ("decode", "invalid")
    assert "expected str of length" in item.error


@pytest.mark.parametrize("damage", ["bits", "text"])
def test_one_damaged_row_of_spans_does_not_stop_the_others(tmp_path, damage):
    with rig(tmp_path) as site:
        for number in range(1, 6):
            site.send(as_json(trace(number)), **JSON)
        site.engine.thread.ask(lambda: None)
    other = sqlite3.connect(tmp_path / "ragmon.sqlite")
    [(number, body)] = other.execute("SELECT number, body FROM spans LIMIT 1 OFFSET 2").fetchall()
    bad = body[:-6] + b"\0\0\0\0\0\0" if damage == "bits" else "no bytes at all"
    other.execute("UPDATE spans SET body = ? WHERE number = ?", (bad, number))
    other.commit()
    other.close()
    with rig(tmp_path) as site:
        site.wait()
        assert site.stored() == 4
        assert site.pending() == 0
        [row] = quarantined(site, "decode")
        assert row.reason == "damaged"
        assert "is damaged" in row.error
        assert isinstance(content(site, row), DamagedContent)
        assert site.counters.counts["otlp", "damaged"] == 1


def test_traces_that_were_being_mapped_when_the_process_died_are_mapped_apart(tmp_path):
    with rig(tmp_path) as site:
        site.send(as_json(trace(1)), **JSON)
        site.send(as_json(trace(2)), **JSON)
        marked = [(1).to_bytes(16, "big")]
        site.engine.thread.ask(lambda: site.engine.shard.spans().mark(marked, NOW))
    with rig(tmp_path) as site:
        worker = site.source.worker
        assert len(worker.assembly) == 1  # the other one is a suspect
        later = span(7, parent=1, trace_id=(1).to_bytes(16, "big"))
        site.send(as_json(later), **JSON)
        assert worker.step()
        assert site.stored() == 1
        assert site.query((1).to_bytes(16, "big").hex()) is not None
        assert site.engine.thread.ask(lambda: site.engine.shard.spans().marked()) == []
        site.wait()
        assert site.stored() == 2
        assert quarantined(site) == []


def test_a_trace_whose_results_ended_the_process_before_is_given_up(tmp_path):
    with rig(tmp_path) as site:
        site.send(as_json(trace(1)), **JSON)
        name = (1).to_bytes(16, "big")

        def risk():
            spans = site.engine.shard.spans()
            spans.mark([name], NOW)
            spans.note_risk(name)
            spans.note_risk(name)

        site.engine.thread.ask(risk)
    with rig(tmp_path) as site:
        assert site.source.worker.step()
        assert site.stored() == 0
        [row] = quarantined(site)
        assert (row.reason, row.name) == ("killed", name.hex())
        assert site.pending() == 0


def test_a_process_apart_answers_for_each_trace():
    packed = [[row.body] for row in pack([trace(1), trace(2)])]
    request = IsolatedRequest([packed[0], [b"no spans"], packed[1]], NOW, Bounds(0, NOW + 300), 5.0)
    first, second, third = map_isolated(request)
    assert first.records[0].query == "question 1"
    assert third.records[0].query == "question 2"
    assert (second.stage, second.reason) == ("map", "defect")
    assert second.error
