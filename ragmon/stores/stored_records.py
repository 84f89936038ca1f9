"""Records of blocks as readers see them: mapped again since, and amended, in every store."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ragmon.stores import amendments


class RecordTable(Protocol):
    """Blocks by the records that they hold."""

    def holding(self, sequence: int) -> tuple[int, list[msgspec.Raw]] | None:
        """The block that holds a record, and its records; None where it is damaged or gone."""
        ...


class StoredRecords(ABC):
    """Single records of blocks; each store asks for amendments in its own way."""

    _table: RecordTable

    def records(self, first_sequence: int) -> list[bytes]:
        """The records of one block; none when it was deleted meanwhile, or is damaged."""
        block = self._table.holding(first_sequence)
        # It may also have been joined to its neighbours: then some of theirs follow.
        if block is None:
            return []
        records = [*map(bytes, block[1][first_sequence - block[0] :])]
        for at, revised in self._revised(first_sequence, len(records)).items():
            records[at] = revised
        return records

    def some_records(self, first_sequence: int, places: Sequence[int]) -> dict[int, bytes]:
        """Records of one block by their place in it; those that are damaged or gone are missing."""
        block = self._table.holding(first_sequence)
        if block is None:
            return {}
        before, records = first_sequence - block[0], block[1]
        some = {at: bytes(records[before + at]) for at in places if before + at < len(records)}
        revised = self._revised(first_sequence, max(some, default=-1) + 1)
        return {at: revised.get(at, record) for at, record in some.items()}

    def record(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """One record with its amendments; None where it is damaged or gone."""
        block = self._table.holding(sequence)
        if block is None:
            return None
        body = self._amended(sequence, 1).get(sequence)
        revised = None if body is None else amendments.revised(body)
        return revised or bytes(block[1][sequence - block[0]]), body

    @abstractmethod
    def _amended(self, first: int, records: int) -> dict[int, bytes]:
        """The amendments of a block's records, save those that are damaged."""

    @abstractmethod
    def _revised(self, first: int, records: int) -> dict[int, bytes]:
        """The records of a block that were mapped again, by their place in it."""
