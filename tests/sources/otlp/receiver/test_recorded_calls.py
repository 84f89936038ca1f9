"""A model call that two instrumentations recorded is one query, also in two traces."""

import pytest

from ragmon.sources.otlp.spans import Resource, pack
from tests.support.otlp import NOW, rig, span
from tests.support.otlp_spans import OP, record_of, root

USAGE = {
    "gen_ai.request.model": "mistral-small",
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 7,
}
OUTER = USAGE | {
    OP: "chat",
    "gen_ai.response.id": "r-1",
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"What is it?"}]}]',
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Ten."}]}]',
}
INNER = USAGE | {"gen_ai.provider.name": "mistral_ai"}
MS = 1_000_000


def traced(number, attributes, scope, *, begin_ms=0, lasts_ms=20, **given):
    """A trace of one call."""
    start_ns = int(NOW * 1e9) - 60_000 * MS + begin_ms * MS
    return span(
        number,
        0,
        attributes,
        trace_id=number.to_bytes(16, "big"),
        start_ns=start_ns,
        end_ns=start_ns + lasts_ms * MS,
        scope=scope,
        **given,
    )


def outer(number=1, attributes=OUTER, **given):
    return traced(number, attributes, "opentelemetry.instrumentation.mistralai", **given)


def inner(number=2, attributes=INNER, **given):
    given = {"begin_ms": 5, "lasts_ms": 10} | given
    return traced(number, attributes, "mistralai_sdk_tracer", **given)


@pytest.fixture
def site(tmp_path):
    with rig(tmp_path) as built:
        yield built


def deliver(site, *spans):
    """Spans become durable, and their traces are mapped."""
    parts = pack(spans)
    site.engine.thread.ask(lambda: site.engine.shard.spans().append(parts))
    site.source.worker.deliver(parts)
    site.wait()


def left_out(site):
    return site.source.worker.assembly.counts.without_query.get("recorded_twice", 0)


def test_two_spans_of_one_call_count_its_tokens_once():
    first = span(2, 1, OUTER, scope="a", end_ns=int(NOW * 1e9) + 30 * MS)
    second = span(3, 1, INNER, scope="b")
    tokens = record_of(root(), first, second).tokens
    assert (tokens.prompt, tokens.completion) == (11, 7)
    later = span(40, 1, INNER, scope="b")
    assert record_of(root(), first, later).tokens.completion == 14
    other = span(3, 1, INNER | {"gen_ai.usage.output_tokens": 8}, scope="b")
    assert record_of(root(), first, other).tokens.completion == 15


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([outer(), inner()], id="the outer one first"),
        pytest.param([inner(), outer()], id="the inner one first"),
        pytest.param([inner(), outer(attributes=USAGE | {OP: "chat"})], id="both without content"),
    ],
)
def test_two_traces_of_one_call_are_one_query(site, spans):
    deliver(site, *spans)
    assert (site.stored(), left_out(site)) == (1, 1)
    assert site.query((1).to_bytes(16, "big").hex())


def test_a_call_that_is_mapped_a_little_later_is_known_as_well(site):
    deliver(site, outer())
    deliver(site, inner())
    assert (site.stored(), left_out(site)) == (1, 1)
    deliver(site, inner())
    assert (site.stored(), left_out(site)) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(inner(begin_ms=30), id="at another time"),
        pytest.param(
            inner(attributes=INNER | {"gen_ai.usage.output_tokens": 8}), id="other tokens"
        ),
        pytest.param(inner(attributes=INNER | {"gen_ai.request.model": "b"}), id="another model"),
        pytest.param(inner(resource=Resource("another")), id="another service"),
        pytest.param(outer(2, begin_ms=5, lasts_ms=10), id="the same instrumentation"),
        pytest.param(inner(attributes=OUTER | {"gen_ai.response.id": "r-2"}), id="with content"),
    ],
)
def test_other_calls_are_queries_of_their_own(site, other):
    deliver(site, outer(), other)
    assert (site.stored(), left_out(site)) == (2, 0)
