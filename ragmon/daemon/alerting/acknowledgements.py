"""Acknowledgements that wait for the turn with which they are saved."""

from collections import deque
from concurrent.futures import Future

from ragmon.alerts.machine import AlertBook
from ragmon.alerts.notices import Acknowledgement, IncidentNotice
from ragmon.clock import Clock


class AcknowledgementQueue:
    """Takes them from any thread; applied on the writer's, between two turns.

    Half a turn cannot be saved, so who acknowledges waits until the one under way is over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[tuple[str, Acknowledgement | None, Future[None]]] = deque()
        self._applied: list[Future[None]] = []  # not saved yet

    def add(self, name: str, word: Acknowledgement | None) -> Future[None]:
        """Have one applied; the result is there once it is durable."""
        future: Future[None] = Future()
        self._waiting.append((name, word, future))
        return future

    def apply(self, book: AlertBook) -> tuple[AlertBook, list[IncidentNotice]]:
        """The book with what waits, and the notifications of it."""
        notices: list[IncidentNotice] = []
        while self._waiting:
            name, word, future = self._waiting.popleft()
            try:
                book, notice = book.acknowledged(name, word, self._clock.now())
            except KeyError as error:
                _end(future, error)
            else:
                notices.append(notice)
                self._applied.append(future)
        return book, notices

    def settle(self) -> None:
        """Tell those that wait: what was applied is durable."""
        applied, self._applied = self._applied, []
        for future in applied:
            _end(future, None)


def _end(future: Future[None], error: Exception | None) -> None:
    if not future.set_running_or_notify_cancel():  # whoever waited has gone
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
