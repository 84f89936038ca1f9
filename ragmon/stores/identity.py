"""Index of the stored query ids, at a cost that does not grow with how many there are.

A B-tree on random ids dirties one page a record. Here the hashes of the newest records wait in
memory; every ``RUN`` of them is sorted and written once as a run of packed pages, and a
Bloom filter in memory answers for the runs, so that a new id almost never touches the disk.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from ragmon.errors import StoreCorruptError
from ragmon.stores.damage import Damage
from ragmon.stores.recent_hashes import RecentHashes

Hashes = NDArray[np.uint64]

RUN = 1 << 17
PAGE = 240  # entries of 16 bytes: with its key it fits a page of 4 KB
_GENERATION = 32 * RUN  # ids in one filter
_WORDS = _GENERATION * 16 // 64  # 16 bits an id
_PROBES = 5

ENTRY = np.dtype([("hash", "<u8"), ("sequence", "<i8")])


def store_name(seed: int) -> str:
    """A name of a store, from the seed of its hashes, which it cannot be told from."""
    return f"{hash_id('store', seed) & 0xFFFFFFFF:08x}"


def hash_id(query_id: str, seed: int) -> int:
    """64-bit hash of an id; the seed is the store's own, so that nobody can aim at a collision."""
    return xxhash.xxh3_64_intdigest(query_id.encode(), seed)


class Filter:
    """Register-blocked Bloom filter: one 64-bit word an id, about 0.3 % false positives.

    Source: Putze, Sanders and Singler (2007), Cache-, Hash- and Space-Efficient Bloom Filters.
    """

    def __init__(self) -> None:
        self._words = np.zeros(_WORDS, dtype=np.uint64)
        self.size = 0

    def add(self, hashes: Hashes) -> None:
        """Remember them."""
        word, mask = _probe(hashes)
        np.bitwise_or.at(self._words, word, mask)
        self.size += len(hashes)

    def may_hold(self, hashes: Hashes) -> NDArray[np.bool_]:
        """False: surely not added. True: probably added."""
        word, mask = _probe(hashes)
        may_hold: NDArray[np.bool_] = (self._words[word] & mask) == mask
        return may_hold

    @property
    def full(self) -> bool:
        """True when another run would raise the rate of false positives."""
        return self.size + RUN > _GENERATION


def _probe(hashes: Hashes) -> tuple[NDArray[np.int64], Hashes]:
    """The word of each hash, and its bits within the word."""
    word = (hashes >> np.uint64(40)) % np.uint64(_WORDS)
    mask = np.zeros(len(hashes), dtype=np.uint64)
    for probe in range(_PROBES):
        mask |= np.uint64(1) << (hashes >> np.uint64(6 * probe) & np.uint64(63))
    return word.astype(np.int64), mask


def pack_run(hashes: Hashes, sequences: NDArray[np.int64]) -> list[tuple[int, bytes]]:
    """A run as (first hash, packed entries) of each piece, in the order of the hashes."""
    order = np.argsort(hashes)
    entries = np.empty(len(hashes), dtype=ENTRY)
    entries["hash"] = hashes[order]
    entries["sequence"] = sequences[order]
    return [
        (signed(int(entries["hash"][start])), entries[start : start + PAGE].tobytes())
        for start in range(0, len(entries), PAGE)
    ]


def find_in_page(page: bytes, query_hash: int) -> int | None:
    """Sequence number of a hash in a packed page."""
    entries = np.frombuffer(page, dtype=ENTRY)
    at = int(np.searchsorted(entries["hash"], np.uint64(query_hash)))
    if at < len(entries) and int(entries["hash"][at]) == query_hash:
        return int(entries["sequence"][at])
    return None


def signed(query_hash: int) -> int:
    """The hash as a database's signed integer, in the same order."""
    return query_hash - (1 << 63)


def unsigned(stored: int) -> int:
    """The inverse of ``signed``."""
    return stored + (1 << 63)


class RunTable(Protocol):
    """The stored runs of one shard, each named by its last sequence number.

    What is damaged raises StoreCorruptError.
    """

    def names(self) -> list[int]:
        """Every run, in order."""
        ...

    def hashes(self, run: int) -> Hashes:
        """The hashes of a run, every page of it verified."""
        ...

    def page(self, run: int, query_hash: int) -> bytes | None:
        """The entries among which a hash would be; None where the run begins behind it."""
        ...

    def write(self, run: int, pages: Sequence[tuple[int, bytes]]) -> None:
        """Write a run in the place of one of its name, as ``pack_run`` made it."""
        ...

    def delete(self, run: int) -> None:
        """Forget a run."""
        ...


class IndexedBlocks(Protocol):
    """The blocks that an index is of."""

    def from_sequence(self, sequence: int) -> Iterator[int]:
        """First sequence numbers of the blocks, in order: from the one that holds a record on."""
        ...

    def hashes(self, first: int) -> Hashes | None:
        """The hashes of one block; None where it is damaged or gone."""
        ...

    def holds(self, sequence: int) -> bool:
        """True for a record that was not deleted; also where that cannot be read."""
        ...

    def locate(self, sequence: int) -> tuple[int, int] | None:
        """The block that holds a record: its first sequence number and how many it holds."""
        ...


