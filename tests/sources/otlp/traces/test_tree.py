"""Trees of spans, whatever their parents say."""

import time

import pytest

from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.traces.tree import build, everything
from tests.support.otlp import span


def chain(length):
    """Spans that each lie under the last, the deepest first."""
    return [span(number, number - 1) for number in range(length, 0, -1)]


def cpu_s(spans):
    began = time.process_time()
    tops = build(spans)
    took = time.process_time() - began
    assert len(everything(tops)) == len(spans)
    return took


def test_a_chain_keeps_its_order():
    (top,) = build(chain(5))
    assert [node.span.span_id[-1] for node in everything([top])] == [1, 2, 3, 4, 5]


def test_deep_chains_cost_linear_time_and_their_walks_are_bounded():
    short, long = chain(2_000), chain(16_000)
    assert cpu_s(long) < 24 * max(cpu_s(short), 0.01)  # quadratic would be sixty-four
    assert max(sum(1 for _ in node.ancestors()) for node in everything(build(long))) == 256


@pytest.mark.parametrize("length", [1, 2, 3, 7, 5_000])
def test_a_circle_is_cut_once(length):
    spans: list[Span] = [span(at + 1, (at + 1) % length + 1) for at in range(length)]
    (top,) = build(spans)
    assert top.span.start_ns == min(each.start_ns for each in spans)
    assert len(everything([top])) == length


def test_branches_that_lead_into_a_circle_stay_on_it():
    spans = [span(1, 2), span(2, 3), span(3, 1), span(4, 3), span(5, 4)]
    assert len(build(spans)) == 1
    assert len(everything(build(spans))) == 5
