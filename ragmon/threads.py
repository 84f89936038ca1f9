"""The two ways to use a thread here: ask the writer's, or have a loop of one's own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from ragmon.errors import RagmonError

Owned = TypeVar("Owned")
Result = TypeVar("Result")

_Call = Callable[[], None]


class WriterThread:
    """The thread that owns the store and the windows, as all other threads reach it.

    Functions run in the order in which they came, between two commits. Their exceptions go to
    whoever asked.
    """

    def __init__(self, enqueue: Callable[[_Call], None], thread: threading.Thread) -> None:
        """Make a handle.

        Args:
            enqueue: has a function run on the thread soon; raises StoreError once it has ended.
            thread: the one that ``enqueue`` reaches.
        """
        self._enqueue = enqueue
        self._thread = thread

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Have a function run there, without waiting.

        Raises:
            StoreError: the thread has ended.
        """
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                future.set_exception(error)

        self._enqueue(run)
        return future

    def ask(self, function: Callable[[], Result]) -> Result:
        """Have a function run there, and wait for its result; there itself, it runs at once.

        Raises:
            StoreError: the thread has ended.
        """
        if threading.current_thread() is self._thread:
            return function()  # to wait for oneself would take forever
        return self.submit(function).result()

    async def ask_async(self, function: Callable[[], Result]) -> Result:
        """Have a function run there, and await its result.

        Raises:
            StoreError: the thread has ended.
        """
        return await asyncio.wrap_future(self.submit(function))

    def bind(self, owned: Owned) -> "OnWriter[Owned]":
        """Make something that belongs to the thread, such as a part of the store, safe to share."""
        return OnWriter(self, owned)


class OnWriter(Generic[Owned]):
    """Something that only the writer's thread may touch: it is lent to functions that run there."""

    def __init__(self, thread: WriterThread, owned: Owned) -> None:
        self._thread = thread
        self._owned = owned

    def submit(self, function: Callable[[Owned], Result]) -> Future[Result]:
        """See ``WriterThread.submit``."""
        return self._thread.submit(lambda: function(self._owned))

    def ask(self, function: Callable[[Owned], Result]) -> Result:
        """See ``WriterThread.ask``."""
        return self._thread.ask(lambda: function(self._owned))

    async def ask_async(self, function: Callable[[Owned], Result]) -> Result:
        """See ``WriterThread.ask_async``."""
        return await self._thread.ask_async(lambda: function(self._owned))


class Loop:
    """A thread that takes turns until it is stopped.

    A turn returns the seconds to wait until the next one. One that fails is logged, and tried
    again: no error ends the thread. What fails because the loop is being stopped is not logged.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float],
        log: FilteringBoundLogger,
        *,
        failed: str = "turn_failed",
        retry_s: float = 1.0,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """Make it; it does not run yet.

        Args:
            name: of the thread.
            turn: called again and again on the thread.
            log: told of failed turns.
            failed: the event that is logged then.
            retry_s: the time until the turn after a failed one.
            finish: called on the thread after the last turn.
        """
        self.stopping = threading.Event()
        self._turn = turn
        self._log = log
        self._failed = failed
        self._retry_s = retry_s
        self._finish = finish
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, without waiting."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next turn now."""
        self._woken.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """End after the turn under way, and wait for that; may be called again.

        Args:
            timeout_s: how long to wait; 0 only asks it to end.

        Returns:
            Whether it has ended.
        """
        self.stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._woken.clear()
            wait_s = self._try()
            if wait_s > 0.0 and not self.stopping.is_set():
                self._woken.wait(wait_s)
        self._finish()

    def _try(self) -> float:
        try:
            return self._turn()
        except (RagmonError, OSError, EOFError) as error:
            if not self.stopping.is_set():
                self._log.warning(self._failed, error=str(error))
        except Exception:  # noqa: BLE001 - a defect of ours: logged, and the thread goes on
            if not self.stopping.is_set():
                self._log.exception(self._failed)
        return self._retry_s
