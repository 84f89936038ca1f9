"""Facts about the running daemon, for the page about ragmon itself."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ragmon.api_schema import NotificationQueue
from ragmon.daemon.component import Context, loops_of
from ragmon.daemon.ingest.metrics import limits
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.process_memory import used_bytes
from ragmon.loops import Heartbeat, Supervisor
from ragmon.quarantine_schema import QuarantineList
from ragmon.refusals import RefusalKind
from ragmon.sources import Source, unread_bytes
from ragmon.stores.outlook import store_outlook
from ragmon.web.pages.service_source import (
    FollowedFacts,
    IngestFacts,
    LoopFacts,
    RefusedFacts,
    ServiceFacts,
    SinkFacts,
    SourceFacts,
)
from ragmon.web.quarantine import QuarantineSource

_MOST_REFUSED = 40  # kinds of refusals


class UndeliveredSource(Protocol):
    """Source of notifications that no receiver has."""

    async def undelivered(self, limit: int) -> NotificationQueue:
        """Count of those that wait, and the newest that were given up."""
        ...


class ServiceParts(NamedTuple):
    """Parts of the daemon that the page shows."""

    monitor: LiveMonitor
    supervisor: Supervisor
    sources: Sequence[Source]
    delivery: Delivery
    alerts: UndeliveredSource
    quarantine: QuarantineSource


class LiveService:
    """Implements ``ragmon.web.pages.service_source.ServiceSource``."""

    def __init__(self, context: Context, parts: ServiceParts) -> None:
        self._context = context
        self._parts = parts

    def now(self) -> float:
        """Unix seconds."""
        return self._context.clock.now()

    async def facts(self) -> ServiceFacts:
        """Facts about the daemon, as they are now."""
        return await asyncio.to_thread(self._facts)

    async def undelivered(self) -> tuple[int, float | None]:
        """Number of notifications that wait, and unix seconds of the oldest."""
        queue = await self._parts.alerts.undelivered(1)
        return queue.waiting, queue.oldest_at

    async def entries(self, limit: int) -> QuarantineList:
        """The newest entries of the quarantine."""
        return await self._parts.quarantine.entries("", limit)

    async def retry(self, name: str) -> None:
        """Try an entry again; one that fails stays, with the reason.

        Raises:
            KeyError: there is none.
        """
        await self._parts.quarantine.retry(name)

    async def delete(self, name: str) -> None:
        """Delete an entry.

        Raises:
            KeyError: there is none.
        """
        await self._parts.quarantine.delete(name)

    def _facts(self) -> ServiceFacts:
        context, now = self._context, self.now()
        store, retention = context.engine.store, context.settings.retention
        size_bytes = store.size_bytes()
        room = {
            name: value
            for name, value in limits(context.settings, store).items()
            if name != "queue"
        }
        limit = min(room, key=lambda name: room[name], default="")
        with store.reader() as reader:
            blocks = reader.block_times()
        most = int(room[limit]) if limit else None
        return ServiceFacts(
            problems=self._parts.monitor.problems(),
            store=store_outlook(blocks, size_bytes, most, retention_s=retention.records, now=now),
            limit=limit,
            retention_s=retention.records,
            ingest=self._ingest(),
            sources=self._sources(),
            followed=self._followed(now),
            refused=self._refused(),
            sinks=self._sinks(),
            loops=self._loops(now),
        )

    def _ingest(self) -> IngestFacts:
        engine, settings = self._context.engine, self._context.settings
        return IngestFacts(
            queued_bytes=engine.writer.queued_bytes,
            limit_bytes=int(settings.limits.queue),
            waiting_changes=engine.shard.waiting_count(),
            failures=engine.writer.stats.failures,
            used_memory=used_bytes() or 0,
            memory_limit=self._context.memory.limit,
            watermark=engine.windows.watermark or None,
        )

    def _sources(self) -> list[SourceFacts]:
        """Sources that anything came from; in the order of what they stored."""
        own = self._context.own
        stored = own.totals("ragmon_ingest_records_total")
        duplicates = own.totals("ragmon_duplicates_total")
        refused: dict[str, float] = {}
        for (_, source), count in own.totals("ragmon_rejected_total").items():
            refused[source] = refused.get(source, 0.0) + count
        stored_at = self._context.engine.writer.stats.stored_at.copy()
        counted = (stored, duplicates, {(name,): count for name, count in refused.items()})
        names = {name for counts in counted for (name,), count in counts.items() if count}
        rows = [
            SourceFacts(
                name=name,
                stored=int(stored.get((name,), 0.0)),
                duplicates=int(duplicates.get((name,), 0.0)),
                refused=int(refused.get(name, 0.0)),
                stored_at=stored_at.get(name),
            )
            for name in names
        ]
        return sorted(rows, key=lambda row: (-row.stored, row.name))

    def _followed(self, now: float) -> list[FollowedFacts]:
        return [
            FollowedFacts(
                name=loop.heartbeat.loop,
                unread_bytes=unread_bytes(source),
                turned_at=_turned_at(loop.heartbeat, now),
                failures=loop.heartbeat.failures_in_a_row,
            )
            for source in self._parts.sources
            for loop in loops_of(source)
        ]

    def _refused(self) -> list[RefusedFacts]:
        own = self._context.own
        examples = own.refusals.newest()
        rows = []
        for (reason, source), count in own.totals("ragmon_rejected_total").items():
            example = examples.get(RefusalKind(source, reason))
            if count:
                at, text = example or (None, "")
                rows.append(RefusedFacts(source, reason, int(count), at, text))
        return sorted(rows, key=lambda row: (-(row.newest_at or 0.0), -row.refused))[:_MOST_REFUSED]

    def _sinks(self) -> list[SinkFacts]:
        attempts = self._context.own.totals("ragmon_notifications_total")
        return [
            SinkFacts(
                route.name,
                *(
                    int(attempts.get((outcome, route.name), 0.0))
                    for outcome in ("delivered", "retried", "dead")
                ),
            )
            for route in self._parts.delivery.routes
        ]

    def _loops(self, now: float) -> list[LoopFacts]:
        rows = [
            LoopFacts(
                name=heartbeat.loop,
                turned_at=_turned_at(heartbeat, now),
                failures=heartbeat.failures,
                failures_in_a_row=heartbeat.failures_in_a_row,
                problem=heartbeat.problem() if heartbeat.is_active else "",
            )
            for heartbeat in self._parts.supervisor.heartbeats()
        ]
        return sorted(
            rows, key=lambda row: (not row.problem, -row.failures_in_a_row, -row.failures, row.name)
        )


def _turned_at(heartbeat: Heartbeat, now: float) -> float:
    return now - heartbeat.age_s
