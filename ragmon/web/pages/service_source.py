"""Protocol of what the page about ragmon itself is made of, and its answers."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ragmon.quarantine_schema import QuarantineList
from ragmon.stores.outlook import StoreOutlook


class SourceFacts(NamedTuple):
    """Counts of a source since the start."""

    name: str  # as metrics call it
    stored: int
    duplicates: int
    refused: int
    stored_at: float | None  # unix seconds of the last batch; None: none came since the start


class FollowedFacts(NamedTuple):
    """A source that ragmon reads by itself."""

    name: str
    unread_bytes: int | None  # None: it cannot tell
    turned_at: float  # unix seconds of the last look
    failures: int  # in a row


class RefusedFacts(NamedTuple):
    """Refusals of one kind since the start."""

    source: str
    reason: str
    refused: int
    newest_at: float | None  # unix seconds; None: no example is known
    example: str


class IngestFacts(NamedTuple):
    """The queue in front of the store."""

    queued_bytes: int
    limit_bytes: int
    waiting_changes: int  # feedback and labels whose query has not come
    failures: int  # commits that the store refused since the start
    used_memory: int
    memory_limit: int
    watermark: float | None  # unix seconds of the newest query that is counted


class SinkFacts(NamedTuple):
    """Attempts of one sink since the start."""

    name: str
    delivered: int
    retried: int
    given_up: int


class LoopFacts(NamedTuple):
    """A thread that goes round and round."""

    name: str
    turned_at: float  # unix seconds
    failures: int  # since the start
    failures_in_a_row: int
    problem: str  # empty: it turns


class ServiceFacts(NamedTuple):
    """Everything that is known at once."""

    problems: Sequence[str]  # reasons why it is not ready
    store: StoreOutlook
    limit: str  # setting, or disk, that limits the store
    retention_s: float
    ingest: IngestFacts
    sources: Sequence[SourceFacts]
    followed: Sequence[FollowedFacts]
    refused: Sequence[RefusedFacts]  # the last ones first
    sinks: Sequence[SinkFacts]
    loops: Sequence[LoopFacts]  # those with problems first


class ServiceSource(Protocol):
    """Source of the page."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def facts(self) -> ServiceFacts:
        """Facts about ragmon."""
        ...

    async def undelivered(self) -> tuple[int, float | None]:
        """Number of notifications that wait, and unix seconds of the oldest."""
        ...

    async def entries(self, limit: int) -> QuarantineList:
        """The newest entries of the quarantine, notifications that were given up included."""
        ...

    async def retry(self, name: str) -> None:
        """Try an entry again; one that fails stays, with the reason.

        Raises:
            KeyError: there is none.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete an entry.

        Raises:
            KeyError: there is none.
        """
        ...
