"""Counts by document, in columns that grow."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.intp]
Counts = NDArray[np.int64]

COLUMNS = ("rank_sum", "with_citations", "cited", "relevant", "below_k", "after", "missed")
_ROOM = 1_024  # documents at first
_PENDING = 1_000_000  # entries of ``DayCounts`` before they are summed up


class Tallies:
    """Counts of each document, by its number."""

    def __init__(self, ranks: int) -> None:
        """Make room for the first; ``ranks`` are told apart."""
        self._ranks = np.zeros((_ROOM, ranks), dtype=np.int64)
        self._counts = np.zeros((_ROOM, len(COLUMNS)), dtype=np.int64)
        self._first = np.full(_ROOM, np.inf)
        self._last = np.full(_ROOM, -np.inf)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def size_bytes(self) -> int:
        """Memory that they take."""
        columns = (self._ranks, self._counts, self._first, self._last)
        return sum(column.nbytes for column in columns)

    @property
    def ranks(self) -> Counts:
        """Answers by document and rank; shape (documents, ranks)."""
        return self._ranks[: self._size]

    @property
    def first(self) -> NDArray[np.float64]:
        """Unix seconds of the first retrieval; infinity without one."""
        return self._first[: self._size]

    @property
    def last(self) -> NDArray[np.float64]:
        """Unix seconds of the last retrieval; minus infinity without one."""
        return self._last[: self._size]

    def column(self, name: str) -> Counts:
        """One of ``COLUMNS``, by document."""
        return self._counts[: self._size, COLUMNS.index(name)]

    def grow(self, documents: int) -> None:
        """Make room for so many documents."""
        self._size = max(self._size, documents)
        room = len(self._first)
        if self._size <= room:
            return
        more = max(self._size, 2 * room) - room
        self._ranks = np.pad(self._ranks, ((0, more), (0, 0)))
        self._counts = np.pad(self._counts, ((0, more), (0, 0)))
        self._first = np.pad(self._first, (0, more), constant_values=np.inf)
        self._last = np.pad(self._last, (0, more), constant_values=-np.inf)

    def add(
        self,
        documents: Integers,
        ranks: Integers,
        times: NDArray[np.float64],
        counts: Mapping[str, NDArray[np.generic]],
    ) -> None:
        """Count retrievals.

        Args:
            documents: number of each, as are the next.
            ranks: from 0, at most those that are told apart.
            times: unix seconds.
            counts: by column.
        """
        known, to = np.unique(documents, return_inverse=True)
        width = self._ranks.shape[1]
        cells = np.bincount(to * width + ranks, minlength=len(known) * width)
        self._ranks[known] += cells.reshape(len(known), width)
        for name, values in counts.items():
            summed = np.bincount(to, values.astype(np.float64), minlength=len(known))
            self._counts[known, COLUMNS.index(name)] += summed.astype(np.int64)
        np.minimum.at(self._first, documents, times)
        np.maximum.at(self._last, documents, times)

    def add_missed(self, document: int, times: int) -> None:
        """Count answers for which a document was relevant and not retrieved."""
        self.grow(document + 1)
        self._counts[document, COLUMNS.index("missed")] += times
        self._counts[document, COLUMNS.index("relevant")] += times


class DayCount(NamedTuple):
    """Days of one document, in order, and how often it was cited on each."""

    days: Counts
    times: Counts


class DayCounts:
    """Citations by document and day."""

    def __init__(self) -> None:
        self._keys: Counts = np.zeros(0, dtype=np.int64)
        self._times: Counts = np.zeros(0, dtype=np.int64)
        self._pending: list[Counts] = []
        self._waiting = 0

    def add(self, documents: Integers, days: Counts) -> None:
        """Count citations; days since 1970."""
        self._pending.append(documents.astype(np.int64) << 32 | days)
        self._waiting += len(documents)
        if self._waiting > _PENDING:
            self._sum_up()

    def of(self, document: int) -> DayCount:
        """The days of one document."""
        if self._pending:
            self._sum_up()
        begin, end = np.searchsorted(self._keys, [document << 32, (document + 1) << 32])
        return DayCount(self._keys[begin:end] & 0xFFFFFFFF, self._times[begin:end])

    def _sum_up(self) -> None:
        keys, times = np.unique(np.concatenate(self._pending), return_counts=True)
        self._pending, self._waiting = [], 0
        every = np.concatenate([self._keys, keys])
        self._keys, to = np.unique(every, return_inverse=True)
        weights = np.concatenate([self._times, times]).astype(np.float64)
        self._times = np.bincount(to, weights, minlength=len(self._keys)).astype(np.int64)
