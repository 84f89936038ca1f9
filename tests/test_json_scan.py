"""Counts in JSON without decoding it: as many as the decoder finds, whatever the texts hold."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon import json_scan
from ragmon.json_scan import count_byte, count_elements, count_objects, count_values

MANY = 1 << 40
TRICKY = st.text('ab"\\\\,[]{}\n', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=30,
)


def objects(value, depth: int) -> int:
    """The objects at a depth, by walking through the value."""
    if isinstance(value, dict):
        return (depth == 1) + sum(objects(each, depth - 1) for each in value.values())
    return sum(objects(each, depth - 1) for each in value) if isinstance(value, list) else 0


@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(1, 9))
def test_counts_are_those_of_the_decoder(values, stretch):
    text = msgspec.json.encode(values)
    whole = json_scan._STRETCH
    json_scan._STRETCH = stretch
    try:
        assert count_elements(text, MANY) == len(values)
        assert [count_objects(text, depth, MANY) for depth in (1, 2, 3)] == [
            objects(values, depth) for depth in (1, 2, 3)
        ]
        assert count_byte(text, b",") == text.count(b",")
    finally:
        json_scan._STRETCH = whole


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        pytest.param(b"[" + b"1," * 999 + b"1]", 1_000, id="numbers"),
        pytest.param(b"[" + b"{}, \n" * 999 + b"{}]", 1_000, id="objects"),
        pytest.param(b'["' + b"," * 999 + b'"]', 1, id="commas of a text"),
        pytest.param(b'["' + b'\\",' * 999 + b'"]', 1, id="commas after escaped quotes"),
        pytest.param(b"[[" + b"1," * 999 + b"1]]", 1, id="commas of an inner array"),
        pytest.param(b"[[[", 1, id="no JSON at all"),
    ],
)
def test_count_elements(text, counted):
    assert count_elements(text, MANY) == counted


def test_counting_ends_soon_beyond_the_limit():
    assert 10 < count_elements(b"[" + b"1," * (1 << 20), 10) <= json_scan._STRETCH


@given(
    st.recursive(
        st.integers() | st.sampled_from(["", "a,b", 'quoted "[x]"', "back\\", "{"]),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\"'), inner),
        max_leaves=60,
    ),
    st.integers(1, 9),
)
def test_values_are_counted_outside_of_texts(value, stretch):
    def counted(value) -> int:
        if isinstance(value, list):
            return 1 + sum(map(counted, value))
        if isinstance(value, dict):
            return 1 + len(value) + sum(map(counted, value.values()))
        return isinstance(value, str)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scan, "_STRETCH", stretch)
        patch.setattr(json_scan, "_COMMAS_EACH", 1 << 30)
        found = count_values(msgspec.json.encode(value), 1 << 30)
    assert abs(found - counted(value)) <= _halves(value, stretch)


def _halves(value, stretch: int) -> int:
    """Quotes that stretches part from the other end of their text: half a text each."""
    return len(msgspec.json.encode(value)) // stretch + 1


def test_twenty_numbers_count_as_one_value():
    assert count_values(b"[" + b"1," * 100_000 + b"1]", 1 << 30) == 5_000
