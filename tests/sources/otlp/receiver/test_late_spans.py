"""Spans that come after their trace was mapped: its queries are restated, and counted once."""

import json

import pytest

from ragmon.daemon.erasure.blocks import BlockEraser, ErasureCounts, owned
from ragmon.privacy.erasure import Subject
from ragmon.records import Feedback
from ragmon.sources import Submission
from ragmon.windows.series import SeriesKey
from tests.support.otlp import NOW, TRACE, as_json, rig, span
from tests.support.otlp_spans import KIND

ID = TRACE.hex()
SECOND = 10**9
JSON = {"content_type": "application/json"}
ASKED = {KIND: "CHAIN", "input.value": "What is the fee?", "output.value": "Ten euros."}
FOUND = {
    KIND: "RETRIEVER",
    "input.value": "fee",
    "retrieval.documents.0.document.id": "d1",
    "retrieval.documents.0.document.score": 0.9,
}
ROOT = span(1, 0, ASKED, end_ns=int(NOW * 1e9) + 70 * SECOND)
SEARCH = span(2, 1, FOUND)
MODEL = {KIND: "LLM", "llm.model_name": "gpt-4o", "llm.token_count.completion": 7}


@pytest.fixture
def site(tmp_path):
    with rig(tmp_path) as built:
        yield built


def send(site, *spans, service=""):
    body = json.loads(as_json(*spans))
    named = {"key": "service.name", "value": {"stringValue": service}}
    body["resourceSpans"][0]["resource"] = {"attributes": [named] if service else []}
    assert site.send(json.dumps(body).encode(), **JSON).status == 200


def test_an_answer_of_seventy_seconds_is_not_one_of_ten_milliseconds(site):
    """The root ends, and is exported, more than ``otlp.idle_timeout`` after the retrieval."""
    send(site, SEARCH)
    site.wait(61.0)
    assert site.record(ID).answer is None
    send(site, ROOT)
    site.wait(11.0)
    query = site.query(ID)
    assert query["record"]["answer"] == "Ten euros."
    assert query["record"]["latency_ms"]["total"] == pytest.approx(70_000, rel=1e-3)
    assert query["signals"]["slow"] == 1.0
    assert (site.stored(), site.pending()) == (1, 0)


@pytest.mark.parametrize("days", [200, -3])
def test_a_clock_that_is_set_before_a_trace_is_complete_loses_no_query(site, days):
    """The spans are acknowledged; what they say of their time was true then."""
    send(site, ROOT)
    site.clock.step(days * 86_400.0)
    site.wait(61.0)
    assert site.record(ID).answer == "Ten euros."
    assert (site.stored(), site.pending()) == (1, 0)


@pytest.mark.parametrize("days", [8, 200, -3])
def test_a_restart_under_a_wrong_clock_loses_no_query(tmp_path, days):
    """The newest query tells what the clock said when the spans were acknowledged."""
    with rig(tmp_path) as before:
        other = span(1, 0, ASKED, trace_id=bytes(15) + b"\x02")
        send(before, other)
        before.wait(11.0)
        assert before.stored() == 1
        send(before, ROOT)
    with rig(tmp_path, now=NOW + days * 86_400.0) as after:
        after.wait(61.0)
        assert after.record(ID).answer == "Ten euros."
        assert (after.stored(), after.pending()) == (2, 0)


def test_windows_and_counters_tell_of_the_whole_trace(site):
    send(site, SEARCH)
    site.wait(61.0)
    send(site, ROOT)
    site.wait(11.0)
    windows = site.engine.windows
    columns = [column.key for column in windows.columns]
    merged = site.engine.thread.ask(lambda: windows.merge(3_600.0, NOW + 100.0))
    slow = windows.row_layout.sum.start + columns.index("slow")
    at = windows.series.keys[SeriesKey("default")]
    assert merged.rows[at][slow] == 1.0
    assert merged.rows[at][windows.row_layout.queries] == 1.0
    assert merged.latency[at, 0].sum() == 1  # and not both of them


