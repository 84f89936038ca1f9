"""Careful and hasty answers."""

import pytest

from ragmon.demo.answerer import NOTHING_FOUND, Extractive, Hasty, misremembered, sentences
from ragmon.demo.words import rarity, terms
from ragmon.records import Chunk

CHUNKS = [
    Chunk(id="a", text="Lists\n\nThe list is sorted in place. It is never copied by the method."),
    Chunk(id="b", text="Tuples\n\nThe tuple is immutable and is hashed by its 3 items."),
    Chunk(id="c", text="Code\n\n>>> the = print('this is code of a session')"),
]
EXTRACTIVE = Extractive(rarity(terms(chunk.text) for chunk in CHUNKS))


@pytest.mark.parametrize(
    ("query", "text", "ids"),
    [
        pytest.param("sorted list", "The list is sorted in place.", ("a",), id="the best sentence"),
        pytest.param(
            "sorted list, immutable tuple items",
            "The list is sorted in place. The tuple is immutable and is hashed by its 3 items.",
            ("a", "b"),
            id="one from each chunk, in their order",
        ),
    ],
)
def test_a_careful_answer_cites_what_it_used(query, text, ids):
    answer = EXTRACTIVE.answer(query, CHUNKS)
    assert (answer.text, answer.citations, answer.used) == (text, ids, ids)


def test_of_sentences_alike_those_of_the_best_chunks_are_taken():
    lengths = {"a": "in one place now", "b": "in one place", "c": "in place", "d": "there"}
    texts = [f"Lists\n\nThe list is sorted {where}." for where in lengths.values()]
    chunks = [Chunk(id=i, text=text) for i, text in zip(lengths, texts, strict=True)]
    assert EXTRACTIVE.answer("sorted list", chunks).used == ("a", "b", "c")


@pytest.mark.parametrize("answerer", [EXTRACTIVE, Hasty(EXTRACTIVE, CHUNKS)])
def test_nothing_retrieved_is_admitted(answerer):
    answer = answerer.answer("sorted list", [])
    assert (answer.text, answer.citations, answer.used) == (NOTHING_FOUND, (), ())


def test_a_chunk_of_code_alone_gives_no_answer():
    assert EXTRACTIVE.answer("session code", CHUNKS[2:]).text == NOTHING_FOUND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "T\n\nThis is one. That is not it here.", ["That is not it here."], id="short"
        ),
        pytest.param(
            "T\n\nThis is, e.g. `x`, one of them.", ["This is, e.g. `x`, one of them."], id="e.g."
        ),
        pytest.param("This is the title of it\n\nx = the_value_of(it)", [], id="title and code"),
        pytest.param(
            "T\n\n- that is the first line\nthis is the second line",
            ["- that is the first line", "this is the second line"],
            id="lines",
        ),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 items before 7", "13 items after 10"),
        ("True, always", "False, never"),
        ("nothing to alter", "nothing to alter"),
    ],
)
def test_misremembered(text, expected):
    assert misremembered(text) == expected


def test_hasty_answers_fail_in_every_way_and_each_the_same_way_again():
    hasty = Hasty(
        EXTRACTIVE, [Chunk(id="x", text="Other\n\nIt is the answer to another question.")]
    )
    queries = [f"sorted list number {n}" for n in range(60)]
    answers = [hasty.answer(query, CHUNKS[:2]) for query in queries]
    assert answers == [hasty.answer(query, CHUNKS[:2]) for query in queries]
    assert {answer.citations for answer in answers} >= {(), ("a",), ("x",)}
    assert {answer.used for answer in answers} >= {("x",), ("a",)}
    assert any("6 items" in answer.text for answer in hasty_tuples(hasty))


def hasty_tuples(hasty):
    return [hasty.answer(f"immutable tuple {n}", CHUNKS[:2]) for n in range(20)]
