"""Follows a file of JSON lines across rotation, truncation and restarts, each line once.

How far the file was read is committed together with what was read, so a crash neither repeats
nor skips a line.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import structlog
import xxhash
from msgspec import Struct
from pydantic import BaseModel, Field

from ragmon.decode import Bounds, Decoder
from ragmon.errors import OverloadedError, RecordError
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources import Context, Outcome, Submission

_READ_BYTES = 1 << 20
_MOST_LINE_BYTES = 16 << 20
_HEAD_BYTES = 256
_RETRY_S = 1.0
_KINDS: dict[str, Any] = {"queries": QueryRecord, "feedback": Feedback, "labels": Label}


class Options(BaseModel, frozen=True, extra="forbid"):
    """``sources: [{kind: jsonl, path: …}]``."""

    path: Path
    records: Literal["queries", "feedback", "labels"] = "queries"
    poll_s: float = Field(0.5, gt=0, le=60)


def build(options: Options, context: Context) -> "JsonlSource":
    """A source that follows one file."""
    return JsonlSource(options, context)


class Place(Struct, frozen=True):
    """A position in one particular file, known by its inode and its first bytes."""

    inode: int
    offset: int
    head: int  # hash of the first ``head_bytes``
    head_bytes: int


class JsonlSource:
    """One thread that reads, submits, and waits until it is durable."""

    def __init__(self, options: Options, context: Context) -> None:
        self._options = options
        self._context = context
        self._name = f"jsonl:{options.path}"
        self._decode: Decoder[Any] = Decoder(_KINDS[options.records])
        self._stop = threading.Event()
        self._log = structlog.get_logger("jsonl").bind(path=str(options.path))
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def start(self) -> None:
        """Begin, without waiting."""
        self._thread.start()

    def stop(self) -> None:
        """End after the batch under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                moved = self.step()
            except OSError as error:
                self._log.warning("cannot_read", error=str(error))
                moved = False
            if not moved:
                self._stop.wait(self._options.poll_s)

    def step(self) -> bool:
        """Read and deliver one batch; False when there is nothing new."""
        place = self._place()
        path = self._find(place)
        if path is None:
            return False
        with path.open("rb") as file:
            start = self._start(file, place)
            lines, end = _complete_lines(file, start.offset)
            if end > start.offset:
                reached = Place(start.inode, end, *_head(file, end))
                return self._deliver(lines, start.offset, reached)
        if place is not None and path != self._options.path and self._options.path.exists():
            # The rotated file is read to its end: go on at the start of its successor.
            with self._options.path.open("rb") as successor:
                inode = os.fstat(successor.fileno()).st_ino
                return self._deliver([], 0, Place(inode, 0, *_head(successor, 0)))
        return False

    def _place(self) -> Place | None:
        stored = self._context.offset(self._name)
        return msgspec.msgpack.decode(stored, type=Place) if stored else None

    def _find(self, place: Place | None) -> Path | None:
        """The file that holds the place: the path itself, or what rotation renamed it to."""
        path = self._options.path
        if place is not None:
            for candidate in (path, *sorted(path.parent.glob(f"{path.name}*"))):
                if candidate.is_file() and candidate.stat().st_ino == place.inode:
                    with candidate.open("rb") as file:
                        if _head(file, place.head_bytes) == (place.head, place.head_bytes):
                            return candidate
        return path if path.is_file() else None

    def _start(self, file: BinaryIO, place: Place | None) -> Place:
        """Where to read on in this file; the beginning when it is another or was truncated."""
        inode = os.fstat(file.fileno()).st_ino
        size = os.fstat(file.fileno()).st_size
        same = (
            place is not None
            and place.inode == inode
            and size >= place.offset
            and _head(file, place.head_bytes) == (place.head, place.head_bytes)
        )
        return place if same and place is not None else Place(inode, 0, *_head(file, 0))

    def _deliver(self, lines: list[bytes], offset: int, reached: Place) -> bool:
        """Submit a batch with its position, and wait; False when told to stop."""
        records = list(self._records(lines, offset))
        while not self._stop.is_set():
            done = threading.Event()
            outcomes: list[Outcome] = []

            def reply(
                outcome: Outcome, done: threading.Event = done, to: list[Outcome] = outcomes
            ) -> None:
                to.append(outcome)
                done.set()

            submission = Submission(
                "jsonl",
                sum(map(len, lines)),
                reply,
                offset=(self._name, msgspec.msgpack.encode(reached)),
            )
            if self._options.records == "queries":
                submission.records = records
            else:
                submission.changes = records
            try:
                self._context.sink.submit(submission)
                done.wait()
            except OverloadedError:
                self._stop.wait(_RETRY_S)
                continue
            if outcomes[0].error is None:
                self._count(outcomes[0])
                return True
            self._stop.wait(_RETRY_S)
        return False

    def _records(self, lines: list[bytes], offset: int) -> Iterator[Any]:
        now = self._context.clock.now()
        bounds = Bounds(now - self._context.retention_s, now + self._context.max_skew_s)
        for line in lines:
            if line.strip():
                try:
                    yield self._decode(line, now, bounds)
                except RecordError as error:
                    self._refuse(error, offset)
            offset += len(line)

    def _refuse(self, error: RecordError, offset: int) -> None:
        self._context.tally.rejected("jsonl", error.reason)
        self._log.warning(
            "line_refused", at_byte=offset, field=error.field, reason=error.reason, error=str(error)
        )

    def _count(self, outcome: Outcome) -> None:
        self._context.tally.accepted("jsonl", outcome.accepted)
        self._context.tally.duplicated("jsonl", outcome.duplicates)
        for _, reason in outcome.refused:
            self._context.tally.rejected("jsonl", reason)


def _complete_lines(file: BinaryIO, offset: int) -> tuple[list[bytes], int]:
    """Whole lines from an offset, about a megabyte of them, and where they end."""
    file.seek(offset)
    read = file.read(_READ_BYTES)
    while b"\n" not in read and len(read) < _MOST_LINE_BYTES:
        more = file.read(_READ_BYTES)
        if not more:
            break
        read += more
    end = read.rfind(b"\n") + 1
    if not end and len(read) >= _MOST_LINE_BYTES:
        end = len(read)  # no line is this long: refuse it piece by piece rather than wait forever
    return [line + b"\n" for line in read[:end].split(b"\n")[:-1]] or [read[:end]], offset + end


def _head(file: BinaryIO, at_most: int) -> tuple[int, int]:
    """Hash and length of the first bytes, which tell one file from another of the same inode."""
    file.seek(0)
    head = file.read(min(at_most, _HEAD_BYTES))
    return xxhash.xxh3_64_intdigest(head), len(head)
