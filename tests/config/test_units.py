"""Durations and sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.config.units import listed, seconds, size, size_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15s", 15),
        ("15", 15),
        ("5m", 300),
        ("24h", 86_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("1.5h", 5_400),
        ("250ms", 0.25),
        (" 90 s ", 90),
        (90, 90),
        (0.5, 0.5),
    ],
)
def test_durations(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500", 500),
        ("500B", 500),
        ("1kB", 1_000),
        ("20GB", 20_000_000_000),
        ("20gb", 20_000_000_000),
        ("512MiB", 512 << 20),
        ("1.5KiB", 1_536),
        ("1TB", 10**12),
        (4096, 4096),
    ],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "-5s", "5 years", "5M", "1h30m", "1e3s", "٣s", "5s\n5s"]
)
def test_what_is_no_duration_says_how_to_write_one(text):
    with pytest.raises(ValueError, match="15s, 5m, 24h or 7d"):
        seconds(text)


@pytest.mark.parametrize("text", ["", "big", "-5MB", "5 GX", "1e9", "5MBit"])
def test_what_is_no_size_says_how_to_write_one(text):
    with pytest.raises(ValueError, match="500MB, 20GB or 512MiB"):
        size(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (32 << 20, "32MiB"),
        (65_536, "64KiB"),
        (20 * 10**9, "20GB"),
        (1 << 40, "1TiB"),
        (4_001, "4001B"),
    ],
)
def test_size_text(value, expected):
    assert size_text(value) == expected


@given(st.integers(1, 10**15))
def test_size_text_is_read_back(value):
    assert size(size_text(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5m,1h", ["5m", "1h"]),
        (" 5m , 1h ,", ["5m", "1h"]),
        ("", []),
        (5, [5]),
        (["5m"], ["5m"]),
    ],
)
def test_lists_in_one_string(value, expected):
    assert listed(value) == expected
