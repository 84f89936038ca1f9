"""Rated and judged answers with their documents, to be compared."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.intp]

OUTCOMES = ("disliked", "unfaithful")
MOST_COMPARED = 4_000_000
"""Documents of all these answers together: 16 MB, and about 300 MB while they are compared."""
_UNKNOWN = -1


class ComparedAnswers:
    """Answers of which an outcome is known, the documents of each in the order of their rank."""

    def __init__(self, most: int = MOST_COMPARED) -> None:
        self.known = 0  # answers, with those that were let go
        self.counts = dict.fromkeys(OUTCOMES, 0)  # of known ones, by outcome
        self._most = most
        self._level = 0  # one answer in 2 ** level is kept
        self._groups: dict[tuple[str, str], int] = {}
        self._documents: list[NDArray[np.int32]] = []
        self._lengths: list[NDArray[np.int32]] = []
        self._sequences: list[NDArray[np.int64]] = []
        self._group_of: list[NDArray[np.int32]] = []
        self._outcomes: list[NDArray[np.int8]] = []
        self._size = 0

    @property
    def size_bytes(self) -> int:
        """Memory that they take, about."""
        return 4 * self._size + 18 * sum(map(len, self._lengths))

    @property
    def work_bytes(self) -> int:
        """Memory that a comparison of them takes besides, about."""
        return 80 * self._size

    @property
    def share(self) -> float:
        """Part of the known answers that is kept."""
        return 0.5**self._level

    def group(self, pipeline: str, version: str) -> int:
        """Number of a version of a pipeline."""
        return self._groups.setdefault((pipeline, version), len(self._groups))

    def add(
        self,
        records: Integers,
        documents: Integers,
        sequences: Integers,
        groups: Integers,
        outcomes: NDArray[np.float64],
    ) -> None:
        """Take in those of some answers whose outcome is known.

        Args:
            records: place of each retrieved document's answer, ascending.
            documents: number of each.
            sequences: number of each answer in the store.
            groups: of each answer.
            outcomes: 1 bad, 0 good, NaN unknown; shape (answers, 2).
        """
        is_known = ~np.isnan(outcomes).all(axis=1)
        has_any = np.zeros(len(outcomes), dtype=np.bool_)
        has_any[records] = True
        is_known &= has_any
        self.known += int(is_known.sum())
        for name, column in zip(OUTCOMES, outcomes[is_known].T, strict=True):
            self.counts[name] += int((~np.isnan(column)).sum())
        kept = is_known & _is_kept(sequences, self._level)
        chosen = np.flatnonzero(kept)
        if not len(chosen):
            return
        of_kept = kept[records]
        self._documents.append(documents[of_kept].astype(np.int32))
        self._lengths.append(np.bincount(records, minlength=len(kept))[chosen].astype(np.int32))
        self._sequences.append(sequences[chosen].astype(np.int64))
        self._group_of.append(groups[chosen].astype(np.int32))
        coded = np.nan_to_num(outcomes[chosen], nan=_UNKNOWN).astype(np.int8)
        self._outcomes.append(coded)
        self._size += int(of_kept.sum())
        while self._size > self._most:
            self._thin()

    def with_outcome(self, name: str) -> "AnswerTable":
        """The answers of which one outcome is known."""
        if not self._lengths:
            nothing = np.zeros(0, dtype=np.intp)
            return AnswerTable(nothing, nothing, nothing, np.zeros(0))
        self._join()
        bad = self._outcomes[0][:, OUTCOMES.index(name)]
        known = bad != _UNKNOWN
        numbers = np.cumsum(known) - 1
        records = np.repeat(np.arange(len(known)), self._lengths[0])
        chosen = known[records]
        return AnswerTable(
            numbers[records[chosen]],
            self._documents[0][chosen].astype(np.intp),
            self._group_of[0][known].astype(np.intp),
            bad[known].astype(np.float64),
        )

    def _join(self) -> None:
        """Make one part of all."""
        self._documents = [np.concatenate(self._documents)]
        self._lengths = [np.concatenate(self._lengths)]
        self._sequences = [np.concatenate(self._sequences)]
        self._group_of = [np.concatenate(self._group_of)]
        self._outcomes = [np.concatenate(self._outcomes)]

    def _thin(self) -> None:
        """Let every second answer go."""
        self._join()
        self._level += 1
        kept = _is_kept(self._sequences[0], self._level)
        self._documents = [self._documents[0][np.repeat(kept, self._lengths[0])]]
        self._lengths = [self._lengths[0][kept]]
        self._sequences = [self._sequences[0][kept]]
        self._group_of = [self._group_of[0][kept]]
        self._outcomes = [self._outcomes[0][kept]]
        self._size = len(self._documents[0])


class AnswerTable:
    """Answers of which one outcome is known."""

    def __init__(
        self,
        records: Integers,
        documents: Integers,
        groups: Integers,
        bad: NDArray[np.float64],
    ) -> None:
        """Take the columns.

        Args:
            records: answer of each retrieved document, ascending; those of one by rank.
            documents: number of each.
            groups: number of each answer's pipeline and version.
            bad: 1 or 0 for each answer.
        """
        self.records = records
        self.documents = documents
        self.groups = groups
        self.bad = bad

    def __len__(self) -> int:
        return len(self.bad)

    def without(self, document: int) -> "AnswerTable":
        """The answers that had not this document."""
        kept = np.ones(len(self), dtype=np.bool_)
        kept[self.records[self.documents == document]] = False
        numbers = np.cumsum(kept) - 1
        chosen = kept[self.records]
        return AnswerTable(
            numbers[self.records[chosen]],
            self.documents[chosen],
            self.groups[kept],
            self.bad[kept],
        )


def _is_kept(sequences: NDArray[np.integer], level: int) -> NDArray[np.bool_]:
    """An even sample that depends on the numbers alone, and shrinks with the level."""
    mixed = (sequences.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    kept: NDArray[np.bool_] = (mixed >> np.uint64(40)) % np.uint64(1 << level) == 0
    return kept
