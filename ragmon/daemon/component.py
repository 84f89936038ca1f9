"""What runs beside the writer: sources, judges, whatever else needs the restored windows.

A part is built from the shell before anything runs, started on the event loop when the windows
are restored, and stopped while the writer still commits. Parts end in the opposite order.
"""

from typing import Protocol

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.schedule import Schedule
from ragmon.exposition.own import OwnMetrics
from ragmon.plugins import resolve
from ragmon.sources import Source, SourceContext
from ragmon.web.auth import Authorizer


class Context(Struct, frozen=True):
    """What every part is made from."""

    settings: Settings
    clock: Clock
    engine: Engine
    own: OwnMetrics
    schedule: Schedule
    authorizer: Authorizer


class Component(Protocol):
    """Something with a life of its own."""

    def start(self) -> None:
        """Begin, without waiting; scheduled work is added to the shell's schedule."""
        ...

    def stop(self) -> None:
        """End; what was submitted to the writer is still committed."""
        ...


def build_sources(shell: Context) -> list[Source]:
    """The configured sources besides HTTP.

    Raises:
        SettingsError: an unknown kind, or options it does not know.
    """
    thread, store = shell.engine.thread, shell.engine.store
    context = SourceContext(
        sink=shell.engine.writer,
        tally=shell.own,
        clock=shell.clock,
        offset=lambda name: thread.ask(lambda: store.offset(name)),
        retention_s=shell.settings.retention.records,
        max_skew_s=shell.settings.max_clock_skew,
    )
    sources: list[Source] = []
    for at, given in enumerate(shell.settings.sources):
        module, options = resolve("ragmon.sources", f"sources.{at}", given)
        sources.append(module.build(options, context))
    return sources
