"""Two writings of one word are one term; a text falls into the sentences a reader sees."""

import time

import pytest

from ragmon.judges.grounding import words
from ragmon.judges.grounding.language import language_of
from ragmon.judges.grounding.words import Vocabulary


@pytest.mark.parametrize(
    "writings",
    [
        "connect connects connected connecting",
        "stop stops stopped stopping",
        "study studies studied studying",
        "write writing wrote written writes",
        "Café cafe CAFÉS café's",
        "quick quickly",
        "seven 7 7.0 7th",
        "1,000 1000 1000.00",
        "child children",
        "boxes box",
    ],
)
def test_one_term(writings):
    vocabulary = Vocabulary({})
    assert len({vocabulary[token].stem for token in writings.split()}) == 1


@pytest.mark.parametrize(
    "different", ["universal university", "1000 10000", "general generous", "6.1 6.15"]
)
def test_not_one_term(different):
    vocabulary = Vocabulary({})
    assert len({vocabulary[token].stem for token in different.split()}) == 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Version 6.15.0, of 2024.", ["Version", "6.15.0", "of", "2024"]),
        ("It's 1,000 km; 3rd-best", ["It's", "1,000", "km", "3rd", "best"]),
        ("COVID19 and 3D", ["COVID19", "and", "3D"]),
        ("snake_case", ["snake", "case"]),
    ],
)
def test_tokens(text, tokens):
    assert words.TOKEN.findall(text) == tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One is here. Two is there! Three?", ["One is here.", "Two is there!", "Three?"]),
        ("Dr. Smith met J. R. Miller. They spoke.", ["Dr. Smith met J. R. Miller.", "They spoke."]),
        ("Costs 3.5 euros. Fine.", ["Costs 3.5 euros.", "Fine."]),
        ("- one\n- two\n\n", ["- one", "- two"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_sentences(text, expected):
    assert [text[start:end] for start, end in words.sentences(text)] == expected


def test_rarity_weighs_and_function_words_do_not():
    vocabulary = Vocabulary({"tower": 0.4})
    assert [vocabulary[w].weight for w in ("Towers", "the", "elephant")] == [0.4, 0.0, 1.0]
    assert vocabulary["context"].weight < 0.5  # speaks of the sources
    assert vocabulary["isn't"].negation


def test_vocabulary_is_bounded():
    vocabulary = Vocabulary({}, limit=10)
    for number in range(1_000):
        assert vocabulary[f"w{number}x"].weight == 1.0
    assert len(vocabulary) <= 10


def test_markers_are_blanked_in_place():
    text = "Tall [1], see https://example.org/a?b=1 and [2, 3] or [note]."
    blanked = words.without_markers(text)
    assert len(blanked) == len(text)
    assert blanked.split() == ["Tall", ",", "see", "and", "[2,", "3]", "or", "[note]."]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The tower is one of the sights of the city and it is painted.", "en"),
        ("Der Turm ist eine der Attraktionen der Stadt und wird von den Gästen geliebt.", "de"),
        ("La tour est une des attractions de la ville et elle est peinte.", "fr"),
        ("La torre es una de las atracciones de la ciudad y se pinta por los años.", "es"),
        ("Башня была открыта в марте и является одной из главных", "cyrillic"),
        ("Marcie Blane, Cliff Richard, Gustave Eiffel, Paris, Lyon, Nice", None),
        ("No, Vulnerability Advisor does not scan encrypted images.", "en"),
        ("Short.", None),
    ],
)
def test_language(text, language):
    assert language_of(text) == language


def test_what_is_remembered_is_bounded_in_characters():
    vocabulary = Vocabulary({})
    for at in range(300):
        assert vocabulary[f"{at}" + "ab" * 75_000].weight == 1.0
    assert sum(map(len, vocabulary)) == 0
    assert vocabulary["longest" + "x" * 57].stem
    assert len(vocabulary) == 1


def test_a_row_of_accents_costs_no_more_than_other_text():
    text = "a" + "\u0300\u0327" * 100_000 + " b" * 10
    began = time.process_time()
    tokens = words.TOKEN.findall(text)
    assert [words.fold(token) for token in tokens] == ["a", *"b" * 10]
    assert time.process_time() - began < 0.5
