"""Reader of a growing file of JSON lines, across rotation, truncation and restarts, each line once.

How far the file was read is committed together with what was read, so a crash neither repeats
nor skips a line.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import structlog
import xxhash
from msgspec import Struct
from pydantic import BaseModel, Field

from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.quarantine import AGES, LineContent, line_item
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources import IngestOutcome, SourceContext, Submission, count_outcome, deliver
from ragmon.stores.quarantine import QuarantinedItem

_READ_BYTES = 1 << 20
_MOST_LINE_BYTES = 16 << 20
_HEAD_BYTES = 256
_LONGEST_PAUSE_S = 30.0  # of a file that cannot be read
_MOST_QUARANTINED = 100  # lines of one batch: a file of another format must not push out the rest
_ROTATION_S = 5.0  # writers may reopen their log only some time after it was renamed
_AGE = r"[0-9][0-9T_.:-]*"  # what rotation adds to a name: a number or a date
_KINDS: dict[str, Any] = {"queries": QueryRecord, "feedback": Feedback, "labels": Label}


class Options(BaseModel, frozen=True, extra="forbid"):
    """``sources: [{kind: jsonl, path: …}]``."""

    path: Path
    """File to follow, one JSON object a line; it may be rotated and need not exist yet."""
    records: Literal["queries", "feedback", "labels"] = "queries"
    """Kind of records in the file: queries, feedback or labels."""
    poll_s: float = Field(0.5, gt=0, le=60)
    """Seconds between two looks at the file for new lines."""


def build(options: Options, context: SourceContext) -> "JsonlSource":
    """A source that follows one file."""
    return JsonlSource(options, context)


class FilePosition(Struct, frozen=True):
    """A position in one particular file, known by its inode and its first bytes."""

    inode: int
    offset: int
    head: int  # hash of the first ``head_bytes``
    head_bytes: int


class JsonlSource(LoopOwner):
    """One thread that reads, submits, and waits until it is durable."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options = options
        self._context = context
        self._name = f"jsonl:{options.path}"
        self._decode: Decoder[Any] = Decoder(_KINDS[options.records])
        self._quiet: tuple[FilePosition, float] | None = (
            None  # a rotated file's end, and since when
        )
        self._log = structlog.get_logger("jsonl").bind(path=str(options.path))
        self.loop = Loop(
            self._name,
            self._turn,
            self._log,
            options=LoopOptions(
                failed="cannot_read", first_pause_s=options.poll_s, longest_pause_s=_LONGEST_PAUSE_S
            ),
        )

    def stop(self) -> None:
        """End after the batch under way."""
        self.loop.stop()

    def _turn(self) -> float:
        return 0.0 if self.step() else self._options.poll_s

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
                if place is not None and place.offset > start.offset:
                    self._log.warning("file_replaced", read_before_to_byte=place.offset)
                reached = FilePosition(start.inode, end, *_head(file, end))
                return self._deliver(lines, start.offset, reached)
            successor = self._successor(path, start)
            if successor is None:
                return False
            file.seek(start.offset)
            tail = file.read()  # a last line that will not be completed
        with successor.open("rb") as file:
            beginning = FilePosition(os.fstat(file.fileno()).st_ino, 0, *_head(file, 0))
        return self._deliver([tail + b"\n"] if tail else [], start.offset, beginning)

    def _place(self) -> FilePosition | None:
        stored = self._context.offset(self._name)
        return msgspec.msgpack.decode(stored, type=FilePosition) if stored else None

    def _find(self, place: FilePosition | None) -> Path | None:
        """The file that holds the place: the path itself, or what rotation made of it."""
        path = self._options.path
        if place is not None:
            if _holds(path, place, same_inode=True):
                return path
            newest_first = self._rotated()[::-1]
            for same_inode in (True, False):  # renamed, else copied and then truncated
                for candidate in newest_first:
                    if _holds(candidate, place, same_inode=same_inode):
                        return candidate
        return path if path.is_file() else None

    def _rotated(self) -> list[Path]:
        """Rotated files, by the time of their last line."""
        path = self._options.path
        stem, suffix = re.escape(path.stem), re.escape(path.suffix)
        name = re.compile(f"{stem}({suffix})?[.-]{_AGE}|{stem}[.-]{_AGE}{suffix}")
        files = [each for each in path.parent.iterdir() if name.fullmatch(each.name)]
        return sorted(files, key=lambda each: each.stat().st_mtime_ns)

    def _start(self, file: BinaryIO, place: FilePosition | None) -> FilePosition:
        """Position to read on from; the beginning when the file is another or was truncated."""
        inode = os.fstat(file.fileno()).st_ino
        if place is not None and _continues(file, place):
            return FilePosition(inode, place.offset, place.head, place.head_bytes)
        return FilePosition(inode, 0, *_head(file, 0))

    def _successor(self, path: Path, end: FilePosition) -> Path | None:
        """The file to go on with after the end of a rotated one; None while it may still grow."""
        live = self._options.path
        if path == live:
            return None
        rotated = self._rotated()
        later = rotated[rotated.index(path) + 1 :] if path in rotated else []
        if later:
            return later[0]  # it was rotated in its turn
        now = self._context.clock.monotonic()
        if self._quiet is None or self._quiet[0] != end:
            self._quiet = (end, now)
        over = now - self._quiet[1] >= _ROTATION_S
        return live if over and live.is_file() and live.stat().st_size else None

    def _deliver(self, lines: list[bytes], offset: int, reached: FilePosition) -> bool:
        """Submit a batch with its position, and wait; False when stopped first."""
        records, quarantined = self._decoded(lines, offset)
        position = (self._name, msgspec.msgpack.encode(reached))
        size_bytes = sum(map(len, lines))

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            is_queries = self._options.records == "queries"
            return Submission(
                "jsonl",
                size_bytes,
                reply,
                records=records if is_queries else (),
                changes=() if is_queries else records,
                offset=position,
                quarantined=quarantined,
            )

        outcome = deliver(self._context.sink, make, self.loop.stopping)
        if outcome is not None:
            count_outcome(self._context.counters, "jsonl", outcome)
        return outcome is not None

    def _decoded(self, lines: list[bytes], offset: int) -> tuple[list[Any], list[QuarantinedItem]]:
        """The records of lines, and the refused lines, as many as the quarantine should take."""
        records: list[Any] = []
        quarantined: list[QuarantinedItem] = []
        now = self._context.clock.now()
        bounds = Bounds(now - self._context.retention_s, now + self._context.max_skew_s)
        for line in lines:
            if line.strip():
                try:
                    records.append(self._decode(line, now, bounds))
                except RecordError as error:
                    self._refuse(error, offset)
                    if error.reason not in AGES and len(quarantined) < _MOST_QUARANTINED:
                        name = f"{self._options.path}, byte {offset}"
                        content = LineContent(self._options.records, line)
                        text = self._context.text
                        quarantined.append(line_item(now, name, error, content, text))
            offset += len(line)
        return records, quarantined

    def _refuse(self, error: RecordError, offset: int) -> None:
        self._context.counters.rejected("jsonl", error.reason)
        self._log.warning(
            "line_refused", at_byte=offset, field=error.field, reason=error.reason, error=str(error)
        )


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


def _continues(file: BinaryIO, place: FilePosition) -> bool:
    """True when a file begins as it did, and is long enough to contain the position."""
    long_enough = os.fstat(file.fileno()).st_size >= place.offset
    return long_enough and _head(file, place.head_bytes) == (place.head, place.head_bytes)


def _holds(path: Path, place: FilePosition, *, same_inode: bool) -> bool:
    if not path.is_file() or (path.stat().st_ino == place.inode) is not same_inode:
        return False
    if not same_inode and not place.head_bytes:
        return False  # nothing to know it by
    with path.open("rb") as file:
        return _continues(file, place)
