"""Spans become durable before they are acknowledged, many requests in one transaction."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import structlog

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
        self._log = structlog.get_logger("otlp")

    def submit(self, parts: Sequence[SpanRow], done: Done) -> None:
        """Append; ``done`` is called on the writer's thread, with an error when nothing was kept.

        Raises:
            StoreError: the writer has stopped.
        """
        with self._lock:
            is_first = not self._waiting
            self._waiting.append((parts, done))
        if is_first:
            try:
                self._spans.submit(self._append).add_done_callback(self._on_end)
            except StoreError as error:
                self._fail(error)
                raise

    def _on_end(self, appended: Future[None]) -> None:
        """Answer what the writer did not come to because its thread ended."""
        if appended.cancelled() or appended.exception() is None:
            return
        self._fail(StoreError(str(appended.exception())))

    def _fail(self, error: StoreError) -> None:
        for _, done in self._take():
            done(error)

    def _take(self) -> list[tuple[Sequence[SpanRow], Done]]:
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def _append(self, spans: Spans) -> None:
        taken = self._take()
        problem: StoreError | None = None
        try:
            spans.append(part for parts, _ in taken for part in parts)
        except StoreError as error:
            problem = error
        except BaseException as error:  # noqa: BLE001 - a defect: nobody may wait for an answer in vain
            problem = StoreError(f"internal error: {type(error).__name__}")
            self._log.exception("spans_defect", requests=len(taken))
        for _, done in taken:
            done(problem)
