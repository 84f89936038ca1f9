"""The two ways to use a thread here: ask the writer's, or have a loop of one's own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

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
