"""The same question about many things, some at a time, in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

Given = TypeVar("Given")
Got = TypeVar("Got")

Track = Callable[[Sequence[Any]], Iterable[Any]]
"""Wraps what is gone through, to show progress."""


class Asked(Protocol):
    """Who is asked."""

    concurrency: int  # questions at a time


def each_of(
    ask: Callable[[Given], Got], all_of: Sequence[Given], asked: Asked, track: Track = iter
) -> Iterator[Got]:
    """The answer for each; when it is broken off, what was not begun never is."""
    if asked.concurrency == 1:
        for each in track(all_of):
            yield ask(each)
        return
    pool = ThreadPoolExecutor(asked.concurrency, thread_name_prefix="judging")
    try:
        jobs = [pool.submit(ask, each) for each in all_of]
        for job in track(jobs):
            yield job.result()
    finally:
        pool.shutdown(cancel_futures=True)
