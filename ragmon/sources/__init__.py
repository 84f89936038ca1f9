"""Sources of logged queries, one file each.

A source decodes what it receives, hands batches to a sink (the daemon's writer) and gets a reply
once they are durable.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Raw, Struct

from ragmon.access import Pipelines
from ragmon.asgi import unavailable
from ragmon.clock import Clock
from ragmon.errors import OverloadedError, StoreError
from ragmon.loops import Loop, beat, wait_for
from ragmon.privacy import Policy
from ragmon.records import Draw, Feedback, Label, QueryRecord, Verdict
from ragmon.stores.protocols import SpanRow
from ragmon.stores.quarantine import QuarantinedItem

_RETRY_S = 1.0

Result = TypeVar("Result")


class IngestOutcome(Struct, frozen=True):
    """Outcome of a batch; with ``error`` nothing of it was kept."""

    accepted: int = 0
    duplicates: int = 0
    refused: Sequence[tuple[int, str]] = ()  # (position in the batch, reason)
    error: StoreError | None = None


@dataclass(slots=True, eq=False)
class Submission:
    """A batch that is committed as a whole, together with others."""

    source: str
    size_bytes: int
    reply: Callable[[IngestOutcome], None]
    records: Sequence[QueryRecord] = ()
    changes: Sequence[Feedback | Label | Verdict | Draw] = ()
    revisions: Sequence[QueryRecord] = ()  # queries as they are now, in place of the stored ones
    offsets: Sequence[tuple[str, bytes]] = ()  # (source, position) to remember with the batch
    pipelines: Pipelines | None = None  # whose queries the changes may be about; None: all
    quarantined: Sequence[QuarantinedItem] = ()  # kept with the batch
    places: Mapping[str, int] = field(
        default_factory=dict
    )  # numbers of records, where they are known
    claimed: Sequence[int] = ()  # rows of an inbox that hold the changes; they go with them
    spans: Sequence[SpanRow] = ()  # kept with the batch, until their trace is complete
    duplicates: int = 0
    is_answered: bool = False
    refused: list[tuple[int, str]] = field(default_factory=list)


class RecordSink(Protocol):
    """Receiver of a source's batches: the daemon's writer."""

    def submit(self, submission: Submission) -> None:
        """Queue a batch; its ``reply`` is called, on another thread, once it is durable.

        Raises:
            OverloadedError: the queue is full; nothing was kept.
        """
        ...


class IngestCounters(Protocol):
    """Counters of every source."""

    def accepted(self, source: str, count: int) -> None:
        """Records, feedback or labels made durable."""
        ...

    def duplicated(self, source: str, count: int) -> None:
        """Sent before, and not counted again."""
        ...

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        """Refused, for a reason out of a small set."""
        ...

    def note_refusal(self, source: str, reason: str, at: float, text: str) -> None:
        """Keep one of those that were refused as an example, for people."""
        ...

    def unmapped(self, source: str, field: str, count: int) -> None:
        """Originals without what the mapping of a field looks for."""
        ...


class ListedObject(NamedTuple):
    """An object of a store, as it is listed."""

    name: str
    size_bytes: int
    modified: str  # ISO 8601 with a zone, always of one length


class ObjectStore(Protocol):
    """The objects below one prefix; every method raises RagmonError when it does not answer."""

    def objects(self) -> Iterator[ListedObject]:
        """Every object, also in folders, in no order."""
        ...

    def get_into(self, name: str, file: IO[bytes]) -> None:
        """Write an object into an open file."""
        ...


OpenObjects = Callable[[str, str, str], ObjectStore]
"""Makes the store of a URL, an endpoint and a region."""


class SpanSink(Protocol):
    """Receiver of spans that a source commits together with its position."""

    @property
    def is_behind(self) -> bool:
        """True while so many spans wait to be mapped that a source should pause."""
        ...

    def decode(self, body: bytes, encoding: Literal["json", "protobuf"]) -> list[SpanRow]:
        """Spans of an ``ExportTraceServiceRequest``, as they are stored; the rest is counted.

        Raises:
            RecordError: it is no such request, or holds too much.
            MemoryLimitError: it would take too much memory.
        """
        ...

    def deliver(self, rows: Sequence[SpanRow]) -> None:
        """Take in spans that are durable now; called on the writer's thread only."""
        ...


