"""Sinks: where alerts go, one file each.

A sink is told one transition at a time, by one thread, in order per alert. It returns once the
receiver has it, or raises; what is tried again is the same event with the same id.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ragmon.alerts import Alert, AlertEvent
from ragmon.alerts.message import Links
from ragmon.clock import Clock


class SinkContext(Struct, frozen=True):
    """What a configured sink is given."""

    clock: Clock
    links: Links


class Sink(Protocol):
    """What a plug-in's ``build(options, context)`` returns."""

    def deliver(self, event: AlertEvent) -> None:
        """Send one transition, and return once the receiver has it.

        Raises:
            SinkError: it has not; ``retryable`` says whether trying again helps.
            SettingsError: a secret cannot be read.
        """
        ...


@runtime_checkable
class Repeating(Sink, Protocol):
    """A sink whose receiver forgets what is not said again."""

    repeat_every_s: float

    def repeat(self, alerts: Sequence[Alert]) -> None:
        """Say that these are open; raises what ``deliver`` does."""
        ...