def test_the_retrieval_of_another_service_is_not_lost(site):
    """SDKs export every five seconds, each service for itself."""
    send(site, ROOT, service="shop")
    site.wait(11.0)
    assert site.record(ID).chunks is None
    send(site, SEARCH, service="search")
    site.wait(11.0)
    record = site.record(ID)
    assert [chunk.id for chunk in record.chunks] == ["d1"]
    assert record.pipeline == "shop"
    assert site.source.worker.assembly.counts.late == 1
    assert site.source.worker.assembly.counts.restated == 1


def test_with_the_default_times_two_services_are_mapped_once(site):
    send(site, ROOT)
    site.wait(6.0)
    send(site, SEARCH)
    site.wait(11.0)
    assert [chunk.id for chunk in site.record(ID).chunks] == ["d1"]
    assert site.source.worker.assembly.counts.late == 0


def test_time_and_series_of_a_query_stay_those_it_was_counted_in(site):
    send(site, SEARCH, service="search")
    site.wait(61.0)
    first = site.record(ID)
    send(site, span(1, 0, ASKED, start_ns=SEARCH.start_ns - 5 * SECOND), service="shop")
    site.wait(11.0)
    record = site.record(ID)
    assert (record.timestamp, record.pipeline) == (first.timestamp, "search")
    assert record.latency_ms.total > 5_000


def test_a_query_keeps_its_id_when_another_turns_up_in_its_trace(site):
    send(site, ROOT, SEARCH)
    site.wait(11.0)
    send(site, span(5, 0, ASKED | {"input.value": "And then?"}), span(6, 5, FOUND))
    site.wait(11.0)
    assert site.record(ID).query == "What is the fee?"
    assert site.record(f"{ID}:{5:016x}").query == "And then?"
    assert site.stored() == 2


def test_queries_that_turn_out_to_be_one_are_counted(site):
    orphans = [span(n, 90 + n, ASKED | {"input.value": f"Part {n}?"}) for n in (1, 2)]
    steps = [step for n in (1, 2) for step in (span(10 + n, n, FOUND), span(20 + n, n, MODEL))]
    send(site, *orphans, *steps)
    site.wait(61.0)
    assert site.stored() == 2
    send(site, span(91, 99), span(92, 99), span(99, 0, ASKED))
    site.wait(11.0)
    assert site.stored() == 2
    assert site.counters.counts["otlp", "merged"] == 1
    assert site.record(f"{ID}:{1:016x}").query == "What is the fee?"


def test_feedback_outlives_a_restatement(site):
    send(site, ROOT)
    site.wait(11.0)
    liked = Feedback(query_id=ID, rating=1.0, timestamp=NOW)
    site.engine.writer.submit(Submission("http", 1, lambda _: None, changes=[liked]))
    send(site, SEARCH)
    site.wait(11.0)
    assert site.query(ID)["feedback"]["rating"] == 1.0
    assert site.record(ID).chunks


def test_feedback_is_read_once_of_each_span(site):
    said = {KIND: "EVALUATOR", "trace.annotations.0.annotation.name": "liked",
            "trace.annotations.0.annotation.score": 1,
            "trace.annotations.0.annotation.annotator_kind": "HUMAN"}  # fmt: skip
    send(site, ROOT, span(8, 1, said))
    site.wait(11.0)
    send(site, SEARCH)
    site.wait(11.0)
    assert site.query(ID)["feedback"]["rating"] == 1.0
    assert ("otlp", "duplicate") not in site.counters.counts


def test_what_an_exporter_repeats_changes_nothing(site):
    send(site, ROOT, SEARCH)
    site.wait(11.0)
    send(site, ROOT, SEARCH)
    site.wait(11.0)
    assert site.source.worker.assembly.counts.restated == 0
    assert site.counters.counts["otlp_spans", "duplicate"] == 2
    assert (site.stored(), site.pending()) == (1, 0)


def test_a_kill_between_the_halves_loses_nothing(tmp_path):
    with rig(tmp_path) as site:
        send(site, SEARCH)
        site.wait(61.0)
        send(site, ROOT)
        site.source.worker.step()
        assert site.pending() == 1
    with rig(tmp_path) as site:  # nothing was told that it ends
        site.wait(61.0)
        assert site.record(ID).answer == "Ten euros."
        assert (site.stored(), site.pending()) == (1, 0)


