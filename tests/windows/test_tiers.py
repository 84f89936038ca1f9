"""Any stretch of time is covered by buckets that exist, each second once."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragmon.windows.tiers import DAY_S, HOUR_S, MINUTE_S, cover, tiers_for

WEEK = tiers_for(7 * DAY_S)
MONTH = tiers_for(30 * DAY_S)
NOON = 1_700_049_600
NOW = NOON + 34 * 60 + 50.0


def stretches(tiers, runs):
    """(start, end) of each run in seconds, in the order of time."""
    widths = [tiers[run.tier].width_s for run in runs]
    return sorted(
        (run.first * width, (run.first + run.length) * width)
        for run, width in zip(runs, widths, strict=True)
    )


def holding(tiers, moment, now):
    """The finest tier that surely holds a moment, whose newest bucket has only begun."""
    held = (tier for tier in tiers if moment > now - tier.width_s * (tier.slots - 1))
    return next(held, tiers[-1])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(40, [(10, "34:10", "34:50")], id="ten seconds wide when it is short"),
        pytest.param(
            300,
            [(10, "29:50", "30:00"), (60, "30:00", "34:00"), (10, "34:00", "34:50")],
            id="whole minutes in the middle of five",
        ),
        pytest.param(
            HOUR_S,
            [
                (60, "-26:00", "-20:00"),
                (600, "-20:00", "0:00"),
                (600, "0:00", "30:00"),
                (60, "30:00", "34:00"),
                (10, "34:00", "34:50"),
            ],
            id="an hour starts at a whole minute, because ten seconds are kept for 15 minutes",
        ),
        pytest.param(
            DAY_S,
            [
                (600, "-1410:00", "-1380:00"),
                (3600, "-1380:00", "0:00"),
                (600, "0:00", "30:00"),
                (60, "30:00", "34:00"),
                (10, "34:00", "34:50"),
            ],
            id="a day starts at whole ten minutes, with whole hours in its middle",
        ),
        pytest.param(
            7 * DAY_S,
            [
                (3600, "-10080:00", "0:00"),
                (600, "0:00", "30:00"),
                (60, "30:00", "34:00"),
                (10, "34:00", "34:50"),
            ],
            id="a week starts at a whole hour",
        ),
    ],
)
def test_runs(window, expected):
    def seconds(text):
        minutes, rest = text.split(":")
        return NOON + int(minutes) * 60 + int(rest)

    found = [
        (WEEK[run.tier].width_s, *stretches(WEEK, [run])[0])
        for run in cover(WEEK, NOW - window, NOW, NOW)
    ]
    assert found == [(width, seconds(start), seconds(end)) for width, start, end in expected]


@settings(deadline=None)
@given(
    tiers=st.sampled_from([WEEK, MONTH]),
    now=st.floats(1.6e9, 1.8e9),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    exact=st.sampled_from([0.0, 890.0, 5_940.0, 89_400.0]),
)
@example(tiers=WEEK, now=1.7e9, shares=(0.0, 1.0), exact=0.0)
@example(tiers=WEEK, now=1.7e9, shares=(0.0, 0.0), exact=0.0)
def test_every_second_is_covered_once_by_buckets_that_are_held(tiers, now, shares, exact):
    longest = tiers[-1].width_s * (tiers[-1].slots - 1) - exact
    # Ages on a steep scale, because the narrow buckets are the newest.
    end, start = (now + 10 - exact - share**4 * longest for share in shares)
    runs = cover(tiers, start, end, now)
    found = stretches(tiers, runs)
    if not found:
        assert start == end
        return
    assert found[0][0] <= start
    assert found[-1][1] >= end
    assert all(before[1] == after[0] for before, after in itertools.pairwise(found))
    assert start - found[0][0] < holding(tiers, start, now).width_s
    assert found[-1][1] - end < holding(tiers, end - HOUR_S, now).width_s
    for run in runs:
        width, slots = tiers[run.tier]
        assert run.first > now // width - slots, "the ring may have overwritten it"


def test_now_is_rounded_to_ten_seconds():
    for now in (NOW, NOW + 0.1, NOW + 9.9):
        assert stretches(WEEK, cover(WEEK, now - 300, now, now))[-1][1] - now < 10


@settings(deadline=None)
@given(now=st.floats(1.6e9, 1.8e9), share=st.floats(0, 1))
def test_a_week_costs_few_cells(now, share):
    runs = cover(WEEK, now - 10 - share * 7 * DAY_S, now, now)
    assert sum(run.length for run in runs) <= 5 + 9 + 5 + 8 * 24 + 5 + 9 + 6


@pytest.mark.parametrize("longest", [300.0, 7 * DAY_S, 8 * DAY_S, 30 * DAY_S, 90 * DAY_S])
def test_the_longest_window_is_kept_and_a_day_more(longest):
    tiers = tiers_for(longest)
    assert [tier.width_s for tier in tiers] == [10, MINUTE_S, 10 * MINUTE_S, HOUR_S]
    assert tiers[-1].width_s * tiers[-1].slots >= longest + DAY_S
    for fine, coarse in itertools.pairwise(tiers):
        assert coarse.width_s % fine.width_s == 0
        assert coarse.width_s * coarse.slots > fine.width_s * fine.slots
        assert fine.width_s * fine.slots >= 3 * coarse.width_s  # room at the edges


def test_nothing_covers_nothing():
    assert cover(WEEK, NOW // 10 * 10, NOW // 10 * 10, NOW) == []
