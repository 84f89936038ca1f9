"""Account of the memory that requests and reads will take, so that it is refused before it is used.

Bytes on the wire say little: a request of kilobytes can need gigabytes once it is decoded. So
whoever decodes or reads estimates what that will take, and reserves it here first.
"""

import threading
from typing import Self

from ragmon.errors import MemoryLimitError

_RETRY_AFTER_S = 2
_LEAST_SHARE = 8
"""Part of the limit that is lent whatever the process holds besides: a monitor that refuses
everything has stopped, so a limit that is set too low slows it down instead."""


class MemoryBudget:
    """Bytes lent to requests and reads, beside what the process holds anyway; for any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.reserved = 0  # by reservations that are open
        self.base = 0  # by everything else, when it was last measured
        self._at_rest = 0  # the least that was in use while nothing was reserved
        self._lock = threading.Lock()

    @property
    def room(self) -> int:
        """Bytes that reservations may hold together now."""
        return self._room(self.base)

    def note(self, used: int) -> None:
        """Take in a measurement of the memory that the process uses.

        Args:
            used: bytes, with what is reserved now.
        """
        with self._lock:
            if not self.reserved:
                self._at_rest = min(used, self._at_rest or used)
            # An estimate that was too high must not make the process look smaller than it is.
            self.base = max(used - self.reserved, self._at_rest)

    def open(self) -> "MemoryReservation":
        """The reservation of one request or read, which is given back at its end."""
        return MemoryReservation(self)

    def reserve(self, size: int, more: int) -> None:
        """Lend bytes, to a reservation that has ``size`` already; use ``open``.

        Raises:
            MemoryLimitError: they do not fit, now or ever.
        """
        with self._lock:
            if self.reserved + more > self._room(self.base):
                raise self._refusal(size + more)
            self.reserved += more

    def give_back(self, size: int) -> None:
        """Take back what was lent."""
        with self._lock:
            self.reserved -= size

    def _room(self, base: int) -> int:
        return max(self.limit - base, self.limit // _LEAST_SHARE)

    def _refusal(self, size: int) -> MemoryLimitError:
        if size > self._room(self._at_rest):
            message = f"this needs about {size} bytes of memory; limits.memory is {self.limit}"
            hint = "Ask for less at a time or send smaller batches, or raise limits.memory"
            return MemoryLimitError(message, hint=hint)
        message = f"the memory that limits.memory ({self.limit} bytes) allows is in use"
        hint = f"Retry after {_RETRY_AFTER_S} s, or raise limits.memory"
        return MemoryLimitError(message, retry_after_s=_RETRY_AFTER_S, hint=hint)


class MemoryReservation:
    """Bytes lent to one request or read, which is on one thread at a time."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.size = 0
        self._budget = budget

    def __enter__(self) -> Self:
        """Nothing is reserved yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Return all of it."""
        self.give_back(self.size)

    def take(self, size: int) -> None:
        """Reserve more, before the memory is used.

        Raises:
            MemoryLimitError: it does not fit, now or ever; nothing more was reserved.
        """
        self._budget.reserve(self.size, size)
        self.size += size

    def give_back(self, size: int) -> None:
        """Return what is no longer used."""
        self._budget.give_back(size)
        self.size -= size
