"""Summaries of blocks: what a search may know of one without opening it.

The store keeps them as bytes; ``ragmon.queries.summaries`` makes and reads them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class BlockOutline(NamedTuple):
    """Place and times of a block, with its facts as far as they are known."""

    first_sequence: int
    records: int
    first_timestamp: float
    last_timestamp: float
    layout: int = 0  # of the facts
    facts: bytes | None = None


class DueSummary(NamedTuple):
    """A block whose summary is missing, or of other signals."""

    first_sequence: int
    records: int
    needs_keys: bool


class SummaryRow(NamedTuple):
    """A summary as it is stored."""

    first_sequence: int
    layout: int
    facts: bytes
    keys: bytes | None  # None: those that are stored still hold


class Summaries(Protocol):
    """Summaries of blocks; one whose block changes is deleted with that change."""

    def begin(self, blocks: Sequence[DueSummary]) -> None:
        """Watch these blocks: the summaries of those that change are not put."""
        ...

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Keep the summaries of blocks that did not change since ``begin``; returns how many."""
        ...
