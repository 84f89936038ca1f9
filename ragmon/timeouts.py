"""Timeouts that cost nothing where nobody waits."""

import asyncio
import functools
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine; its time begins when it waits for the first time.

    A timer for each request that is there as a whole takes as long as to decode it.

    Raises:
        TimeoutError: it took longer, and was cancelled.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _go_on(work, awaited)


@types.coroutine
def _go_on(work: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
    """Drive a coroutine that has begun to its end.

    Args:
        work: the coroutine.
        awaited: the object that it waits for.
    """
    while True:
        resume: Callable[[], Any]
        try:
            resume = functools.partial(work.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001 - the coroutine's to handle, such as its end
            resume = functools.partial(work.throw, error)
        try:
            awaited = resume()
        except StopIteration as done:
            result: Result = done.value
            return result
