"""The embedded judge in a process of its own: ``python -m ragmon.judges.worker MAX_CPU``.

It says on standard output that it is ready, or why it cannot judge. Then it reads batches from
standard input and answers each, every frame a length and msgpack. It sleeps between batches so
that it takes at most its share of a core, and ends when its input ends: when the daemon stops or
is killed. The local judge's process (``ragmon.judges.local.worker``) speaks the same.
"""

import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ragmon.clock import Clock, SystemClock
from ragmon.errors import RagmonError
from ragmon.judges import grounding
from ragmon.judges.earlier_turns import read_again
from ragmon.judges.grounding import GroundingJudge, GroundingResult

_LENGTH = struct.Struct("<I")


class AnswerToRead(NamedTuple):
    """One answer to judge."""

    query: str
    answer: str
    chunks: list[str]
    earlier: tuple[str, ...] = ()  # retrieved in the turns before, the newest turn first


class WorkerStart(Struct, frozen=True):
    """First frame of a process: the version of its judge, or the reason why there is none."""

    version: str = ""
    error: str = ""


class WorkerReply(Struct, frozen=True):
    """Frame that answers a batch."""

    results: list[GroundingResult]  # in the order of the batch
    cpu_s: float  # that the batch took


class BatchJudge(Protocol):
    """A loaded judge."""

    @property
    def version(self) -> str:
        """Of what it scores by."""
        ...

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""
        ...


class EmbeddedBatches:
    """The embedded judge, a batch at a time."""

    def __init__(self, judge: GroundingJudge) -> None:
        self._judge = judge

    @property
    def version(self) -> str:
        """Of the artefact."""
        return self._judge.version

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""
        return [self._judge.score(case.query, case.answer, case.chunks) for case in cases]


class ConversationBatches:
    """A judge that reads what it doubts again, with what was retrieved in the turns before."""

    def __init__(self, judge: BatchJudge) -> None:
        self._judge = judge

    @property
    def version(self) -> str:
        """Of the judge."""
        return self._judge.version

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""

        def again(places: Sequence[int]) -> list[GroundingResult]:
            chosen = [cases[at] for at in places]
            return self._judge.judge(
                [case._replace(chunks=[*case.chunks, *case.earlier], earlier=()) for case in chosen]
            )

        return read_again(self._judge.judge(cases), [bool(case.earlier) for case in cases], again)


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


def serve(
    judge: BatchJudge, source: IO[bytes], target: IO[bytes], max_cpu: float, clock: Clock
) -> None:
    """Judge batches until the source ends.

    Args:
        judge: of the batches.
        source: of frames.
        target: of the answers.
        max_cpu: cores that it may take on average.
        clock: to sleep by.
    """
    write(target, WorkerStart(judge.version))
    decode = msgspec.msgpack.Decoder(list[AnswerToRead]).decode
    while (body := read(source)) is not None:
        before, began = _cpu_s(), clock.monotonic()
        results = judge.judge(decode(body))
        cpu_s = _cpu_s() - before
        write(target, WorkerReply(results, cpu_s))
        clock.sleep(max(0.0, cpu_s / max_cpu - (clock.monotonic() - began)))


def run(load: Callable[[], BatchJudge], max_cpu: float) -> None:
    """Serve standard input and output, or say why the judge cannot be loaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, but is for the daemon
    os.nice(10)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print must not come between the answers
    try:
        judge = load()
    except RagmonError as error:
        write(answers, WorkerStart(error=str(error)))
        return
    serve(judge, sys.stdin.buffer, answers, max_cpu, SystemClock())


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run(lambda: ConversationBatches(EmbeddedBatches(grounding.load())), float(sys.argv[1]))
