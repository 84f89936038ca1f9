"""Look-up of stored queries by id: by its hash, and then the id itself is compared.

Two ids may have the same hash. The one that comes later takes its next hash, so neither is
mistaken for a duplicate of the other.
"""

import itertools
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.errors import StoreBodiesError
from ragmon.privacy.erasure import is_erased
from ragmon.stores.ports import Shard


class _Identified(Struct):
    query_id: str


_decode = msgspec.msgpack.Decoder(_Identified).decode


def stored_id(record: bytes) -> str:
    """Id of a query, as its stored record has it."""
    return _decode(record).query_id


class RecordLocation(NamedTuple):
    """The place at which a query is stored, or would be."""

    query_hash: int
    sequence: int | None  # None: it is not stored


class Identities:
    """Looks ids up in a store."""

    def __init__(self, shard: Shard, record: Callable[[int], bytes | None]) -> None:
        self._shard = shard
        self._record = record  # one stored record, by its sequence number

    def find(self, query_id: str, taken: Container[int] = ()) -> RecordLocation:
        """The place of one id.

        Args:
            query_id: of the query.
            taken: hashes about to be stored with other ids.
        """
        for attempt in itertools.count():
            query_hash = self._shard.hash(query_id, attempt)
            if query_hash in taken:
                continue
            sequence = self._shard.find(query_hash)
            if sequence is None or self._has_id(sequence, query_id):
                return RecordLocation(query_hash, sequence)
        raise AssertionError("every id has a place")  # pragma: no cover

    def find_all(self, query_ids: Sequence[str]) -> tuple[list[int], list[bool]]:
        """The hash of each id, and whether it is stored; most are not, which costs little."""
        hashes = [self._shard.hash(each) for each in query_ids]
        sequences = self._shard.find_many(np.array(hashes, dtype=np.uint64))
        stored = [False] * len(hashes)
        hits = [(sequence, at) for at, sequence in enumerate(sequences) if sequence is not None]
        for sequence, at in sorted(hits):  # as they are stored, so that a block is opened once
            stored[at] = self._has_id(sequence, query_ids[at])
            if not stored[at]:  # another id has its hash
                hashes[at], place = self.find(query_ids[at])
                stored[at] = place is not None
        return hashes, stored

    def order(self, query_ids: Sequence[str]) -> list[int]:
        """Indices in the order in which the queries are stored; those that are not come first."""
        if len(query_ids) < 2:
            return [*range(len(query_ids))]
        hashes = np.array([self._shard.hash(query_id) for query_id in query_ids], dtype=np.uint64)
        sequences = self._shard.find_many(hashes)
        first = [-1 if sequence is None else sequence for sequence in sequences]
        return sorted(range(len(first)), key=first.__getitem__)

    def _has_id(self, sequence: int, query_id: str) -> bool:
        try:
            stored = self._record(sequence)
        except StoreBodiesError:  # the object store is away
            stored = None
        if stored is None:
            # What cannot be read is taken for the one that is asked for: hashes of 64 bits are
            # hardly ever alike, and what was sent again must not count twice.
            return True
        known = stored_id(stored)
        return known == query_id or is_erased(known)  # the hash is all that is left of its id