def test_a_restart_counts_a_restated_query_as_before(tmp_path):
    with rig(tmp_path) as site:
        send(site, SEARCH)
        site.wait(61.0)
        send(site, ROOT)
        site.wait(11.0)
        merged = site.engine.thread.ask(lambda: site.engine.windows.merge(3_600.0, NOW + 100.0))
    with rig(tmp_path) as site:
        site.engine.thread.ask(site.engine.restore)
        again = site.engine.thread.ask(lambda: site.engine.windows.merge(3_600.0, NOW + 100.0))
    assert merged.latency.sum() == again.latency.sum() > 0
    assert (merged.latency == again.latency).all()
    assert (merged.rows == again.rows).all()


def test_an_hour_later_spans_still_count_and_then_they_are_refused_with_a_reason(site):
    send(site, ROOT)
    site.wait(11.0)
    site.wait(3_580.0)
    send(site, SEARCH)
    site.wait(11.0)
    assert site.record(ID).chunks
    site.wait(3_700.0)
    send(site, span(3, 1, MODEL))
    site.wait(61.0)
    assert site.record(ID).model is None
    assert site.counters.counts["otlp_spans", "too_late"] == 1
    assert site.source.worker.assembly.counts.too_late == 1
    assert (site.stored(), site.pending()) == (1, 0)


def test_spans_that_are_kept_take_no_more_disk_than_is_allowed(site):
    def trace(number):
        attributes = ASKED | {"output.value": "".join(f"{number * at:x}" for at in range(9_000))}
        return span(1, 0, attributes, trace_id=number.to_bytes(16, "big"))

    for number in range(1, 6):
        send(site, trace(number))
        site.wait(11.0)
    spans = site.engine.shard.spans()
    kept = site.engine.thread.ask(spans.traces)
    assert len(kept) == 5
    assert site.engine.thread.ask(lambda: spans.close(0.0, 40_000, 1_000)) == 3
    assert [each[-1] for each in site.engine.thread.ask(spans.traces)] == [4, 5]
    assert site.engine.thread.ask(lambda: spans.close(0.0, 40_000, 1_000)) == 0


def test_what_is_erased_does_not_come_back_with_a_later_span(site):
    user = {"user.id": "eve"}
    send(site, span(1, 0, ASKED | user))
    site.wait(11.0)
    future = site.source.worker.erase(Subject(kind="user", id="eve"), dry_run=False)
    site.source.worker._erase_all()
    assert future.result() == [TRACE]
    assert site.engine.thread.ask(site.engine.shard.spans().traces) == []
    send(site, SEARCH)
    site.wait(61.0)
    assert site.record(ID).chunks is None
    assert site.counters.counts["otlp_spans", "too_late"] == 1


def test_a_trace_that_comes_apart_for_an_hour_is_one_query(site):
    """Restating as often as spans come ends at the query of the whole, whatever the order."""
    steps = [ROOT, SEARCH, span(3, 1, MODEL), span(4, 1, FOUND), span(5, 1)]
    for each in reversed(steps):
        send(site, each)
        site.wait(70.0)
    apart = site.record(ID)
    with rig(site.engine.store._db.path.parent / "at-once") as other:
        send(other, *steps)
        other.wait(11.0)
        whole = other.record(ID)
    assert apart.chunks == whole.chunks
    assert (apart.query, apart.answer, apart.model) == (whole.query, whole.answer, whole.model)
    assert apart.latency_ms == whole.latency_ms
    assert site.stored() == 1


def test_a_user_who_was_named_late_is_erased(site):
    send(site, SEARCH)
    site.wait(61.0)
    send(site, span(1, 0, ASKED | {"user.id": "eve"}))
    site.wait(11.0)
    assert site.record(ID).user_id == "eve"
    eraser, counts = BlockEraser(site.engine), ErasureCounts()
    list(eraser.erase(owned(Subject(kind="user", id="eve")), counts))
    assert counts.records == 1
    record = site.query(ID)["record"]
    assert record["query_id"].startswith("erased:")
    assert "user_id" not in record
    assert "answer" not in record
    assert record["latency_ms"]["total"] > 0
