"""Outlook of a store: growth, the size at which it levels off, days until it is full."""

import pytest

from ragmon.stores import BlockTimes
from ragmon.stores.outlook import store_outlook

DAY = 86_400.0
NOW = 100 * DAY


def blocks(days: int, a_day: int) -> list[BlockTimes]:
    """A block for each of the last days."""
    return [
        BlockTimes(at * a_day, a_day, NOW - (days - at) * DAY, NOW - (days - at - 1) * DAY - 1.0)
        for at in range(days)
    ]


def outlook(stored, size=0, limit=10**9, retention_days=30):
    return store_outlook(stored, size, limit, retention_s=retention_days * DAY, now=NOW)


def test_a_store_that_grows_beyond_its_limit_has_days_left():
    seen = outlook(blocks(10, 1_000), size=1_000_000, limit=2_000_000)
    assert (seen.records, seen.oldest_at) == (10_000, NOW - 10 * DAY)
    assert seen.bytes_a_day == pytest.approx(100_000)
    assert seen.level_bytes == pytest.approx(3_000_000)
    assert seen.days_left == pytest.approx(10.0)


def test_one_that_levels_off_below_its_limit_has_none():
    seen = outlook(blocks(10, 1_000), size=1_000_000, limit=3_100_000)
    assert seen.level_bytes == pytest.approx(3_000_000)
    assert seen.days_left is None


def test_a_full_one_has_no_day_left():
    assert outlook(blocks(10, 1_000), size=1_000_000, limit=900_000).days_left == 0.0


def test_without_a_known_limit_only_its_level_is_known():
    seen = outlook(blocks(10, 1_000), size=1_000_000, limit=None)
    assert seen.level_bytes == pytest.approx(3_000_000)
    assert (seen.limit_bytes, seen.days_left) == (None, None)


def test_traffic_that_began_today_counts_by_its_hours():
    stored = [BlockTimes(0, 500, NOW - DAY / 4, NOW - 1.0)]
    seen = outlook(stored, size=50_000)
    assert seen.bytes_a_day == pytest.approx(200_000)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param([], id="an empty store"),
        pytest.param([BlockTimes(0, 9, NOW - 60.0, NOW)], id="less than an hour of traffic"),
    ],
)
def test_nothing_is_projected_from_too_little(stored):
    seen = outlook(stored, size=4_096)
    assert (seen.bytes_a_day, seen.level_bytes, seen.days_left) == (None, None, None)


def test_a_store_whose_traffic_ended_does_not_fill():
    stored = [BlockTimes(0, 9, NOW - 9 * DAY, NOW - 8 * DAY)]
    seen = outlook(stored, size=4_096, limit=5_000)
    assert (seen.bytes_a_day, seen.days_left) == (0.0, None)
