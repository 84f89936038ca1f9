"""Queries in the least space: of each its time, its slices and what losses are made of."""

from collections.abc import Iterator

import numpy as np
import xxhash
from msgspec import Struct, field
from numpy.typing import NDArray

from ragmon.detectors.losses import sources
from ragmon.windows.observations import Observations, index_dims
from ragmon.windows.series import Dims

MOST_REFUSALS = 10


class Refusal(Struct, frozen=True):
    """A line that is no query."""

    path: str
    line: int
    field: str
    error: str
    remedy: str


class Queries(Struct, frozen=True):
    """Everything that was read."""

    observations: Observations  # in any order
    columns: tuple[str, ...]  # of the observations
    duplicates: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()  # the first of them


class Gatherer(Struct):
    """Batches of observations, put together without what detectors do not look at."""

    columns: tuple[str, ...]
    slices: tuple[str, ...]
    duplicates: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    _parts: list[Observations] = field(default_factory=list)
    _ids: list[NDArray[np.uint64]] = field(default_factory=list)

    def add(self, batch: Observations, ids: list[str] | None = None) -> None:
        """Keep a batch over ``columns``.

        Args:
            batch: what was observed.
            ids: query ids by which later repeats are found, "" where a query has none; None when
                there are no repeats.
        """
        kept = [self.columns.index(name) for name in sources(self.columns)]
        dims, index = index_dims(list(self._widened(batch)))
        values = batch.values[:, kept]
        self._parts.append(
            Observations(self.slices, dims, index[batch.dim_index], batch.timestamps, values)
        )
        hashed = [xxhash.xxh3_64_intdigest(each.encode()) if each else 0 for each in ids or ()]
        self._ids.append(np.array(hashed or [0] * len(batch), dtype=np.uint64))

    def refuse(self, refusal: Refusal) -> None:
        """Count a line that is no query."""
        self.refused += 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(refusal)

    def build(self) -> Queries:
        """Everything; of repeated ids the first."""
        columns = sources(self.columns)
        values = np.zeros((0, len(columns)))
        nothing = Observations(self.slices, [], np.zeros(0, np.int32), np.zeros(0), values)
        whole = Observations.concatenate([nothing, *self._parts])
        kept = _first_of_each(np.concatenate([np.zeros(0, np.uint64), *self._ids]))
        return Queries(
            whole if kept.all() else whole.select(kept),
            columns,
            duplicates=int(len(kept) - kept.sum()),
            refused=self.refused,
            refusals=tuple(self.refusals),
        )

    def _widened(self, batch: Observations) -> Iterator[Dims]:
        """Dims over the slices in force now; others are merged."""
        for dims in batch.dims:
            values = dict(zip(batch.slices, dims[2:], strict=True))
            yield (dims[0], dims[1], *(values.get(name, "") for name in self.slices))


def _first_of_each(ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of the queries that are not repeats of an earlier one; an id of 0 is none."""
    kept: NDArray[np.bool_] = ids == 0
    kept[np.unique(ids, return_index=True)[1]] = True
    return kept
