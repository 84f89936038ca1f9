"""An id is found however JSON writes it, and not within another word."""

import json

import pytest

from ragmon.privacy.mentions import Mention

JANE = 'jäne"7'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("jane", True, id="the id itself"),
        pytest.param("mail jane.", True, id="a word of a text"),
        pytest.param("janet", False, id="the beginning of another word"),
        pytest.param("mary-jane", True, id="a part after a hyphen"),
        pytest.param("mjane jane", True, id="a word behind another that ends alike"),
        pytest.param('{"q": "a line\\njane"}', True, id="behind an escaped line break"),
        pytest.param({"jane": 1}, True, id="a key"),
        pytest.param([{"a": ("x", ["jane"])}], True, id="deep in a structure"),
        pytest.param(b"\xa4janet", True, id="bytes, which are searched as they are"),
        pytest.param({"a": "john", "b": 7, "c": None}, False, id="somebody else"),
    ],
)
def test_mention(value, expected):
    assert Mention("jane").is_in(value) is expected


def test_numbers_are_ids_too():
    assert Mention("42").is_in({"user": 42})
    assert not Mention("42").is_in({"user": 421})


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_json_within_json(ascii_only, times):
    text = {"user": JANE}
    for _ in range(times):
        text = json.dumps(text, ensure_ascii=ascii_only)
    assert Mention(JANE).is_in_text(text)
    assert Mention(JANE).is_within(text.encode())
    assert not Mention("john").is_within(text.encode())


def test_a_nest_too_deep_to_search_counts_as_a_mention():
    nest = "john"
    for _ in range(1_000):
        nest = [nest]
    assert Mention("jane").is_in(nest)
