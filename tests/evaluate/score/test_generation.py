import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from ragmon.evaluate.score import generation

TEXT = st.text(alphabet="ab c.THE,", max_size=30)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(generation.exact_match("The  Eiffel tower!", "eiffel tower"), 1.0, id="alike"),
        pytest.param(generation.exact_match("eiffel", "eiffel tower"), 0.0, id="not alike"),
        pytest.param(generation.token_f1("a cat sat", "cat sat down"), 0.8, id="shared words"),
        pytest.param(generation.token_f1("cat cat", "cat"), 2 / 3, id="repeats count once"),
        pytest.param(generation.token_f1("", "the"), 1.0, id="neither says anything"),
        pytest.param(generation.token_f1("", "cat"), 0.0, id="only one says something"),
        pytest.param(generation.rouge_l("", "cat"), 0.0, id="no answer"),
        pytest.param(generation.context_utilization("abc", "bcd", "cx"), 0.5, id="one of two used"),
        pytest.param(generation.context_utilization("a", "b", "a"), None, id="nothing to use"),
        pytest.param(generation.noise_sensitivity(0.8, 0.6), 0.25, id="a quarter lost"),
    ],
)
def test_worked_figures(measured, expected):
    assert measured == pytest.approx(expected)


def test_noise_against_nothing():
    with pytest.raises(ValueError, match="positive"):
        generation.noise_sensitivity(0.0, 0.5)


def test_rouge_l_against_google():
    rng, scorer = random.Random(3), RougeScorer(["rougeL"])
    words = ["The", "cat", "sat", "on", "mat.", "3.5", "don't", "x-y"]
    for _ in range(300):
        first, second = (" ".join(rng.choices(words, k=rng.randrange(1, 90))) for _ in range(2))
        expected = scorer.score(second, first)["rougeL"].fmeasure
        assert generation.rouge_l(first, second) == pytest.approx(expected, abs=1e-12)


@given(first=TEXT, second=TEXT)
def test_symmetric_and_bounded(first, second):
    for compare in (generation.exact_match, generation.token_f1, generation.rouge_l):
        assert compare(first, second) == compare(second, first)
        assert 0.0 <= compare(first, second) <= 1.0
