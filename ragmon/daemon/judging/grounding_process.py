"""A judge's process as the daemon drives it: started when needed, limited in time.

Every wait is in short parts, so that the loop that waits has its heartbeat, and a process that
was stopped, hangs or writes nonsense is noticed within the time that a batch may take.
"""

import os
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.errors import RagmonError
from ragmon.judges.grounding import GroundingResult
from ragmon.judges.worker import AnswerToRead, WorkerReply, WorkerStart, frame
from ragmon.loops import BEAT_EVERY_S, beat

Frame = TypeVar("Frame", WorkerStart, WorkerReply)

_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 16
_MOST_BYTES = 64 << 20  # of an answer: a batch of the largest is a hundredth of it


class WorkerLimits(Struct, frozen=True):
    """Seconds that a judge's process may take."""

    start_s: float = 30.0  # to load the model, on a busy machine
    batch_s: float = 15.0  # for a batch, besides those of its answers
    answer_s: float = 1.0  # for each; the largest takes the embedded judge 0.2 s


class JudgeHungError(RagmonError):
    """The judge's process did not answer within its time, or not as it should."""


class JudgeStartError(RagmonError):
    """The judge's process runs, but cannot load its model."""


class JudgeProcess(Protocol):
    """Judges batches in a process of its own."""

    def judge(self, cases: list[AnswerToRead]) -> list[GroundingResult]:
        """Scores, in order.

        Raises:
            EOFError: the process ended.
            JudgeHungError: it took too long, or answered nonsense.
            JudgeStartError: it cannot load its model.
            OSError: it cannot be started.
        """
        ...

    def restart(self) -> None:
        """Let the next batch start a new process."""
        ...

    def stop(self) -> None:
        """End the process."""
        ...


class GroundingProcess:
    """The process that judges; started when first needed."""

    def __init__(
        self,
        max_cpu: float,
        clock: Clock,
        *,
        command: Sequence[str] = (),
        limits: WorkerLimits | None = None,
    ) -> None:
        """Make it; the process does not run yet.

        Args:
            max_cpu: cores that it may take.
            clock: of the daemon.
            command: that starts it; none: the embedded judge's.
            limits: of its time; None: the embedded judge's.
        """
        embedded = [sys.executable, "-m", "ragmon.judges.worker", str(max_cpu)]
        self._command = list(command) or embedded
        self._rest = max(0.0, 1.0 / max_cpu - 1.0)  # seconds that it sleeps for one of work
        self._clock = clock
        self._limits = limits or WorkerLimits()
        self._worked_s = 0.0  # the batch before, after which it sleeps
        self._lock = threading.Lock()  # around the pipes
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""  # of the judge; empty until it was first started
        self.cpu_s = 0.0  # of all batches so far

    def judge(self, cases: list[AnswerToRead]) -> list[GroundingResult]:
        """See ``JudgeProcess``."""
        with self._lock:
            scored = self._judge(cases)
        if len(scored) != len(cases):
            raise JudgeHungError(f"the judge answered {len(scored)} times for {len(cases)}")
        return scored

    def _judge(self, cases: list[AnswerToRead]) -> list[GroundingResult]:
        if self._process is None:
            self._process = _started(self._command)
            self._await_start(self._process)
        readings = sum(2 if case.earlier else 1 for case in cases)
        limit_s = self._limits.batch_s + self._limits.answer_s * readings
        began = self._clock.monotonic()
        until = began + limit_s + self._worked_s * self._rest
        body = self._exchange(self._process, frame(cases), until)
        self._worked_s = self._clock.monotonic() - began
        reply = _decoded(body, WorkerReply)
        self.cpu_s += reply.cpu_s
        return reply.results

    def _await_start(self, process: "subprocess.Popen[bytes]") -> None:
        until = self._clock.monotonic() + self._limits.start_s
        try:
            start = _decoded(self._exchange(process, b"", until), WorkerStart)
        except (EOFError, JudgeHungError) as error:  # none of the answers is to blame
            raise JudgeStartError(f"the judge's process did not start: {error}") from error
        if start.error:
            raise JudgeStartError(start.error)
        self.version = start.version

    def restart(self) -> None:
        """Let the next batch start a new process."""
        self.stop()

    def stop(self) -> None:
        """End the process, also one that is stopped."""
        process, self._process = self._process, None
        self._worked_s = 0.0
        if process is not None:
            process.kill()
            process.wait()
            with self._lock:  # whoever waits for it sees its end, and lets go
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        with suppress(OSError):  # what it never read
                            stream.close()

    def _exchange(self, process: "subprocess.Popen[bytes]", to_send: bytes, until: float) -> bytes:
        """Send a frame and receive one, both as the other side takes part."""
        assert process.stdin is not None
        assert process.stdout is not None
        source, target = process.stdout.fileno(), process.stdin.fileno()
        left, answer = memoryview(to_send), bytearray()
        while True:
            readable, writable = self._wait(source, target if left else None, until)
            if writable:
                try:
                    left = left[os.write(target, left[:_READ_BYTES]) :]
                except BrokenPipeError:
                    raise EOFError("the judge's process ended") from None
            if readable:
                part = os.read(source, _READ_BYTES)
                if not part:
                    raise EOFError("the judge's process ended")
                answer += part
                if _is_whole(answer):
                    return bytes(answer[_LENGTH.size :])

    def _wait(self, source: int, target: int | None, until: float) -> tuple[bool, bool]:
        if self._clock.monotonic() > until:
            raise JudgeHungError("the judge's process does not answer")
        beat()
        polled = select.poll()
        polled.register(source, select.POLLIN)
        if target is not None:
            polled.register(target, select.POLLOUT)
        ready = {descriptor for descriptor, _ in polled.poll(BEAT_EVERY_S * 1_000)}
        return source in ready, target in ready


def _decoded(body: bytes, kind: type[Frame]) -> Frame:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise JudgeHungError(f"the judge's process answered nonsense: {error}") from error


def _started(command: list[str]) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _is_whole(answer: bytearray) -> bool:
    """True once a frame is complete.

    Raises:
        JudgeHungError: it is none.
    """
    if len(answer) < _LENGTH.size:
        return False
    (length,) = _LENGTH.unpack_from(answer)
    whole: int = _LENGTH.size + length
    if length > _MOST_BYTES or len(answer) > whole:
        raise JudgeHungError("the judge's process wrote what is no answer")
    return len(answer) == whole
