import sys
import types

import numpy as np
import pytest

from ragmon.errors import SettingsError
from ragmon.evaluate.cases import Case
from ragmon.evaluate.score.embedding import Similarity, load
from ragmon.records import QueryRecord


def letters(texts):
    """How often a text holds a, b and c; minus the letter z."""
    return [[text.count(each) for each in "abc"] + [-text.count("z")] for text in texts]


def graded(answer, truth="ab", query="c"):
    case = Case(query=query, ground_truth_answer=truth)
    return Similarity(letters, "letters").grade(case, QueryRecord(answer=answer))


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [
        pytest.param("ba", "ab", {"semantic_similarity": 1.0, "query_similarity": 0.0}, id="same"),
        pytest.param(
            "ac", "ab", {"semantic_similarity": 0.5, "query_similarity": 0.5**0.5}, id="half"
        ),
        pytest.param("c", None, {"query_similarity": 1.0}, id="no truth known"),
        pytest.param("?", "ab", {"semantic_similarity": 0.0, "query_similarity": 0.0}, id="empty"),
        pytest.param(None, "ab", {}, id="no answer"),
    ],
)
def test_cosines(answer, truth, expected):
    assert graded(answer, truth) == pytest.approx(expected)


def test_an_embedder_of_ones_own(monkeypatch):
    module = types.ModuleType("my_embedder")
    module.letters = letters
    monkeypatch.setitem(sys.modules, "my_embedder", module)
    assert load("my_embedder:letters").name == "letters"


def test_sentence_transformers_by_model(monkeypatch):
    class SentenceTransformer:
        def __init__(self, model):
            assert model == "org/model"

        def encode(self, texts):
            return np.array(letters(texts))

    library = types.ModuleType("sentence_transformers")
    library.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    similarity = load("sentence-transformers:org/model")
    assert similarity.name == "model"
    found = similarity.grade(Case(query="c"), QueryRecord(answer="c"))
    assert found == {"query_similarity": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        pytest.param("model", "names no model or function", id="no colon"),
        pytest.param("no_such_package:embed", "No module named", id="no such package"),
        pytest.param("json:embed", "no attribute 'embed'", id="no such function"),
        pytest.param("sentence-transformers:x", r"\[embeddings\]", id="extra missing"),
    ],
)
def test_what_cannot_be_loaded(monkeypatch, setting, message):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(SettingsError, match=message):
        load(setting)
