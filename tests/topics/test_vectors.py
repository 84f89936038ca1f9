"""Topics by the embeddings of questions."""

import random

import numpy as np
import pytest

from ragmon.embedding_sketch import sketch
from ragmon.topics.corpus import CorpusBuilder
from ragmon.topics.grouping import KeptModel, group

SUBJECTS = 4
LENGTH = 384


def asked(count: int, seed: int = 0):
    """Questions of a few words that tell nothing, and vectors that tell their subject."""
    chance, noise = random.Random(seed), np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(SUBJECTS, LENGTH))
    truth = [chance.randrange(SUBJECTS) for _ in range(count)]
    words = [f"word{at}" for at in range(60)]
    texts = [" ".join(chance.sample(words, 4)) for _ in range(count)]
    vectors = [(centres[at] + 0.6 * noise.normal(size=LENGTH)).tolist() for at in truth]
    return texts, vectors, truth


def grouped(texts, sketches):
    builder = CorpusBuilder()
    builder.add(range(len(texts)), texts, None, sketches)
    return group(builder.corpus(), builder.texts, KeptModel(made_at=0.0), 1.0)


def purity(grouping, truth) -> float:
    """Share of the queries whose topic mostly asks about their subject."""
    labels = np.frombuffer(grouping.grouped.labels, dtype=np.int32).tolist()
    right = 0
    for label in set(labels) - {-1, -2}:
        within = [one for one, at in zip(truth, labels, strict=True) if at == label]
        right += max(within.count(subject) for subject in set(within))
    return right / len(truth)


def test_questions_without_a_word_in_common_are_one_topic_by_their_vectors():
    texts, vectors, truth = asked(600)
    grouping = grouped(texts, {at: sketch(vector) for at, vector in enumerate(vectors)})
    assert grouping.grouped.by_vectors
    assert len(grouping.grouped.groups) == SUBJECTS
    assert purity(grouping, truth) > 0.97


def test_one_without_a_vector_is_placed_by_its_words():
    texts, vectors, truth = asked(600)
    texts = [f"{text} about{subject}" for text, subject in zip(texts, truth, strict=True)]
    sketches = {at: sketch(vector) for at, vector in enumerate(vectors) if at % 3}
    grouping = grouped(texts, sketches)
    assert grouping.grouped.by_vectors
    assert purity(grouping, truth) > 0.9


@pytest.mark.parametrize(
    "sketches",
    [
        pytest.param(lambda vectors: {}, id="none has one"),
        pytest.param(
            lambda vectors: {at: sketch(vectors[at]) for at in range(200)}, id="a third has one"
        ),
        pytest.param(
            lambda vectors: {
                at: sketch(vector[: 200 + 10 * (at % 3)]) for at, vector in enumerate(vectors)
            },
            id="of models of three lengths",
        ),
        pytest.param(lambda vectors: dict.fromkeys(range(600), b"no sketch"), id="damaged"),
    ],
)
def test_words_are_used_where_few_have_a_vector_of_one_model(sketches):
    texts, vectors, _ = asked(600)
    assert not grouped(texts, sketches(vectors)).grouped.by_vectors


def test_topics_keep_their_ids_when_vectors_begin_to_be_logged():
    _, vectors, truth = asked(600)
    chance = random.Random(2)
    texts = [" ".join(chance.sample([f"s{one}w{at}" for at in range(9)], 3)) for one in truth]
    before = grouped(texts, {})
    builder = CorpusBuilder()
    builder.add(
        range(len(texts)), texts, None, {at: sketch(vector) for at, vector in enumerate(vectors)}
    )
    after = group(builder.corpus(), builder.texts, before.kept, 2.0)
    assert after.grouped.by_vectors
    assert not before.grouped.by_vectors
    ids = {topic.id for topic in before.grouped.groups}
    assert len(ids) == SUBJECTS
    assert {topic.id for topic in after.grouped.groups} == ids
