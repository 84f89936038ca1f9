"""Ticks are round, cover the data and say their unit; times are round in UTC."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.charts import axes
from ragmon.charts.frame import Frame
from ragmon.charts.units import value_text

NOON = 1_795_176_000.0  # Friday 20 November 2026, 12:00 UTC


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.integers(2, 9))
def test_numbers_cover_the_data_with_round_ticks(first, span, most):
    last = first + span
    axis = axes.numbers(first, last, "count", most=most)
    assert axis.first <= first + 1e-6 * span
    assert axis.last >= last - 1e-6 * span
    assert 2 <= len(axis.ticks) <= most + 3
    steps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(axis.ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3, abs=1e-6 * abs(first))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e-9])
def test_a_single_value_has_an_axis(value):
    axis = axes.numbers(value, value, "score")
    assert axis.first <= value <= axis.last
    assert axis.first < axis.last


def test_ratios_are_drawn_from_nothing_to_all_unless_all_are_low():
    assert axes.ratios([0.82, 0.9]).last == 1.0
    assert axes.ratios([]).last == 1.0
    assert axes.ratios([0.021, 0.034]).last == pytest.approx(0.04)
    assert axes.ratios([0.0]).last == pytest.approx(0.01)


@given(st.floats(0, 4e9), st.floats(1, 400 * 86_400), st.integers(2, 12))
def test_times_have_few_ticks_that_lie_within(first, span, most):
    axis = axes.times(first, first + span, most=most)
    assert len(axis.ticks) <= most + 1
    assert all(first - 1 <= at <= first + span + 1 for at, _ in axis.ticks)
    places = [axis.share(at) for at, _ in axis.ticks]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (300, ["Nov 20 11:55", "11:56", "11:57", "11:58", "11:59", "12:00"]),
        (86_400, ["Nov 19 12:00", "18:00", "Nov 20", "06:00", "12:00"]),
        (7 * 86_400, ["Nov 15", "Nov 17", "Nov 19"]),
        (60 * 86_400, ["Sep 28", "Oct 12", "Oct 26", "Nov 9"]),
    ],
)
def test_times_are_round_and_the_first_says_its_day(span, expected):
    assert [text for _, text in axes.times(NOON - span, NOON, most=6).ticks] == expected


def test_a_week_begins_on_monday():
    at, text = axes.times(NOON - 60 * 86_400, NOON).ticks[-1]
    assert (at // 86_400 + 3) % 7 == 0  # 1 January 1970 was a Thursday
    assert text == "Nov 9"


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.8234, "ratio", "82.3 %"),
        (1.0, "ratio", "100 %"),
        (0.0, "ratio", "0 %"),
        (0.0004, "ratio", "0.04 %"),
        (0.00025, "seconds", "250 µs"),
        (0.8, "seconds", "800 ms"),
        (1.25, "seconds", "1.25 s"),
        (600, "seconds", "10 min"),
        (36_000, "seconds", "10 h"),
        (0, "seconds", "0 s"),
        (12, "count", "12"),
        (1_234_567, "count", "1.23 M"),
        (45_600, "count", "45.6 k"),
        (2e9, "count", "2 G"),
        (0.123456, "score", "0.123"),
        (3.5, "dollars", "$3.5"),
        (math.nan, "ratio", "no samples"),
    ],
)
def test_values_are_told_with_their_unit(value, unit, expected):
    assert value_text(value, unit) == expected


def test_ticks_tell_their_moment_where_they_tell_the_time_of_day():
    assert axes.times(NOON - 86_400, NOON).has_clock
    assert not axes.times(NOON - 7 * 86_400, NOON).has_clock
    hours = Frame.around(axes.times(NOON - 86_400, NOON), axes.ratios([0.5]), (560, 200)).axes()
    assert f'data-at="{NOON:.0f}"' in hours
    days = Frame.around(axes.times(NOON - 7 * 86_400, NOON), axes.ratios([0.5]), (560, 200)).axes()
    assert "data-at" not in days
