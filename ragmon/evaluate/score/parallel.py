"""One function over many items, some at a time, results in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Track = Callable[[Sequence[Any]], Iterable[Any]]
"""Wraps a sequence that is iterated over, to show progress."""


def in_parallel(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    concurrency: int,
    track: Track = iter,
) -> Iterator[Result]:
    """The result for each item, in order; when it is interrupted, no further call is begun."""
    if concurrency == 1:
        for item in track(items):
            yield function(item)
        return
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="judging")
    try:
        jobs = [pool.submit(function, item) for item in items]
        for job in track(jobs):
            yield job.result()
    finally:
        pool.shutdown(cancel_futures=True)
