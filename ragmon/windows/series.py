"""Table of series: each pipeline as a whole, and each value of each of its slices.

Their number is bounded. Values beyond the limit are counted under ``other`` and in ``dropped``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.records import QueryRecord

OTHER = "other"
VERSION = "version"


class SeriesKey(NamedTuple):
    """One series; ``dimension`` is empty for a pipeline as a whole."""

    pipeline: str
    dimension: str = ""
    value: str = ""


Dims = tuple[str, ...]
"""(pipeline, version, value of each configured slice); an empty value means *not recorded*."""


FIELD_SLICES = frozenset({"model", "environment"})
"""Slices whose value is that of the field where a record has no such tag."""


def dims_of(record: QueryRecord, slices: Sequence[str]) -> Dims:
    """The pipeline, version and slice values of a record."""
    if not slices:
        return (record.pipeline, record.version)
    return dims_of_each([record], slices)[0]


def dims_of_each(records: Sequence[QueryRecord], slices: Sequence[str]) -> list[Dims]:
    """``dims_of`` every record, at half the cost."""
    columns = [[record.pipeline for record in records], [record.version for record in records]]
    tags = [record.tags or {} for record in records] if slices else []
    for name in slices:
        values = [each.get(name, "") for each in tags]
        if name in FIELD_SLICES:
            values = [
                value or getattr(record, name) or ""
                for value, record in zip(values, records, strict=True)
            ]
        columns.append(values)
    return list(zip(*columns, strict=True))


class Membership(NamedTuple):
    """The series that a record is counted in, and how many of them are ``other``."""

    numbers: tuple[int, ...]
    dropped: int


class SeriesTable:
    """Series by number: at most ``limit`` by name, and an ``other`` wherever one is needed.

    Args:
        limit: pipelines and slice values that are told apart.
        slices: tags that are counted apart, besides the version.
    """

    def __init__(self, limit: int, slices: Sequence[str] = ()) -> None:
        dimensions = (VERSION, *slices)
        self.capacity = (limit + 1) * (1 + len(dimensions))
        self._limit = limit
        # The shared ``other`` series, which always exist.
        self._rest = (SeriesKey(OTHER), *(SeriesKey(OTHER, each, OTHER) for each in dimensions))
        self._named = 0
        self.keys: dict[SeriesKey, int] = {}
        self._last_seen = np.zeros(self.capacity)
        self._members: dict[tuple[Dims, tuple[str, ...]], Membership] = {}
        self._free = list(range(self.capacity - 1, -1, -1))
        for key in self._rest:
            self.number(key)

    def __len__(self) -> int:
        """One more than the highest number in use."""
        return max(self.keys.values()) + 1

    def number(self, key: SeriesKey) -> int | None:
        """The number of a series, which begins to exist; None when the table is full."""
        number = self.keys.get(key)
        room = self._free and (_is_other(key) or self._named < self._limit)
        if number is None and room:
            number = self.keys[key] = self._free.pop()
            self._named += not _is_other(key)
        return number

    def membership(self, dims: Dims, slices: tuple[str, ...]) -> Membership:
        """The series that a record with these dims belongs to, the pipeline's own first."""
        membership = self._members.get((dims, slices))
        if membership is None:
            if len(self._members) > 4 * self.capacity:
                self._members.clear()  # bounded, whatever the clients send
            membership = self._members[dims, slices] = self._resolve(dims, slices)
        return membership

    def seen(self, numbers: NDArray[np.int64], when: ArrayLike) -> None:
        """Note that each of the series has an observation at that moment."""
        np.maximum.at(self._last_seen, numbers, when)

    def last_seen(self) -> dict[SeriesKey, float]:
        """The newest observation of each series, unix seconds; 0.0 for those without one."""
        return {key: float(self._last_seen[number]) for key, number in self.keys.items()}

    def forget(self, before: float) -> list[int]:
        """Drop the series last seen before that moment; returns their numbers."""
        stale = {
            key: number
            for key, number in self.keys.items()
            if key not in self._rest and self._last_seen[number] < before
        }
        for key, number in stale.items():
            del self.keys[key]
            self._named -= not _is_other(key)
            self._last_seen[number] = 0.0
            self._free.append(number)
        if stale:
            self._members.clear()
        return list(stale.values())

    def _resolve(self, dims: Dims, slices: tuple[str, ...]) -> Membership:
        pipeline, version, *values = dims
        whole = self.number(SeriesKey(pipeline))
        pairs = [(VERSION, version)]
        pairs += [(name, value) for name, value in zip(slices, values, strict=True) if value]
        if whole is None:
            rest = [self._other(OTHER, dimension) for dimension, _ in pairs]
            return Membership(tuple(_present([self.keys[self._rest[0]], *rest])), 1)
        own = [self.number(SeriesKey(pipeline, *pair)) for pair in pairs]
        numbers = [
            self._other(pipeline, dimension) if number is None else number
            for (dimension, _), number in zip(pairs, own, strict=True)
        ]
        return Membership(tuple(_present([whole, *numbers])), own.count(None))

    def _other(self, pipeline: str, dimension: str) -> int | None:
        """The pipeline's own ``other`` of a dimension, or the shared one in a full table."""
        number = self.number(SeriesKey(pipeline, dimension, OTHER))
        return self.number(SeriesKey(OTHER, dimension, OTHER)) if number is None else number


def _is_other(key: SeriesKey) -> bool:
    return key.value == OTHER or key == SeriesKey(OTHER)


def _present(numbers: Iterable[int | None]) -> Iterator[int]:
    return (number for number in numbers if number is not None)
