"""Mapping of traces in a process of its own, where they can harm nothing else.

``python -m ragmon.sources.otlp.receiver.isolated`` reads one request from standard input and
answers on standard output, a frame for each trace: the first one without an answer is the one
that ended the process or took too long. It may use little memory, and is what the system ends
first where memory is short.
"""

import contextlib
import os
import queue
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from ragmon.event_time import Bounds
from ragmon.loops import beat
from ragmon.privacy import Policy
from ragmon.quarantine import explain
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources.otlp.receiver.known import known_trace
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.spans import unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.stores.protocols import MappedSpans
from ragmon.stores.quarantine import Stage

_LENGTH = struct.Struct("<I")
_START_S = 60.0  # to start an interpreter on a busy machine
_END_S = 5.0  # to end after its last output
_POLL_S = 0.25
_READY = b"ready"
_MEMORY_BYTES = 2 << 30


class IsolatedRequest(Struct, frozen=True):
    """Traces to map, each as its packed spans."""

    traces: Sequence[Sequence[bytes]]
    now: float
    bounds: Bounds
    limit_s: float  # for each trace
    policy: Policy = "keep"  # for texts in errors
    before: Sequence[MappedSpans | None] = ()  # of each trace what was mapped; empty: nothing


class MappedTrace(Struct, frozen=True, kw_only=True):
    """The results of one trace; with a ``reason`` something of it cannot be used."""

    records: list[QueryRecord] = []
    feedback: list[Feedback] = []
    labels: list[Label] = []
    revisions: list[QueryRecord] = []
    kept: MappedSpans | None = None  # None: no more of its spans are taken
    refused: dict[str, int] = {}
    stage: Stage = "map"
    reason: str = ""
    error: str = ""


_decode_request = msgspec.msgpack.Decoder(IsolatedRequest).decode
_decode_mapped = msgspec.msgpack.Decoder(MappedTrace).decode
_encode = msgspec.msgpack.Encoder().encode


def map_isolated(
    request: IsolatedRequest, is_ending: Callable[[], bool] = lambda: False
) -> list[MappedTrace]:
    """Map traces in processes of their own; as many results as traces, unless it is ending.

    Raises:
        OSError: no process can be started.
    """
    mapped: list[MappedTrace] = []
    while len(mapped) < len(request.traces) and not is_ending():
        rest = msgspec.structs.replace(
            request, traces=request.traces[len(mapped) :], before=request.before[len(mapped) :]
        )
        mapped += _MappingRun(rest, is_ending).results()
    return mapped


class _MappingRun:
    """One process, up to the first trace that it does not survive."""

    def __init__(self, request: IsolatedRequest, is_ending: Callable[[], bool]) -> None:
        self._request = request
        self._is_ending = is_ending
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def results(self) -> list[MappedTrace]:
        """Results in order; the last one may be that of a trace that was not survived."""
        command = [sys.executable, "-m", "ragmon.sources.otlp.receiver.isolated"]
        process = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        reading = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reading.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # it ended: no frame will come
                process.stdin.write(_encode(self._request))
                process.stdin.close()
            return self._collect(process)
        finally:
            process.kill()
            process.wait()
            reading.join()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()

    def _read(self, stream: IO[bytes]) -> None:
        while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            self._frames.put(stream.read(length))
        self._frames.put(None)

    def _collect(self, process: "subprocess.Popen[bytes]") -> list[MappedTrace]:
        mapped: list[MappedTrace] = []
        if self._next(_START_S) != _READY and not self._is_ending():
            # Not the fault of the first trace; the next attempt may find more memory.
            raise OSError("the process that maps traces apart from others does not start")
        limit_s = self._request.limit_s
        while len(mapped) < len(self._request.traces) and not self._is_ending():
            try:
                frame = self._next(limit_s)
            except TimeoutError:
                error = f"mapping took longer than {limit_s:g} s, in a process of its own"
                return [*mapped, MappedTrace(reason="timeout", error=error)]
            if frame is None:
                return [*mapped, _unsurvived(process.wait(_END_S), limit_s)]
            if frame:
                mapped.append(_decode_mapped(frame))
        return mapped

    def _next(self, limit_s: float) -> bytes | None:
        """The next frame: empty when it is ending, None when the process has ended.

        Raises:
            TimeoutError: it did not come in time.
        """
        for _ in range(max(1, round(limit_s / _POLL_S))):
            beat()
            if self._is_ending():
                return b""
            with contextlib.suppress(queue.Empty):
                return self._frames.get(timeout=min(limit_s, _POLL_S))
        raise TimeoutError


def _unsurvived(status: int, limit_s: float) -> MappedTrace:
    if status == -signal.SIGALRM:
        error = f"mapping took longer than {limit_s:g} s, in a process of its own"
        return MappedTrace(reason="timeout", error=error)
    if status < 0:
        with contextlib.suppress(ValueError):
            cause = signal.Signals(-status).name
            return MappedTrace(reason="killed", error=f"mapping ended its process by {cause}")
    return MappedTrace(reason="killed", error=f"mapping ended its process, status {status}")


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Answer one request."""
    _send(target, _READY)  # ready: the time of starting is no trace's
    request = _decode_request(source.read())
    before = request.before or [None] * len(request.traces)
    for bodies, mapped_before in zip(request.traces, before, strict=True):
        # Ends the process whatever it does, also when nobody waits for it any longer.
        signal.setitimer(signal.ITIMER_REAL, request.limit_s + _POLL_S)
        _send(target, _encode(_mapped(bodies, mapped_before, request)))


def _mapped(
    bodies: Sequence[bytes], before: MappedSpans | None, request: IsolatedRequest
) -> MappedTrace:
    results = Results(Targets(), request.now, request.bounds)
    try:
        spans = unpack(bodies)
        if before is not None and before.is_closed:
            results.add_feedback(map_trace(spans, request.now))
            return _feedback(results)
        known = known_trace(bodies, before)
        refusal = results.add(spans, known)
    except Exception as error:  # noqa: BLE001 - of one trace, which is told
        return MappedTrace(reason="defect", error=explain(error, request.policy))
    mapped = msgspec.structs.replace(
        _feedback(results),
        records=results.records,
        revisions=results.revisions,
        kept=known.packed(spans[0].trace_id, len(bodies)) if spans else None,
    )
    if refusal is None:
        return mapped
    error_text = explain(refusal, request.policy)
    return msgspec.structs.replace(
        mapped, stage="decode", reason=refusal.reason, error=error_text, kept=None
    )


def _feedback(results: Results) -> MappedTrace:
    return MappedTrace(
        feedback=[each for each in results.changes if isinstance(each, Feedback)],
        labels=[each for each in results.changes if isinstance(each, Label)],
        refused=results.refused,
    )


def _send(target: IO[bytes], body: bytes) -> None:
    target.write(_LENGTH.pack(len(body)) + body)
    target.flush()


def _limit_harm() -> None:
    """Little memory, and the first to go where there is none left."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, but is for the daemon
    os.nice(5)
    _limit_harm()
    serve(sys.stdin.buffer, sys.stdout.buffer)
