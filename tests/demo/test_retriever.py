"""BM25 over chunks, and an index that is down."""

import sys

import pytest

from ragmon.demo.corpus import corpus
from ragmon.demo.questions import known, load
from ragmon.demo.retriever import Bm25, Down, IndexDownError
from ragmon.errors import SettingsError
from ragmon.records import Chunk

CHUNKS = [
    Chunk(id="pets#1", text="Pets\n\nA cat purrs. Another cat sleeps.", source="pets"),
    Chunk(id="pets#2", text="Pets\n\nA dog barks at the cat.", source="pets"),
    Chunk(id="cars#1", text="Cars\n\nAn engine roars.", source="cars"),
]


@pytest.mark.parametrize(
    ("query", "k", "ids"),
    [
        pytest.param("cats", 5, ["pets#1", "pets#2"], id="best first, and only what matches"),
        pytest.param("cats", 1, ["pets#1"], id="no more than k"),
        pytest.param("ENGINE noise?", 5, ["cars#1"], id="one known word is enough"),
        pytest.param("zebra", 5, [], id="an unknown word finds nothing"),
        pytest.param("", 5, [], id="nor does nothing"),
    ],
)
def test_search(query, k, ids):
    found = Bm25(CHUNKS).search(query, k)
    assert [chunk.id for chunk in found] == ids
    scores = [chunk.score for chunk in found]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def test_a_missing_library_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[demo\]'"):
        Bm25(CHUNKS)


def test_an_index_that_is_down_says_so():
    with pytest.raises(IndexDownError, match="did not answer"):
        Down().search("cats", 5)


def test_real_questions_mostly_find_their_chunk_and_not_always():
    chunks = corpus()
    index = Bm25(chunks)
    asked = [question for question in known(load(), chunks) if question.relevant]
    found = [[c.id for c in index.search(q.query, 5)] for q in asked]
    hits = [bool(q.relevant.intersection(ids)) for q, ids in zip(asked, found, strict=True)]
    assert 0.7 < sum(hits) / len(hits) < 0.95
