"""Durations as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.config.units import seconds
from ragmon.durations import duration_text, rounded_duration_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [(300, "5m"), (3_600, "1h"), (86_400, "24h"), (604_800, "7d"), (90, "90s"), (0.5, "0.5s")],
)
def test_duration_text(value, expected):
    assert duration_text(value) == expected


@given(st.integers(1, 10**8))
def test_duration_text_is_read_back(value):
    assert seconds(duration_text(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.4, "0s"), (119.9, "119s"), (120.0, "2m"), (301.5, "5m"), (90_000, "25h"), (1e7, "115d")],
)
def test_rounded_duration_text(value, expected):
    assert rounded_duration_text(value) == expected
