"""Texts cut to a window: nothing is lost, nothing is too long, and neighbours overlap."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.judges.local.passages import grouped, sentence_chunks, split, windows

SENTENCE = "The office opens at nine on every day of the week. "


def words(text):
    return len(text.split())


def test_a_text_that_fits_is_one_window():
    assert windows(SENTENCE, 11, words) == [(0, len(SENTENCE))]
    assert windows("", 11, words) == [(0, 0)]


def test_a_long_text_is_read_to_its_end_in_windows_that_overlap():
    text = "".join(f"Number {n} is here. " for n in range(100))
    spans = windows(text, 40, words)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    for (_, end), (begin, _) in itertools.pairwise(spans):
        assert 4 <= words(text[begin:end]) <= 8  # a fifth of a window
    assert all(text[begin:end].startswith("Number") for begin, end in spans)


@given(
    st.lists(st.sampled_from(["a", "bb.", "ccc\n", "dddd", "\n\n", "é", " "]), max_size=60),
    st.integers(5, 30),
)
def test_windows_cover_the_text_and_hold_what_a_model_reads(parts, size):
    text = " ".join(parts)
    spans = windows(text, size, words)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(begin < end or not text for begin, end in spans)
    assert all(words(text[begin:end]) <= size for begin, end in spans)
    for (first, end), (begin, _) in itertools.pairwise(spans):
        assert first < begin <= end  # goes on, and leaves nothing out


def test_a_sentence_without_an_end_is_cut_between_words():
    text = "word " * 1_000
    parts = split(text, 50, words)
    assert all(words(part) <= 50 for part in parts)
    assert set(" ".join(parts).split()) == {"word"}


def test_a_single_word_that_does_not_fit_is_cut_all_the_same():
    parts = split("x" * 1_000, 100, len)
    assert all(len(part) <= 100 for part in parts)
    assert len(parts) < 20


@pytest.mark.parametrize(
    ("costs", "budget", "groups"),
    [
        pytest.param([3, 3, 3], 11, [["a", "b", "c"]], id="line breaks count"),
        pytest.param([3, 3, 3], 10, [["a", "b"], ["c"]], id="one token too many"),
        pytest.param([30, 3, 30], 10, [["a"], ["b"], ["c"]], id="alone where it does not fit"),
        pytest.param([], 10, [], id="nothing"),
    ],
)
def test_passages_are_read_together_as_far_as_they_fit(costs, budget, groups):
    assert grouped("abc"[: len(costs)], costs, budget) == groups


def test_a_document_is_cut_between_sentences_and_keeps_its_lines():
    text = "One two three. Four five.\nSix seven eight. Nine ten."
    assert sentence_chunks(text, 100, words) == [text]
    assert sentence_chunks(text, 5, words) == [
        "One two three. Four five.",
        "Six seven eight. Nine ten.",
    ]
    assert sentence_chunks(text, 3, words) == [
        "One two three.",
        "Four five.",
        "Six seven eight.",
        "Nine ten.",
    ]
