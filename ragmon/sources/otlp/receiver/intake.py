"""Spans and log events on their way from a request to the store: admitted, packed, made durable."""

import asyncio
from collections.abc import Callable, Sequence

from ragmon.access import Permit
from ragmon.asgi import unavailable
from ragmon.errors import StoreError
from ragmon.sources import IngestCounters, resolver
from ragmon.sources.otlp.receiver.assembly import TraceSizes
from ragmon.sources.otlp.receiver.journal import Journal
from ragmon.sources.otlp.receiver.permitted import admit
from ragmon.sources.otlp.receiver.scrub import scrub
from ragmon.sources.otlp.receiver.worker import MappingWorker
from ragmon.sources.otlp.spans import DecodedSpans, pack
from ragmon.stores.protocols import SpanRow


class SpanIntake:
    """Hands spans to the journal, and those that are durable to the thread that maps them."""

    def __init__(
        self,
        worker: MappingWorker,
        journal: Journal,
        counters: IngestCounters,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        """Make it.

        Args:
            worker: that maps them.
            journal: that makes them durable.
            counters: of what becomes of them.
            redact: texts that wait on disk; None: keep them.
        """
        self._worker = worker
        self._journal = journal
        self._counters = counters
        self._redact = redact

    def request(self, source: str, permit: Permit) -> "RequestSpans":
        """The spans of one request.

        Args:
            source: that they are counted as.
            permit: of the sender.
        """
        return RequestSpans(self, source, permit, TraceSizes(self._worker.assembly))

    def packed(self, decoded: DecodedSpans) -> list[SpanRow]:
        """As they are stored."""
        spans = decoded.spans
        return pack(spans if self._redact is None else scrub(spans, self._redact))

    def count(self, source: str, decoded: DecodedSpans, refused: dict[str, int]) -> None:
        """Count what was left out, and add it to what the sender is told."""
        for reason, count in decoded.refused.items():
            refused[reason] = refused.get(reason, 0) + count
            self._counters.rejected(source, reason, count)
        for reason, count in decoded.dropped.items():
            self._counters.rejected("otlp_attributes", reason, count)

    async def keep(self, source: str, parts: Sequence[SpanRow]) -> None:
        """Make them durable.

        Raises:
            Problem: 503; nothing was kept.
        """
        if not parts:
            return
        if self._worker.is_behind:
            raise unavailable("traces come faster than they can be read", "overloaded")
        future: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        resolve = resolver(future)

        def done(error: StoreError | None) -> None:
            if error is None:
                self._worker.deliver(parts)
            resolve(error)

        try:
            self._journal.submit(parts, done)
        except StoreError as error:
            raise unavailable(str(error), error.reason) from None
        problem = await future
        if problem is not None:
            raise unavailable(str(problem), problem.reason)
        self.accept(source, parts)

    def accept(self, source: str, parts: Sequence[SpanRow]) -> None:
        """Count spans that are durable."""
        self._counters.accepted(source, sum(part.spans for part in parts))


class RequestSpans:
    """The spans of one request, decoded some hundreds at a time and made durable together."""

    def __init__(self, intake: SpanIntake, source: str, permit: Permit, sizes: TraceSizes) -> None:
        self.refused: dict[str, int] = {}
        self._intake = intake
        self._source = source
        self._permit = permit
        self._sizes = sizes
        self._parts: list[SpanRow] = []

    async def add(self, decoded: DecodedSpans) -> None:
        """Take some; other requests get a turn."""
        self._permit.charge(len(decoded.spans))
        if self._permit.pipelines is not None:
            admit(decoded, self._permit.pipelines)
        self._parts += self._sizes.admit(self._intake.packed(decoded), decoded)
        self._intake.count(self._source, decoded, self.refused)
        await asyncio.sleep(0)

    async def keep(self) -> dict[str, int]:
        """Make them durable; returns those that were refused, by reason.

        Raises:
            Problem: 503; nothing was kept.
        """
        await self._intake.keep(self._source, self._parts)
        return self.refused
