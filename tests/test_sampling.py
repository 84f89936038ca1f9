"""Probabilities follow the budget, the doubt and the slices; the draw is the id's own."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.sampling import (
    Forecast,
    Sampler,
    SamplingOptions,
    draw,
    draws,
    inclusion,
    spread,
)

HOUR = 3_600.0
DOCS = [("docs", "")]


def feed(sampler, hours, *, per_minute=60, pace=100.0, doubt=0.2, dims=DOCS, start=0.0):
    """Steady traffic, a batch a minute; returns all probabilities, shape (minutes, per_minute)."""
    index = np.arange(per_minute) % len(dims)
    seen = []
    for minute in range(round(hours * 60)):
        q = np.broadcast_to(np.asarray(doubt, dtype=float), (per_minute,))
        now = start + 60.0 * minute
        seen.append(sampler.probabilities(now, dims, index, q, pace_per_hour=pace))
    return np.array(seen)


def test_the_draw_is_fixed_and_uniform():
    assert draw("query-1") == draws(["query-1"])[0]
    assert draw("query-1") == pytest.approx(
        0.7841559323911349, abs=1e-15
    )  # a change would redraw all
    assert draw("query-1") != draw("query-1", salt=1)
    many = draws([f"q{number}" for number in range(20_000)])
    assert np.all((many >= 0) & (many < 1))
    counts = np.histogram(many, bins=20, range=(0, 1))[0]
    assert np.square(counts - 1_000).sum() / 1_000 < 43.8  # chi squared, 19 degrees, 0.1 %


@pytest.mark.parametrize(
    ("doubt", "base", "expected"),
    [
        pytest.param([0.5, 0.5], 0.1, [0.1, 0.1], id="all alike are drawn alike"),
        pytest.param([0.5, 0.0], 0.1, [0.03 + 0.14, 0.03], id="the certain keep a share"),
        pytest.param([0.5, np.nan], 0.1, [0.1, 0.1], id="an unknown doubt is an average one"),
        pytest.param([0.5, 0.5], 3.0, [1.0, 1.0], id="never above one"),
        pytest.param([0.2, 0.8], 0.1, [0.1, 0.1], id="surely bad is as certain as surely good"),
    ],
)
def test_inclusion(doubt, base, expected):
    s = spread(doubt)
    assert inclusion(s, np.nanmean(s), base) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("per_minute", "pace", "expected"),
    [
        pytest.param(60, 100.0, 100.0, id="much traffic meets the pace"),
        pytest.param(600, 100.0, 100.0, id="ten times the traffic, the same judgements"),
        pytest.param(1, 100.0, 60.0, id="little traffic is judged whole"),
        pytest.param(60, float("inf"), 3_600.0, id="no limit judges everything"),
        pytest.param(60, 0.0, 3.6, id="no budget keeps the least probability"),
    ],
)
def test_judgements_an_hour(per_minute, pace, expected):
    sampler = Sampler(SamplingOptions(slice_per_day=0.0))
    feed(sampler, 3, per_minute=per_minute, pace=pace)
    got = feed(sampler, 1, per_minute=per_minute, pace=pace, start=3 * HOUR)
    assert got.sum() == pytest.approx(expected, rel=0.05)


def test_doubtful_answers_are_drawn_more_often_at_the_same_price():
    sampler = Sampler(SamplingOptions(slice_per_day=0.0))
    doubts = np.where(np.arange(60) % 10 == 0, 0.5, 0.01)
    feed(sampler, 2, doubt=doubts)
    got = feed(sampler, 1, doubt=doubts, start=2 * HOUR)
    assert got.sum() == pytest.approx(100.0, rel=0.05)
    assert got[:, 0].mean() > 2.5 * got[:, 1].mean()


def test_rare_slices_reach_their_floor_within_the_pace():
    sampler = Sampler(SamplingOptions(slice_per_day=240.0))  # ten an hour
    dims = [("docs", "v1")] * 58 + [("docs", "v2"), ("legal", "")]
    feed(sampler, 3, dims=dims)
    got = feed(sampler, 1, dims=dims, start=3 * HOUR)
    assert got[:, 58].sum() == pytest.approx(10.0, rel=0.1)  # 60 an hour arrive
    assert got[:, 59].sum() == pytest.approx(10.0, rel=0.1)
    assert got.sum() == pytest.approx(100.0, rel=0.05)


def test_floors_beyond_the_pace_shrink_together():
    sampler = Sampler(SamplingOptions(slice_per_day=2_400.0))
    dims = [("docs", f"v{number}") for number in range(60)]
    feed(sampler, 3, dims=dims)
    got = feed(sampler, 1, dims=dims, start=3 * HOUR)
    assert got.sum() == pytest.approx(100.0, rel=0.1)


def test_a_tighter_budget_lowers_what_comes_after_it():
    sampler = Sampler(SamplingOptions(slice_per_day=0.0))
    before = feed(sampler, 1)
    after = feed(sampler, 1, pace=10.0, start=HOUR)
    assert after.sum() == pytest.approx(10.0, rel=0.1)
    assert before[-1].sum() == pytest.approx(100 / 60, rel=0.05)


def test_a_burst_draws_no_more_than_there_is_room():
    sampler = Sampler(SamplingOptions(slice_per_day=0.0, least=1e-6))
    feed(sampler, 2, per_minute=1, pace=1_000.0)  # everything was judged
    burst = sampler.probabilities(
        2 * HOUR,
        DOCS,
        np.zeros(50_000, dtype=int),
        np.full(50_000, 0.5),
        pace_per_hour=1_000.0,
        room=40.0,
    )
    assert burst.sum() == pytest.approx(40.0, rel=0.01)


def test_the_first_batch_of_all_is_not_judged_whole():
    got = Sampler(SamplingOptions()).probabilities(
        0.0, DOCS, np.zeros(10_000, dtype=int), np.full(10_000, 0.5), pace_per_hour=100.0
    )
    assert got.sum() < 100.0


def test_a_restart_continues_the_forecast():
    one, other = Sampler(SamplingOptions()), Sampler(SamplingOptions())
    feed(one, 2)
    feed(other, 1)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(other.forecast), type=Forecast)
    other = Sampler(SamplingOptions(), kept)
    feed(other, 1, start=HOUR)
    last = [feed(each, 0.1, start=2 * HOUR) for each in (one, other)]
    assert last[0] == pytest.approx(last[1], rel=1e-3)


def test_slices_that_ended_are_forgotten():
    sampler = Sampler(SamplingOptions())
    feed(sampler, 0.5, dims=[("docs", f"v{number}") for number in range(60)])
    assert len(sampler.forecast.flows) == 62
    feed(sampler, 0.1, start=48 * HOUR)
    assert {key[0] for key, _ in sampler.forecast.flows} == {"", "docs"}
    assert len(sampler.forecast.flows) == 2


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 1e6),
            st.lists(st.floats(0.0, 1.0) | st.just(float("nan")), max_size=20),
            st.floats(0.0, 1e4) | st.just(float("inf")),
            st.floats(0.0, 1e4),
        ),
        max_size=10,
    )
)
def test_probabilities_are_probabilities_whatever_the_clock_and_the_budget_do(batches):
    sampler = Sampler(SamplingOptions())
    for now, doubts, pace, room in batches:
        got = sampler.probabilities(
            now, DOCS, np.zeros(len(doubts), dtype=int), doubts, pace_per_hour=pace, room=room
        )
        assert got.shape == (len(doubts),)
        assert np.all((got > 0.0) & (got <= 1.0))


def test_no_answers_no_probabilities():
    got = Sampler(SamplingOptions()).probabilities(
        0.0, [], np.zeros(0, dtype=int), [], pace_per_hour=1.0
    )
    assert got.shape == (0,)
