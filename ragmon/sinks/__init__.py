"""Sinks: receivers of notifications, one file each.

One thread hands a sink one notice at a time, in order per incident. The sink returns once the
receiver has it, or raises; a retry delivers the same notice with the same id.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ragmon.alerts.message import NO_LABELS, Links
from ragmon.alerts.notices import IncidentNotice
from ragmon.clock import Clock


class SinkContext(Struct, frozen=True):
    """Shared by all sinks: the clock, addresses for people and labels of this installation."""

    clock: Clock
    links: Links
    labels: Mapping[str, str] = NO_LABELS  # external ones; they go into every notification


class Sink(Protocol):
    """One receiver; a plug-in's ``build(options, context)`` makes it."""

    def deliver(self, notice: IncidentNotice) -> None:
        """Send one notice, and return once the receiver has it.

        Raises:
            SinkError: it has not; ``retryable`` says whether trying again helps.
            SettingsError: a secret cannot be read.
        """
        ...


@runtime_checkable
class Repeating(Sink, Protocol):
    """A sink whose receiver forgets incidents that are not repeated."""

    repeat_every_s: float

    def repeat(self, notices: Sequence[IncidentNotice]) -> None:
        """Confirm that these are open; raises what ``deliver`` does."""
        ...
