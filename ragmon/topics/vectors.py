"""Topics of questions by their embeddings; one without is placed by the words that it shares."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.embedding_sketch import CELLS, cells_of, kind_of
from ragmon.topics.neighbours import Neighbours, TermRows, TermWeights
from ragmon.topics.terms import Questions

LEAST_SHARE = 0.5
"""Share of the questions that have a vector, below which topics are made of words alone."""
MOST_VECTORS = 200_000
"""Questions whose vectors are held; others are placed by their words."""
_BLOCK = 1_024  # questions at a time
_COLUMNS = 32  # cells at a time

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


class QuestionVectors(NamedTuple):
    """Sketches of some questions' embeddings."""

    places: Places  # of the questions, rising
    cells: NDArray[np.int8]  # shape (n, CELLS)

    def share_of(self, places: Places) -> float:
        """Share of some questions, by rising place, that have a vector."""
        return float(np.isin(places, self.places).mean()) if len(places) else 0.0


class VectorSpace(NamedTuple):
    """Directions of questions: by their own vector, else by the mean of their words."""

    vectors: QuestionVectors
    mean: Floats  # of all; what every question shares tells none apart
    weights: TermWeights
    of_terms: Floats  # shape (terms, CELLS)

    def directions(self, questions: Questions, places: Places) -> Floats:
        """Those of questions by their rising places; a zero row where nothing is known."""
        rows = unit(_sums(self.weights.rows(questions), self.of_terms))
        _, own, at = np.intersect1d(
            places, self.vectors.places, assume_unique=True, return_indices=True
        )
        rows[own] = unit(unit(self.vectors.cells[at].astype(np.float32)) - self.mean)
        return rows


def question_vectors(sketches: Mapping[int, bytes]) -> QuestionVectors | None:
    """The vectors of questions by place, of the length that most have; None where none has any."""
    kinds = Counter(map(kind_of, sketches.values()))
    del kinds[0]
    if not kinds:
        return None
    (kind, _), *_ = kinds.most_common(1)
    places = sorted(place for place, one in sketches.items() if kind_of(one) == kind)
    cells = np.stack([cells_of(sketches[place]) for place in places])
    return QuestionVectors(np.array(places, dtype=np.int64), cells)


def vector_space(
    vectors: QuestionVectors, questions: Questions, places: Places, weights: TermWeights
) -> VectorSpace:
    """The space of a sample of questions.

    Args:
        vectors: of all questions.
        questions: of the sample.
        places: of the sample, rising.
        weights: of its terms.
    """
    _, of_sample, of_vectors = np.intersect1d(
        places, vectors.places, assume_unique=True, return_indices=True
    )
    units = unit(vectors.cells[of_vectors].astype(np.float32))
    mean = units.mean(axis=0)
    rows = weights.rows(questions.select(of_sample))
    return VectorSpace(vectors, mean, weights, _of_terms(rows, unit(units - mean), weights))


def nearest_directions(
    directions: Floats, k: int, breathe: Callable[[], None] = lambda: None
) -> Neighbours:
    """The k nearest other rows of each, by cosine."""
    count = len(directions)
    k = min(k, max(0, count - 1))
    places, similarity = np.zeros((count, k), np.int32), np.zeros((count, k), np.float32)
    for first in range(0, count if k else 0, _BLOCK):
        breathe()
        likeness = directions[first : first + _BLOCK] @ directions.T
        own = np.arange(len(likeness))
        likeness[own, first + own] = 0.0
        nearest = np.argpartition(likeness, count - k, axis=1)[:, count - k :]
        places[first : first + _BLOCK] = nearest
        similarity[first : first + _BLOCK] = np.take_along_axis(likeness, nearest, axis=1)
    return Neighbours(places, np.maximum(similarity, 0.0))


def _of_terms(rows: TermRows, directions: Floats, weights: TermWeights) -> Floats:
    """The mean direction of the questions that hold each term: short where they differ."""
    count = len(weights.terms)
    of_terms = np.zeros((count, CELLS), dtype=np.float32)
    order = np.argsort(rows.columns, kind="stable")
    row = np.repeat(np.arange(len(rows)), np.diff(rows.starts))[order]
    columns, starts = np.unique(rows.columns[order], return_index=True)
    for first in range(0, CELLS if len(columns) else 0, _COLUMNS):
        part = directions[row, first : first + _COLUMNS] * rows.weights[order, None]
        of_terms[columns, first : first + _COLUMNS] = np.add.reduceat(part, starts, axis=0)
    total = np.bincount(rows.columns, rows.weights, count)[:, None]
    result: Floats = (of_terms / np.maximum(total, 1e-9)).astype(np.float32)
    return result


def _sums(rows: TermRows, of_terms: Floats) -> Floats:
    """The weighted sum of the terms of each row."""
    summed = np.zeros((len(rows), CELLS), dtype=np.float32)
    for first in range(0, len(rows), _BLOCK):
        starts = rows.starts[first : first + _BLOCK + 1]
        span = slice(int(starts[0]), int(starts[-1]))
        filled = np.flatnonzero(np.diff(starts))
        if len(filled):
            parts = of_terms[rows.columns[span]] * rows.weights[span, None]
            at = (starts[:-1] - starts[0])[filled]
            summed[first + filled] = np.add.reduceat(parts, at, axis=0)
    return summed


def unit(rows: Floats) -> Floats:
    """The rows at length 1; zero ones stay."""
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    result: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    return result
