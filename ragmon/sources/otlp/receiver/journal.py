"""Spans become durable before they are acknowledged, many requests in one transaction."""

import threading
from collections.abc import Callable, Sequence

from ragmon.errors import StoreError
from ragmon.stores.protocols import SpanRow, Spans
from ragmon.threads import OnWriter

Done = Callable[[StoreError | None], None]


class Journal:
    """Collects spans of requests until the writer has time, then appends them at once."""

    def __init__(self, spans: OnWriter[Spans]) -> None:
        self._spans = spans
        self._waiting: list[tuple[Sequence[SpanRow], Done]] = []
        self._lock = threading.Lock()

    def submit(self, parts: Sequence[SpanRow], done: Done) -> None:
        """Append; ``done`` is called on the writer's thread, with an error when nothing was kept.

        Raises:
            StoreError: the writer has stopped.
        """
        with self._lock:
            is_first = not self._waiting
            self._waiting.append((parts, done))
        if is_first:
            self._spans.submit(self._append)

    def _append(self, spans: Spans) -> None:
        with self._lock:
            taken, self._waiting = self._waiting, []
        problem: StoreError | None = None
        try:
            spans.append(part for parts, _ in taken for part in parts)
        except StoreError as error:
            problem = error
        for _, done in taken:
            done(problem)
