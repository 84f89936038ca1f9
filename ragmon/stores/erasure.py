"""Sub-stores of erasure: the requests, and the changes that they make in blocks and alerts."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct


class ErasureRow(NamedTuple):
    """A request to erase somebody's content, and what became of it."""

    number: int
    at: float  # unix seconds
    subject: str  # in clear until its content is erased; then a hash
    body: bytes


class AlertRow(NamedTuple):
    """A stored transition of an alert, or a notice of an incident."""

    place: tuple[int, int]
    event: bytes
    is_notice: bool


class ErasedBlock(Struct, frozen=True, kw_only=True):
    """A block with some records erased."""

    first_sequence: int
    stored: bytes  # the block as it was read, to tell whether it changed meanwhile
    body: bytes  # the block from now on, as ``pack`` made it
    sequences: Sequence[int]  # of the erased records
    amend: Callable[[int, bytes], bytes]  # erases amendments of one of them


class BlockErasure(Protocol):
    """Erasure of content within the blocks of a shard."""

    def pack(self, records: bytes, first_sequence: int) -> bytes:
        """The body of a block from one msgpack array; may be called beside the writer."""
        ...

    def swap(self, block: ErasedBlock, row: Callable[[], ErasureRow] | None) -> bool:
        """Replace the records of a block, all or nothing; False when it changed meanwhile.

        Its amendments change with it, its answers are no longer awaited by the sampled judge,
        and with ``row``, called last, the request remembers it.
        """
        ...

    def delete_waiting(self, hashes: Iterable[int]) -> int:
        """Delete feedback and labels that wait for these queries; returns how many."""
        ...

    def purge(self) -> bool:
        """Take one step to overwrite what was deleted; True when no more is left to do."""
        ...


class ErasureRequestLog(Protocol):
    """Requests to erase somebody's content, and erasure of what alerts quote."""

    def add(self, at: float, subject: str, body: bytes) -> int:
        """Keep a request; returns its number."""
        ...

    def rows(self) -> list[ErasureRow]:
        """Every request, the oldest first."""
        ...

    def update(self, row: ErasureRow) -> None:
        """Replace a request by what it is now."""
        ...

    def alert_rows(self, after: tuple[int, int], limit: int) -> list[AlertRow]:
        """Transitions and notices behind a place, in a fixed order, some at a time."""
        ...

    def update_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Replace the bodies of transitions and notices, all or nothing."""
        ...

    def book(self) -> bytes | None:
        """The alerts as they were saved; None before the first turn of detection."""
        ...

    def update_book(self, body: bytes) -> None:
        """Replace the alerts as they were saved."""
        ...