class ScoreReader(Protocol):
    """Reader of scores that a source commits together with its position."""

    def changes(
        self, tool: Literal["langfuse", "phoenix"], scores: Sequence[Raw]
    ) -> list[Feedback | Label]:
        """Feedback and labels of scores as the tool's own SDK sends them; the rest is counted."""
        ...


class SourceContext(Struct, frozen=True, kw_only=True):
    """Dependencies of a configured source."""

    sink: RecordSink
    counters: IngestCounters
    clock: Clock
    offset: Callable[[str], bytes | None]  # how far a source was read, by its name
    retention_s: float
    max_skew_s: float
    text: Policy = "keep"  # for what is quarantined
    objects: OpenObjects | None = None  # None: there are no object stores
    spans: SpanSink | None = None  # None: traces are not taken
    scores: ScoreReader | None = None  # as spans


class Source(Protocol):
    """A running source, as a plug-in's ``build(options, context)`` returns it."""

    def start(self) -> None:
        """Begin, without waiting."""
        ...

    def stop(self) -> None:
        """End; what was submitted is still answered."""
        ...


class PartitionedSource(Source, Protocol):
    """A running source whose partitions several processes share."""

    loop: Loop
    last_turn_at: float | None  # monotonic seconds of the last turn that succeeded

    @property
    def loops(self) -> Sequence[Loop]:
        """The one loop."""
        ...

    @property
    def partitions(self) -> list[int]:
        """Those that this process has; for any thread."""
        ...


def unread_bytes(source: Source) -> int | None:
    """Bytes that a source knows of and has not read; None where it cannot tell."""
    unread: int | None = getattr(source, "unread_bytes", None)
    return unread


Make = Callable[[Callable[[IngestOutcome], None]], Submission]
"""Makes a submission with the given reply, anew for every attempt."""


def deliver(sink: RecordSink, make: Make, stop: threading.Event) -> IngestOutcome | None:
    """Submit until it is durable; None when ``stop`` is set first.

    An overloaded queue or a failed commit is tried again: nothing of the batch was kept.
    """
    while not stop.is_set():
        beat()
        done = threading.Event()
        outcomes: list[IngestOutcome] = []

        def reply(
            outcome: IngestOutcome, done: threading.Event = done, to: list[IngestOutcome] = outcomes
        ) -> None:
            to.append(outcome)
            done.set()

        try:
            sink.submit(make(reply))
        except OverloadedError:
            stop.wait(_RETRY_S)
            continue
        wait_for(done)
        if outcomes[0].error is None:
            return outcomes[0]
        stop.wait(_RETRY_S)
    return None


async def commit(sink: RecordSink, make: Make) -> IngestOutcome:
    """Submit once, for a client that waits, and return when it is durable.

    Raises:
        Problem: 503; nothing of the batch was kept.
    """
    future: asyncio.Future[IngestOutcome] = asyncio.get_running_loop().create_future()
    try:
        sink.submit(make(resolver(future)))
    except OverloadedError as error:
        raise unavailable(str(error), "overloaded") from None
    outcome = await future
    if outcome.error is not None:
        raise unavailable(str(outcome.error), outcome.error.reason)
    return outcome


def resolver(future: asyncio.Future[Result]) -> Callable[[Result], None]:
    """A function that sets a future from another thread; a cancelled future is left alone."""
    loop = future.get_loop()

    def resolve(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def reply(result: Result) -> None:
        loop.call_soon_threadsafe(resolve, result)

    return reply


def count_outcome(counters: IngestCounters, source: str, outcome: IngestOutcome) -> None:
    """Count the outcome of a batch that is durable."""
    counters.accepted(source, outcome.accepted)
    counters.duplicated(source, outcome.duplicates)
    for _, reason in outcome.refused:
        counters.rejected(source, reason)
