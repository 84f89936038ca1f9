"""The embedded judge in a process of its own: ``python -m ragmon.judges.worker MAX_CPU``.

It reads batches from standard input and answers on standard output, each frame a length and
msgpack. It sleeps between batches so that it takes at most its share of a core, and ends when its
input ends: when the daemon stops or is killed.
"""

import os
import resource
import signal
import struct
import sys
from typing import IO, NamedTuple

import msgspec

from ragmon.clock import Clock, SystemClock
from ragmon.judges import grounding
from ragmon.judges.grounding import GroundingResult

_LENGTH = struct.Struct("<I")


class AnswerToRead(NamedTuple):
    """One answer to judge."""

    query: str
    answer: str
    chunks: list[str]


def frame(content: object) -> bytes:
    """One frame."""
    body = msgspec.msgpack.encode(content)
    return _LENGTH.pack(len(body)) + body


def write(stream: IO[bytes], content: object) -> None:
    """Send one frame."""
    stream.write(frame(content))
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """Receive one frame; None at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def serve(source: IO[bytes], target: IO[bytes], max_cpu: float, clock: Clock) -> None:
    """Judge batches until the source ends."""
    judge = grounding.load()
    decode = msgspec.msgpack.Decoder(list[AnswerToRead]).decode
    while (body := read(source)) is not None:
        before = _cpu_s()
        write(target, [judge.score(*case) for case in decode(body)])
        clock.sleep((_cpu_s() - before) * (1.0 / max_cpu - 1.0))


def results(body: bytes) -> list[GroundingResult]:
    """The frame that answers a batch."""
    return msgspec.msgpack.decode(body, type=list[GroundingResult])


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, but is for the daemon
    os.nice(10)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print must not come between the answers
    serve(sys.stdin.buffer, answers, float(sys.argv[1]), SystemClock())
