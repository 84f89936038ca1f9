"""Components: what runs beside the writer, such as sources, judges and notifications.

Each is built from the context before anything runs, started on the event loop when the windows
are restored, and stopped while the writer still commits, in the opposite order.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from ragmon.backups.s3 import s3_place
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.audit import AuditLog
from ragmon.daemon.build import shared_source
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.log_metrics import watch_logs, watch_tools
from ragmon.daemon.schedule import Schedule
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervised
from ragmon.memory import MemoryBudget
from ragmon.plugins import resolve
from ragmon.sources import ScoreReader, Source, SourceContext, SpanSink
from ragmon.web.auth import Authorizer


class Context(Struct, frozen=True):
    """Settings and services that every component is built from."""

    settings: Settings
    clock: Clock
    engine: Engine
    own: OwnMetrics
    schedule: Schedule
    authorizer: Authorizer
    memory: MemoryBudget
    audit: AuditLog


class Component(Protocol):
    """Something that is started and stopped with the daemon.

    One that runs loops of its own has them as ``loops``, so that they are watched.
    """

    def start(self) -> None:
        """Begin, without waiting; scheduled work is added to the context's schedule."""
        ...

    def stop(self) -> None:
        """End; what was submitted to the writer is still committed."""
        ...


def loops_of(component: Component) -> Sequence[Supervised]:
    """Loops that run in a component; none where it has none."""
    loops: Sequence[Supervised] = getattr(component, "loops", ())
    return loops


def build_sources(context: Context, spans: SpanSink, scores: ScoreReader) -> list[Source]:
    """The configured sources besides HTTP, and besides one that workers read.

    Args:
        context: of the daemon.
        spans: takes traces.
        scores: reads those of tracing tools.

    Raises:
        SettingsError: an unknown kind, or options it does not know.
    """
    thread, shard = context.engine.thread, context.engine.shard
    source_context = SourceContext(
        sink=context.engine.writer,
        counters=context.own,
        clock=context.clock,
        offset=lambda name: thread.ask(lambda: shard.offset(name)),
        retention_s=context.settings.retention.records,
        max_skew_s=context.settings.max_clock_skew,
        text=context.settings.privacy.text,
        objects=lambda url, endpoint, region: s3_place(
            url, endpoint=endpoint, region=region, clock=context.clock
        ),
        spans=spans,
        scores=scores,
    )
    sources: list[Source] = []
    shared = shared_source(context.settings)
    for at, entry in enumerate(context.settings.sources):
        if at == shared:
            continue
        module, options = resolve("ragmon.sources", f"sources.{at}", entry)
        sources.append(module.build(options, source_context))
    watch_logs(context.own, sources)
    watch_tools(context.own, sources)
    return sources
