"""Spans become durable before they are acknowledged, many requests in one transaction."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from ragmon.errors import StoreError
from ragmon.sources.otlp.spans import SpanPacket

Done = Callable[[StoreError | None], None]


class SpanStore(Protocol):
    """Where spans wait for the rest of their trace; used on the writer's thread only."""

    def append(self, rows: Iterable[Any]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        ...

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        ...

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace with its number of spans and whether it has an entry, oldest first."""
        ...

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces."""
        ...


class CallStore(Protocol):
    """The writer's ``call``: run a function between two commits."""

    def __call__(self, function: Callable[[], Any], /) -> Future[Any]:
        """Raises StoreError when the writer has stopped."""
        ...


class Journal:
    """Collects what requests bring until the writer has time, then appends it at once."""

    def __init__(self, spans: SpanStore, call: CallStore) -> None:
        self._spans = spans
        self._call = call
        self._waiting: list[tuple[Sequence[SpanPacket], Done]] = []
        self._lock = threading.Lock()

    def submit(self, parts: Sequence[SpanPacket], done: Done) -> None:
        """Append; ``done`` is called on the writer's thread, with an error when nothing was kept.

        Raises:
            StoreError: the writer has stopped.
        """
        with self._lock:
            is_first = not self._waiting
            self._waiting.append((parts, done))
        if is_first:
            self._call(self._append)

    def _append(self) -> None:
        with self._lock:
            taken, self._waiting = self._waiting, []
        problem: StoreError | None = None
        try:
            self._spans.append(part for parts, _ in taken for part in parts)
        except StoreError as error:
            problem = error
        for _, done in taken:
            done(problem)
