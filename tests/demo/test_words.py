"""Terms, stems and their rarity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.demo.words import rarity, stem, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the `__getattr__()` method?", ["is", "getattr", "method"]),
        ("Dictionaries and lists", ["dictionary", "and", "list"]),
        ("a += b", ["+=", "b"]),
        ("", []),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("queries", "query", id="ies becomes y"),
        pytest.param("classes", "classe", id="es loses its s, as everywhere"),
        pytest.param("class", "class", id="ss stays"),
        pytest.param("status", "status", id="us stays"),
        pytest.param("is", "is", id="a short word stays"),
    ],
)
def test_stem(word, expected):
    assert stem(word) == expected


@given(st.lists(st.lists(st.sampled_from("abcd")), min_size=1))
def test_a_term_of_fewer_texts_weighs_more(texts):
    weights = rarity(texts)
    held = {term: sum(term in text for text in texts) for term in weights}
    assert set(held) == set().union(*texts)
    assert sorted(weights, key=lambda t: (weights[t], t)) == sorted(
        weights, key=lambda t: (-held[t], t)
    )
    assert all(weight > 0 for weight in weights.values())
