"""Quarantine of a store: what could not be decoded, mapped or judged, kept to be looked at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, get_args

from msgspec import Struct

Stage = Literal["decode", "map", "judge", "send"]
"""Station at which something failed; notifications (send) are kept as dead letters."""
STAGES: tuple[Stage, ...] = get_args(Stage)


class QuarantinedItem(NamedTuple):
    """Something to be kept."""

    stage: Stage
    reason: str  # out of a small set: it is a label of metrics
    at: float  # unix seconds
    name: str  # for people: a trace id, a file with its byte, a query id
    error: str
    body: bytes  # see ``ragmon.quarantine``; empty when nothing could be kept
    attempts: int = 0  # made by `ragmon quarantine retry`


class QuarantineRow(NamedTuple):
    """Description of an entry, without its body."""

    number: int
    stage: Stage
    reason: str
    at: float
    name: str
    error: str
    attempts: int
    size_bytes: int  # compressed


class QuarantineBounds(Struct, frozen=True, kw_only=True):
    """Limits of the quarantine; beyond one, the oldest entries go."""

    entries: int = 10_000
    size_bytes: int = 64 << 20


class Quarantine(Protocol):
    """Entries with a number each, oldest first; owned by the writer's thread.

    Items also become durable as part of a ``Commit``, together with what was read beside them.
    Any thread may look at ``counts`` and ``totals``: they are replaced, never changed.
    """

    @property
    def counts(self) -> Mapping[str, int]:
        """Entries that are there, by stage."""
        ...

    @property
    def totals(self) -> Mapping[tuple[str, ...], int]:
        """Entries kept since the start, by stage and reason."""
        ...

    def put(self, items: Sequence[QuarantinedItem]) -> None:
        """Make them durable, or raise StoreError and change nothing.

        The same item (stage, name and body) takes the place of the one before.
        """
        ...

    def rows(self, limit: int, stage: str = "") -> list[QuarantineRow]:
        """Entries of a stage, or of all, the newest first."""
        ...

    def find(self, number: int) -> tuple[QuarantineRow, bytes] | None:
        """One entry with its body; None when there is none."""
        ...

    def note_attempt(self, number: int, error: str | None = None) -> None:
        """Count an attempt before it is made, or write down how the last one failed."""
        ...

    def delete(self, numbers: Iterable[int]) -> int:
        """Forget entries; returns how many there were."""
        ...

    def expire(self, before: float) -> int:
        """Forget what is older; returns how many entries that were."""
        ...
