"""Topics of questions: found in a sample by its nearest neighbours, then assigned by likeness.

Communities of the graph of nearest neighbours need no number of topics. Their centroids then take
in what is nearest to them, a few times over; that mends the borders, and gives every question of
any size of traffic the topic that the sample would have given it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.topics.communities import communities, graph_of, of_size
from ragmon.topics.consensus import LINKED, NEIGHBOURS, RESOLUTION, agreed_groups
from ragmon.topics.neighbours import TermRows, TermWeights, neighbours, term_weights
from ragmon.topics.terms import Questions

LEAST_LIKENESS = 0.12
"""A question less like every topic than this belongs to none."""
LEAST_MARGIN = 0.07
"""A question that is less ahead at its topic than this lies between topics."""
LEAST_RECOGNIZED = 0.25
"""The same for topics of an earlier day, so that what is new does not seem to be theirs."""
_PASSES = 4  # of assigning and moving the centroids
_BLOCK = 4_096  # questions whose likeness to every topic is held at a time
_PART = 65_536  # questions whose terms are looked up at a time

Labels = NDArray[np.int32]
Floats = NDArray[np.float32]


class NearestTopics(NamedTuple):
    """The nearest topic of each question."""

    labels: Labels
    likeness: Floats  # cosine to it
    margin: Floats  # by which that exceeds the cosine to the next topic

    @property
    def is_clear(self) -> NDArray[np.bool_]:
        """True for a question that is of one topic; false between topics, and where it has none."""
        return (self.likeness >= LEAST_LIKENESS) & (self.margin >= LEAST_MARGIN)


class TopicModel(NamedTuple):
    """Topics as directions among the terms."""

    weights: TermWeights
    centroids: Floats  # shape (terms, topics), of unit length

    @property
    def topics(self) -> int:
        """Their number."""
        return int(self.centroids.shape[1])

    def assign(self, questions: Questions) -> Labels:
        """The topic of each question; -1 where it is like none."""
        return kept(self.nearest(questions))

    def nearest(self, questions: Questions) -> NearestTopics:
        """The nearest topic of each question; a part of them at a time."""
        parts = [
            self.likeness(self.weights.rows(questions.part(first, first + _PART)))
            for first in range(0, max(1, len(questions)), _PART)
        ]
        return NearestTopics(*map(np.concatenate, zip(*parts, strict=True)))

    def recognized(self, questions: Questions) -> Labels:
        """The same of later questions, whose words may be new; at most as many as are fitted."""
        unknown = float(self.weights.rarity.max(initial=0.0))
        nearest = self.likeness(self.weights.rows(questions, unknown))
        return np.where(nearest.likeness >= LEAST_RECOGNIZED, nearest.labels, np.int32(-1))

    def likeness(self, rows: TermRows) -> NearestTopics:
        """The nearest topic of each row."""
        labels = np.zeros(len(rows), dtype=np.int32)
        likeness = np.zeros(len(rows), dtype=np.float32)
        margin = np.zeros(len(rows), dtype=np.float32)
        if not self.topics:
            return NearestTopics(labels, likeness, margin)
        for first in range(0, len(rows), _BLOCK):
            starts = rows.starts[first : first + _BLOCK + 1]
            span = slice(int(starts[0]), int(starts[-1]))
            filled = np.flatnonzero(np.diff(starts))
            if not len(filled):
                continue
            parts = self.centroids[rows.columns[span]]
            parts *= rows.weights[span, None]
            scores = np.add.reduceat(parts, (starts[:-1] - starts[0])[filled], axis=0)
            best = scores.argmax(axis=1)
            places = np.arange(len(filled)), best
            labels[first + filled] = best
            likeness[first + filled] = scores[places]
            scores[places] = 0.0
            margin[first + filled] = likeness[first + filled] - scores.max(axis=1)
        return NearestTopics(labels, likeness, margin)


def fit(
    questions: Questions,
    seed: int,
    least: int = 0,
    breathe: Callable[[], None] = lambda: None,
    *,
    in_haste: bool = False,
) -> tuple[TopicModel, Labels]:
    """Topics of distinct questions, and the topic of each; -1 where it is like none.

    Args:
        questions: distinct ones, at most some twenty thousand.
        seed: of the order in which questions are looked at.
        least: distinct questions that make a topic; 0: by the number of questions.
        breathe: called now and then; it may pause.
        in_haste: group them once, at a third of the cost.
    """
    weights = term_weights(questions)
    rows = weights.rows(questions)
    least = least or least_size(len(questions))
    near = neighbours(rows, len(weights.terms), LINKED if in_haste else NEIGHBOURS, breathe)

    def moved(labels: Labels, passes: int) -> TopicModel:
        model = word_model(weights, rows, labels)
        for _ in range(passes):
            breathe()
            model = word_model(weights, rows, of_size(kept(model.likeness(rows)), least))
        return model

    def spread(labels: Labels) -> Labels:
        return moved(labels, 2).likeness(rows).labels

    if in_haste:
        labels = of_size(communities(graph_of(near), RESOLUTION, seed), least)
    else:
        labels = agreed_groups(near, spread, least, seed, breathe)
    model = moved(labels, _PASSES)
    return model, kept(model.likeness(rows))


def least_size(questions: int) -> int:
    """Distinct questions that make a topic, of so many."""
    return max(5, min(12, questions // 1_000))


def kept(nearest: NearestTopics) -> Labels:
    """Labels of what is like its topic; -1 for the rest."""
    return np.where(nearest.likeness >= LEAST_LIKENESS, nearest.labels, np.int32(-1))


def word_model(weights: TermWeights, rows: TermRows, labels: Labels, topics: int = 0) -> TopicModel:
    """The model of groups of rows, of which there are so many at least."""
    return TopicModel(weights, _centroids(rows, labels, len(weights.terms), topics))


def _centroids(rows: TermRows, labels: Labels, terms: int, topics: int) -> Floats:
    """The direction of each group of rows."""
    count = max(topics, int(labels.max(initial=-1)) + 1)
    label = np.repeat(labels, np.diff(rows.starts))
    used = label >= 0
    cells = rows.columns[used].astype(np.int64) * count + label[used]
    sums = np.bincount(cells, rows.weights[used], terms * count).astype(np.float64)
    sums = sums.reshape(terms, count)
    lengths = np.sqrt(np.square(sums).sum(axis=0))
    np.divide(sums, lengths, out=sums, where=lengths > 0.0)
    directions: Floats = sums.astype(np.float32)
    return directions
