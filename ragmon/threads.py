"""The writer's thread as all other threads reach it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Generic, TypeVar

from ragmon.errors import StoreError
from ragmon.loops import BEAT_EVERY_S, beat

Owned = TypeVar("Owned")
Result = TypeVar("Result")


class Call(Generic[Result]):
    """A function to run on the thread, and the future of its result."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self.future: Future[Result] = Future()
        self._function = function

    def __call__(self) -> None:
        """Run it; whatever it raises belongs to whoever asked."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._function())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            self.future.set_exception(error)

    def fail(self, error: StoreError) -> None:
        """Have whoever waits for it see an error, unless it is done."""
        if not self.future.done():
            self.future.set_exception(error)


class WriterThread:
    """The thread that owns the store and the windows, as all other threads reach it.

    Functions run in the order in which they came, between two commits. Their exceptions go to
    whoever asked.
    """

    def __init__(
        self,
        enqueue: Callable[[Call[Any]], None],
        thread: Callable[[], threading.Thread | None],
    ) -> None:
        """Make a handle.

        Args:
            enqueue: has a call made on the thread soon; raises StoreError once it has ended.
            thread: the one that ``enqueue`` reaches now.
        """
        self._enqueue = enqueue
        self._thread = thread

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Have a function run there, without waiting.

        Raises:
            StoreError: the thread has ended.
        """
        call = Call(function)
        self._enqueue(call)
        return call.future

    def ask(self, function: Callable[[], Result]) -> Result:
        """Have a function run there, and wait for its result; there itself, it runs at once.

        Raises:
            StoreError: the thread has ended.
        """
        beat()
        if threading.current_thread() is self._thread():
            return function()  # to wait for oneself would take forever
        return result_of(self.submit(function))

    async def ask_async(
        self, function: Callable[[], Result], timeout_s: float | None = None
    ) -> Result:
        """Have a function run there, and await its result.

        Args:
            function: run between two commits.
            timeout_s: after which it is given up; None to wait for as long as it takes.

        Raises:
            StoreError: the thread has ended, or did not answer in time.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.submit(function)), timeout_s)
        except TimeoutError:
            raise StoreError(f"the writer has not answered for {timeout_s:g} s") from None

    def bind(self, owned: Owned) -> "OnWriter[Owned]":
        """Make something that belongs to the thread, such as a part of the store, safe to share."""
        return OnWriter(self, owned)


def result_of(future: Future[Result]) -> Result:
    """Wait for a result for as long as it takes, with heartbeats."""
    while True:
        try:
            return future.result(BEAT_EVERY_S)
        except NotYet:
            if future.done():
                raise  # of the function itself
            beat()


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