def remembering(blocks: IndexedBlocks) -> Callable[[int], bool]:
    """``holds``, for many records that lie close together: a block is asked for once."""
    spans: dict[int, int] = {}  # end by beginning, of the block that was found last

    def holds(sequence: int) -> bool:
        if any(first <= sequence < end for first, end in spans.items()):
            return True
        spans.clear()
        place = blocks.locate(sequence)
        if place is None:
            return blocks.holds(sequence)  # it cannot be read, or is gone
        spans[place[0]] = sum(place)
        return True

    return holds


class IdIndex:
    """Hash of a query id to sequence number, for every stored record."""

    def __init__(self, table: RunTable, blocks: IndexedBlocks, damage: Damage) -> None:
        self._runs = table
        self._table = blocks
        self._damage = damage
        self._tail = RecentHashes()
        self._generations: list[tuple[Filter, list[int]]] = []  # oldest first, with their runs
        self._indexed_to = 0
        self._load()

    @property
    def next_sequence(self) -> int:
        """The first number beyond every run, also where its records are gone."""
        return self._indexed_to

    @property
    def run_due(self) -> bool:
        """True when as many wait as make a run."""
        return len(self._tail) >= RUN

    def add(self, hashes: Hashes, first_sequence: int) -> None:
        """Remember records just committed."""
        self._tail.add(hashes, first_sequence)

    def find_many(self, hashes: Hashes) -> list[int | None]:
        """Sequence numbers of those that are stored; most are not, which costs little."""
        holds = remembering(self._table)
        sequences = self._tail.get_many(hashes)
        for at, sequence in enumerate(sequences):
            if sequence is not None and not holds(sequence):
                sequences[at] = None
        for filter_, runs in reversed(self._generations):
            for at in np.flatnonzero(filter_.may_hold(hashes)).tolist():
                if sequences[at] is None:
                    sequences[at] = self._find_in_runs(runs, int(hashes[at]), holds)
        return sequences

    def find(self, query_hash: int) -> int | None:
        """Sequence number of one of them; the newest runs are asked first."""
        holds = self._table.holds
        one = np.array([query_hash], dtype=np.uint64)
        sequence = self._tail.get_many(one)[0]
        if sequence is not None and holds(sequence):
            return sequence
        for filter_, runs in reversed(self._generations):
            if filter_.may_hold(one)[0]:
                sequence = self._find_in_runs(runs, query_hash, holds)
                if sequence is not None:
                    return sequence
        return None

    def write_run(self) -> None:
        """Move those that wait into a run on disk."""
        hashes, sequences = self._tail.entries()
        run = int(sequences.max())
        self._store_run(run, hashes, sequences)
        self._remember(run, hashes)
        self._tail.clear()
        self._indexed_to = run + 1

    def _store_run(self, run: int, hashes: Hashes, sequences: NDArray[np.int64]) -> None:
        self._runs.write(run, pack_run(hashes, sequences))

    def drop_runs(self, below: int) -> None:
        """Forget the runs all of whose records were deleted."""
        for _, runs in self._generations:
            for run in [run for run in runs if run < below]:
                self._runs.delete(run)
                runs.remove(run)
        self._generations = [each for each in self._generations if each[1]]

    def _load(self) -> None:
        for run in self._runs.names():
            try:
                hashes = self._runs.hashes(run)
            except StoreCorruptError as error:
                self._damage.note("run", run, error)
                hashes = self._rebuild_run(run)
            self._remember(run, hashes)
            self._indexed_to = run + 1
        for first in self._table.from_sequence(self._indexed_to):
            block = self._table.hashes(first)
            if block is not None:
                skip = max(0, self._indexed_to - first)
                self.add(block[skip:], first + skip)

    def _rebuild_run(self, run: int) -> Hashes:
        """Write a damaged run anew, from the blocks that it indexes."""
        hashes: list[Hashes] = []
        sequences: list[NDArray[np.int64]] = []
        older = [each for _, runs in self._generations for each in runs if each < run]
        begin = max(older, default=-1) + 1
        for first in self._table.from_sequence(begin):
            if first > run:
                break
            block = self._table.hashes(first)
            if block is not None:
                skip, end = max(0, begin - first), min(len(block), run + 1 - first)
                hashes.append(block[skip:end])
                sequences.append(np.arange(first + skip, first + end))
        if not hashes:
            hashes, sequences = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        joined = np.concatenate(hashes)
        self._store_run(run, joined, np.concatenate(sequences))
        return joined

    def _remember(self, run: int, hashes: Hashes) -> None:
        if not self._generations or self._generations[-1][0].full:
            self._generations.append((Filter(), []))
        filter_, runs = self._generations[-1]
        filter_.add(hashes)
        runs.append(run)

    def _find_in_runs(
        self, runs: list[int], query_hash: int, holds: Callable[[int], bool]
    ) -> int | None:
        """Sequence number of a record; a run is deleted only when the last of its records is."""
        for run in reversed(runs):
            try:
                sequence = self._find_in_run(run, query_hash)
            except StoreCorruptError as error:
                self._damage.note("run", run, error)
                self._rebuild_run(run)
                sequence = self._find_in_run(run, query_hash)
            if sequence is not None and holds(sequence):
                return sequence
        return None

    def _find_in_run(self, run: int, query_hash: int) -> int | None:
        page = self._runs.page(run, query_hash)
        return None if page is None else find_in_page(page, query_hash)
