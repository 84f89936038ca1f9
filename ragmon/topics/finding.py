"""Topics of a corpus: by the questions' embeddings where most have one, else by their words."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ragmon.topics.communities import of_size
from ragmon.topics.consensus import NEIGHBOURS, agreed_groups
from ragmon.topics.corpus import Corpus, Places
from ragmon.topics.model import (
    Floats,
    Labels,
    NearestTopics,
    TopicModel,
    fit,
    kept,
    least_size,
    word_model,
)
from ragmon.topics.neighbours import term_weights
from ragmon.topics.vectors import (
    LEAST_SHARE,
    QuestionVectors,
    VectorSpace,
    nearest_directions,
    unit,
    vector_space,
)

_PASSES = 4
_PART = 16_384  # questions whose directions are held at a time


class FoundTopics(NamedTuple):
    """Topics of a corpus."""

    model: TopicModel  # their words, by which they are recognized later
    labels: Labels  # of the sample
    nearest: NearestTopics  # of every distinct question
    by_vectors: bool


def find_topics(
    corpus: Corpus, places: Places, seed: int, breathe: Callable[[], None] = lambda: None
) -> FoundTopics:
    """The topics of distinct questions.

    Args:
        corpus: all of them.
        places: of a sample, rising.
        seed: of everything that is drawn.
        breathe: called now and then; it may pause.
    """
    vectors = corpus.vectors
    if vectors is not None and vectors.share_of(places) >= LEAST_SHARE:
        return _by_vectors(corpus, vectors, places, seed, breathe)
    model, labels = fit(corpus.questions.select(places), seed, breathe=breathe)
    return FoundTopics(model, labels, model.nearest(corpus.questions), by_vectors=False)


def _by_vectors(
    corpus: Corpus,
    vectors: QuestionVectors,
    places: Places,
    seed: int,
    breathe: Callable[[], None],
) -> FoundTopics:
    sampled = corpus.questions.select(places)
    weights = term_weights(sampled)
    space = vector_space(vectors, corpus.questions, places, weights)
    directions = space.directions(sampled, places)
    least = least_size(len(places))

    def moved(labels: Labels, passes: int) -> Floats:
        centroids = _centroids(directions, labels)
        for _ in range(passes):
            breathe()
            groups = of_size(kept(_nearest(directions, centroids)), least)
            centroids = _centroids(directions, groups)
        return centroids

    def spread(labels: Labels) -> Labels:
        return _nearest(directions, moved(labels, 1)).labels

    near = nearest_directions(directions, NEIGHBOURS, breathe)
    centroids = moved(agreed_groups(near, spread, least, seed, breathe), _PASSES)
    labels = kept(_nearest(directions, centroids))
    rows = weights.rows(sampled)
    model = word_model(weights, rows, labels, len(centroids))
    return FoundTopics(model, labels, _of_all(corpus, space, centroids), by_vectors=True)


def _of_all(corpus: Corpus, space: VectorSpace, centroids: Floats) -> NearestTopics:
    count = len(corpus.questions)
    parts = []
    for first in range(0, max(1, count), _PART):
        end = min(first + _PART, count)
        questions = corpus.questions.part(first, end)
        parts.append(_nearest(space.directions(questions, np.arange(first, end)), centroids))
    return NearestTopics(*map(np.concatenate, zip(*parts, strict=True)))


def _nearest(directions: Floats, centroids: Floats) -> NearestTopics:
    """The nearest centroid of each direction."""
    count = len(directions)
    if not len(centroids):
        nothing = np.zeros(count, dtype=np.float32)
        return NearestTopics(np.zeros(count, dtype=np.int32), nothing, nothing)
    scores = directions @ centroids.T
    labels = scores.argmax(axis=1).astype(np.int32)
    places = np.arange(count), labels
    likeness = scores[places]
    scores[places] = 0.0
    return NearestTopics(labels, likeness, likeness - scores.max(axis=1))


def _centroids(directions: Floats, labels: Labels) -> Floats:
    """The direction of each group; shape (groups, cells)."""
    centroids = np.zeros((int(labels.max(initial=-1)) + 1, directions.shape[1]), dtype=np.float32)
    np.add.at(centroids, labels[labels >= 0], directions[labels >= 0])
    return unit(centroids)
