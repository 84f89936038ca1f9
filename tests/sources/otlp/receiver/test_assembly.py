"""When traces are complete: pure, with time passed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.sources.otlp.receiver.assembly import Assembly, TraceSizes, TraceTimeouts
from ragmon.sources.otlp.spans import DecodedSpans
from ragmon.stores.protocols import SpanRow

TIMEOUTS = TraceTimeouts(linger_s=2.0, idle_s=60.0, longest_s=900.0)
TRACE = b"t" * 16


def part(trace_id=TRACE, spans=1, has_entry=False, body=b"body"):
    return SpanRow(trace_id, spans, has_entry, body)


def reasons(assembly, now):
    return [each.reason for each in assembly.due(now)]


@pytest.mark.parametrize(
    ("arrivals", "complete_at", "reason"),
    [
        pytest.param([(0.0, True)], 2.0, "root", id="root alone"),
        pytest.param([(0.0, False), (1.0, True)], 3.0, "root", id="children before the root"),
        pytest.param([(0.0, True), (1.5, False)], 3.5, "root", id="a child while it lingers"),
        pytest.param([(0.0, False), (50.0, True)], 52.0, "root", id="a late root"),
        pytest.param([(0.0, False), (59.0, False)], 119.0, "idle", id="no root at all"),
    ],
)
def test_when_a_trace_is_complete(arrivals, complete_at, reason):
    assembly = Assembly(TIMEOUTS)
    for now, has_entry in arrivals:
        assert reasons(assembly, now) == []
        assembly.add(part(has_entry=has_entry), now)
    assert reasons(assembly, complete_at - 0.01) == []
    assert reasons(assembly, complete_at) == [reason]
    assert reasons(assembly, complete_at + 1e6) == []
    assert len(assembly) == 0


def test_a_trace_that_never_rests_ends_all_the_same():
    assembly = Assembly(TIMEOUTS)
    for second in range(901):
        assembly.add(part(), float(second))
        assert reasons(assembly, float(second)) == []
    assembly.add(part(), 901.0)
    assert reasons(assembly, 901.0) == ["long"]


def test_a_trace_with_too_many_spans_is_taken_as_complete():
    assembly = Assembly(TraceTimeouts(most_spans=10))
    assembly.add(part(spans=11), 0.0)
    assert reasons(assembly, 0.0) == ["many"]


def test_a_trace_with_later_spans_is_complete_again_with_its_root_and_all_that_is_stored():
    assembly = Assembly(TIMEOUTS)
    assembly.add(part(has_entry=True), 0.0)
    assembly.due(2.0)
    assembly.add(part(spans=3), 3.0)
    assert (assembly.spans_of(TRACE), len(assembly)) == (4, 1)
    assert [(each.reason, each.bodies) for each in assembly.due(5.0)] == [("root", None)]


def test_spans_of_a_mapped_trace_count_towards_its_most():
    assembly = Assembly(TraceTimeouts(most_spans=10, linger_s=2.0))
    assembly.add(part(spans=8, has_entry=True), 0.0)
    assembly.due(2.0)
    decoded = DecodedSpans([])
    assert TraceSizes(assembly).admit([part(spans=3)], decoded) == []
    assert decoded.refused == {"trace_too_large": 3}


def test_no_time_is_shorter_than_what_sdks_wait_by_default():
    defaults = TraceTimeouts()
    assert defaults.linger_s > 5.0  # OTEL_BSP_SCHEDULE_DELAY
    assert defaults.idle_s > 5.0 + 30.0  # and OTEL_BSP_EXPORT_TIMEOUT
    assert defaults.late_s >= 3_600.0


def test_too_many_traces_complete_the_oldest_without_a_root_first():
    assembly = Assembly(TraceTimeouts(most_traces=2))
    for number, has_entry in enumerate([True, False, False]):
        assembly.add(part(bytes([number]) * 16, has_entry=has_entry), float(number) / 10)
    (evicted,) = assembly.due(0.3)
    assert (evicted.trace_id[0], evicted.reason) == (1, "evicted")
    assert assembly.counts.complete == {"evicted": 1}


def test_bodies_beyond_the_limit_are_left_to_the_store():
    assembly = Assembly(TraceTimeouts(kept_bytes=10))
    for number in range(3):
        assembly.add(part(bytes([number]) * 16, has_entry=True), 0.0)
    assert assembly.kept_bytes == 8
    assert [each.bodies for each in assembly.due(10.0)] == [None, (b"body",), (b"body",)]
    assert assembly.kept_bytes == 0


def test_after_a_restart_the_store_has_the_bodies():
    assembly = Assembly(TIMEOUTS)
    assembly.restore(TRACE, 3, has_entry=False, now=0.0)
    assembly.add(part(has_entry=True), 1.0)
    (complete,) = assembly.due(3.0)
    assert (complete.bodies, complete.reason) == (None, "root")


def test_what_could_not_be_stored_waits_again():
    assembly = Assembly(TIMEOUTS)
    assembly.add(part(has_entry=True), 0.0)
    (complete,) = assembly.due(2.0)
    assembly.put_back(complete, 2.0)
    assembly.add(part(), 2.5)
    assert [each.bodies for each in assembly.due(4.5)] == [None]


ARRIVALS = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(0, 30)), max_size=60)


@given(ARRIVALS)
def test_every_span_ends_in_a_complete_trace(arrivals):
    assembly = Assembly(TraceTimeouts(linger_s=2.0, idle_s=20.0, most_traces=3, kept_bytes=1 << 20))
    now, unread = 0.0, {}

    def read(complete):
        for each in complete:
            spans = unread.pop(each.trace_id)
            assert each.bodies is None or len(each.bodies) == spans

    for number, has_entry, pause in arrivals:
        now += pause
        read(assembly.due(now))
        trace_id = bytes([number]) * 16
        assembly.add(part(trace_id, has_entry=has_entry), now)
        unread[trace_id] = unread.get(trace_id, 0) + 1
    read(assembly.due(now + 1e6))
    assert unread == {}
    assert (len(assembly), assembly.kept_bytes) == (0, 0)


def test_spans_beyond_the_most_of_a_trace_are_refused_at_the_door():
    assembly = Assembly(TraceTimeouts(most_spans=10))
    assembly.add(SpanRow(b"a", 4, False, b"body"), 0.0)
    sizes, decoded = TraceSizes(assembly), DecodedSpans([])
    parts = [SpanRow(b"a", 4, False, b""), SpanRow(b"b", 10, False, b"")]
    assert sizes.admit(parts, decoded) == parts
    assert sizes.admit([SpanRow(b"a", 3, False, b""), SpanRow(b"b", 1, False, b"")], decoded) == []
    assert sizes.admit([SpanRow(b"a", 2, False, b"")], decoded)
    assert decoded.refused == {"trace_too_large": 4}
