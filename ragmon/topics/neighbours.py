"""Nearest neighbours of questions by the words they share, weighted by how rare these are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.topics.terms import Questions

Floats = NDArray[np.float32]
Places = NDArray[np.int32]
_BREATHE_EVERY = 100  # questions


class TermWeights(NamedTuple):
    """The terms of some questions that are known, with their weights."""

    terms: NDArray[np.int32]  # rising
    rarity: Floats  # of each: 1 + ln of the questions over those that hold it

    def rows(self, questions: Questions, unknown: float = 0.0) -> "TermRows":
        """Questions as rows, over the terms that are known.

        Args:
            questions: of which rows are made.
            unknown: weight of each term that is not known; with 0 rows are of unit length, with
                more those of questions about other things are shorter.
        """
        place = np.searchsorted(self.terms, questions.terms)
        np.minimum(place, max(0, len(self.terms) - 1), out=place)
        known = (
            self.terms[place] == questions.terms
            if len(self.terms)
            else np.zeros(len(place), dtype=np.bool_)
        )
        lengths = np.diff(questions.starts)
        row = np.repeat(np.arange(len(questions)), lengths)[known]
        columns = place[known].astype(np.int32)
        weights = self.rarity[columns]
        squares = np.bincount(row, np.square(weights), len(questions))
        unknown_terms = lengths - np.bincount(row, minlength=len(questions))
        squares = squares + unknown * unknown * unknown_terms
        starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(questions)))))
        return TermRows(starts, columns, (weights / np.sqrt(squares)[row]).astype(np.float32))


class TermRows(NamedTuple):
    """Sparse rows of unit length; one without a known term is empty."""

    starts: NDArray[np.int64]
    columns: Places
    weights: Floats

    def __len__(self) -> int:
        return len(self.starts) - 1


class Neighbours(NamedTuple):
    """The nearest questions of each, in no order; a similarity of 0 is no neighbour."""

    places: Places  # shape (n, k)
    similarity: Floats  # cosine


def term_weights(questions: Questions, least: int = 2) -> TermWeights:
    """Weights of the terms that some questions hold.

    Args:
        questions: distinct ones.
        least: questions that hold a term, for it to be known.
    """
    terms, held_by = np.unique(questions.terms, return_counts=True)
    is_known = held_by >= least
    rarity = 1.0 + np.log(len(questions) / held_by[is_known])
    return TermWeights(terms[is_known].astype(np.int32), rarity.astype(np.float32))


def neighbours(
    rows: TermRows, terms: int, k: int, breathe: Callable[[], None] = lambda: None
) -> Neighbours:
    """The k nearest other questions of each.

    Args:
        rows: of the questions.
        terms: that are known.
        k: neighbours of each.
        breathe: called now and then; it may pause.
    """
    count = len(rows)
    k = min(k, max(0, count - 1))
    places, similarity = np.zeros((count, k), np.int32), np.zeros((count, k), np.float32)
    if not k:
        return Neighbours(places, similarity)
    order = np.argsort(rows.columns, kind="stable")
    row_of = np.repeat(np.arange(count, dtype=np.int32), np.diff(rows.starts))
    holders, weights = row_of[order], rows.weights[order]
    ends = np.concatenate(([0], np.cumsum(np.bincount(rows.columns, minlength=terms)))).tolist()
    likeness = np.zeros(count, np.float32)
    starts, columns, own = rows.starts.tolist(), rows.columns.tolist(), rows.weights
    for at in range(count):
        if at % _BREATHE_EVERY == 0:
            breathe()
        likeness[:] = 0.0
        for entry in range(starts[at], starts[at + 1]):
            column = columns[entry]
            span = slice(ends[column], ends[column + 1])
            likeness[holders[span]] += own[entry] * weights[span]
        likeness[at] = 0.0
        nearest = np.argpartition(likeness, count - k)[count - k :]
        places[at], similarity[at] = nearest, likeness[nearest]
    return Neighbours(places, similarity)
