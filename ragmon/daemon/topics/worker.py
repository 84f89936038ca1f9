"""Topics in a process of their own: ``python -m ragmon.daemon.topics.worker MAX_CPU``.

It takes queries on standard input, block by block, and answers once with their topics. It sleeps in
between, so that it takes at most its share of a core, and ends when its input ends.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO

import msgspec
from msgspec import Struct

from ragmon.clock import Clock, SystemClock
from ragmon.judges.worker import read, write
from ragmon.topics.corpus import CorpusBuilder
from ragmon.topics.grouping import Grouping, KeptModel, group


class AddedQueries(Struct, frozen=True, tag="add"):
    """Some queries."""

    sequences: list[int]
    texts: list[str | None]
    askers: list[int]
    sketches: dict[int, bytes]


class TopicsAsked(Struct, frozen=True, tag="find"):
    """The end of the queries."""

    earlier: KeptModel
    now: float  # unix seconds


_decode = msgspec.msgpack.Decoder(AddedQueries | TopicsAsked).decode
grouping_of = msgspec.msgpack.Decoder(Grouping).decode
"""The answer in a frame."""


def pacer(max_cpu: float, clock: Clock) -> Callable[[], None]:
    """A function that sleeps as long as it takes to stay within a share of a core."""
    before = _cpu_s()

    def breathe() -> None:
        nonlocal before
        clock.sleep((_cpu_s() - before) * (1.0 / max_cpu - 1.0))
        before = _cpu_s()

    return breathe


def serve(source: IO[bytes], target: IO[bytes], breathe: Callable[[], None]) -> None:
    """Find the topics of what comes, once.

    Args:
        source: frames of queries, then one that asks for the topics.
        target: for the answer.
        breathe: called now and then.
    """
    builder = CorpusBuilder()
    while (body := read(source)) is not None:
        message = _decode(body)
        if isinstance(message, TopicsAsked):
            corpus = builder.corpus()
            write(
                target,
                group(corpus, builder.texts, message.earlier, message.now, breathe=breathe),
            )
            return
        builder.add(message.sequences, message.texts, message.askers, message.sketches)
        breathe()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, but is for the daemon
    os.nice(10)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print must not come between the answers
    serve(sys.stdin.buffer, answers, pacer(float(sys.argv[1]), SystemClock()))
