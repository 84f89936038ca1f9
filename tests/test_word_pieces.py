"""Texts made alike: the marks that languages use stay, and rows of thousands cost no time."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.daemon.alerting.worst_queries import normalized
from ragmon.word_pieces import compatible, normalised

ROWS = [
    pytest.param("a" + "\u0300\u0327" * 60_000, id="two marks by turns"),
    pytest.param("か" + "\u0300\uff9e" * 60_000, id="a letter that becomes a mark"),
    pytest.param("a" + "\U0001d165\u0300" * 60_000, id="marks beyond the first plane"),
    pytest.param("\u0f73\u0f71" * 60_000, id="a mark that becomes two"),
    pytest.param("a" + "\u0300\u0327" * 15 + "。" + "\u0300\u0327" * 60_000, id="after a stop"),
]


@pytest.mark.parametrize("function", [normalised, normalized])
@pytest.mark.parametrize("text", ROWS)
def test_a_row_of_marks_costs_no_more_than_other_text(function, text):
    """Within one call nothing else runs: it took 16 s, and /livez with it."""
    began = time.process_time()
    function(text)
    assert time.process_time() - began < 1.0


@given(st.text() | st.text(alphabet="a\u0300\u0327\uff9e\u0f73。é ế ｶ"))
def test_nothing_else_changes(text):
    if max((len(row) for row in _rows(text)), default=0) <= 30:
        assert compatible(text) == unicodedata.normalize("NFKC", text)


def test_thirty_marks_are_kept_of_each_row():
    row = "\u0300" * 30
    assert compatible(f"q{row}x") == unicodedata.normalize("NFKC", f"q{row}x")
    assert compatible(f"q{row}\u0300x") == compatible(f"q{row}x")
    assert compatible(f"—{'—' * 40}{row * 2}") == f"—{'—' * 40}{row}"
    assert compatible("😀" * 100) == "😀" * 100


def _rows(text):
    row = ""
    for char in text:
        row = row + char if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) else ""
        yield row
