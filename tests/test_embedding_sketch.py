"""Sketches of embeddings."""

import msgspec
import numpy as np
import pytest

from ragmon import privacy
from ragmon.embedding_sketch import CELLS, SKETCH_BYTES, cells_of, kind_of, sketch
from ragmon.privacy.erasure import Aliases, erase
from ragmon.records import QueryRecord


def cosine(one, other) -> float:
    one, other = np.asarray(one, float), np.asarray(other, float)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize("length", [CELLS, 384, 1_536, 8_192])
def test_a_cosine_is_read_from_two_sketches(length):
    chance = np.random.default_rng(3)
    errors = []
    for _ in range(100):
        one = chance.normal(size=length)
        other = one + chance.normal(size=length) * chance.uniform(0.2, 2.0)
        read = cosine(cells_of(sketch(one.tolist())), cells_of(sketch(other.tolist())))
        errors.append(read - cosine(one, other))
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 0.06


def test_a_short_vector_is_kept_as_it_is_but_for_rounding():
    one, other = [0.5, -1.0, 0.25], [0.1, 0.2, 0.3]
    read = cosine(cells_of(sketch(one)), cells_of(sketch(other)))
    assert read == pytest.approx(cosine(one, other), abs=0.01)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param([0.0, 0.0], id="zeros"),
        pytest.param([], id="nothing"),
        pytest.param([1.0, float("inf")], id="infinity"),
        pytest.param([1.0, float("nan")], id="no number"),
    ],
)
def test_some_vectors_have_none(vector):
    assert sketch(vector) is None


def test_vectors_of_models_of_other_lengths_are_told_apart():
    assert kind_of(sketch([1.0] * 300)) == 300
    assert kind_of(sketch([1.0] * 1_536)) == 1_536
    assert kind_of(b"no sketch") == 0


LINE = b'{"query_id":"q","user_id":"u","query":"%s","embedding":[0.1,0.2,-0.3]}'


def logged(question: bytes = b"what is due?") -> QueryRecord:
    return msgspec.json.decode(LINE % question, type=QueryRecord)


def test_an_embedding_becomes_its_sketch_and_is_not_kept():
    query = logged()
    assert query.embedding is None
    assert len(query.embedding_sketch) == SKETCH_BYTES
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=QueryRecord)
    assert stored == query


def test_a_vector_goes_where_its_text_must_not_be_written():
    assert privacy.apply(logged(), "drop").embedding_sketch is None
    assert privacy.apply(logged(), "redact").embedding_sketch is not None
    assert privacy.apply(logged(b"write to a@example.com"), "redact").embedding_sketch is None
    assert erase(logged(), "erased:1", Aliases()).embedding_sketch is None
