"""Sizes of all entries of a quarantine, in memory so that its limits cost no scan."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ragmon.stores.quarantine import STAGES, QuarantineBounds, Stage

MOST_NAME = 500  # characters
MOST_ERROR = 2_000


class EntrySize(NamedTuple):
    """Stage and stored size of an entry."""

    stage: Stage
    size_bytes: int


class QuarantineChange(NamedTuple):
    """A change within a transaction, to be applied to the sizes once that is durable."""

    added: dict[int, EntrySize]
    gone: list[int]
    counted: Counter[tuple[str, ...]]


class QuarantineSizes:
    """Sizes by number, oldest first; what others look at is replaced, never changed."""

    def __init__(
        self, bounds: QuarantineBounds, entries: Iterable[tuple[int, Stage, int | None]]
    ) -> None:
        self._bounds = bounds
        self._sizes = {number: EntrySize(stage, size or 0) for number, stage, size in entries}
        self.totals: Mapping[tuple[str, ...], int] = {}
        self.counts: Mapping[str, int] = {}
        self._count()

    def __contains__(self, number: int) -> bool:
        return number in self._sizes

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def apply(self, change: QuarantineChange) -> None:
        """Count a change whose transaction is durable."""
        self._sizes |= change.added
        for number in change.gone:
            self._sizes.pop(number, None)
        if change.counted:
            self.totals = Counter(self.totals) + change.counted
        self._count()

    def surplus(self, change: QuarantineChange) -> list[int]:
        """The oldest entries that must go so that the rest is within the limits."""
        sizes = {**self._sizes, **change.added}
        for number in change.gone:
            sizes.pop(number, None)
        size_bytes = sum(size.size_bytes for size in sizes.values())
        gone: list[int] = []
        for number, size in sizes.items():
            left = len(sizes) - len(gone)
            if left <= self._bounds.entries and size_bytes <= self._bounds.size_bytes:
                break
            gone.append(number)
            size_bytes -= size.size_bytes
        return gone

    def _count(self) -> None:
        counts = Counter(size.stage for size in self._sizes.values())
        self.counts = {stage: counts[stage] for stage in STAGES}
