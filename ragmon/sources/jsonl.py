"""Reader of a growing file of JSON lines, across rotation, truncation and restarts, each line once.

How far the file was read is committed together with what was read, so a crash neither repeats
nor skips a line.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import structlog
from pydantic import BaseModel, Field, field_validator, model_validator

from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.mapping import mapping_of
from ragmon.sources import SourceContext
from ragmon.sources.line_intake import IntakeOptions, LineIntake
from ragmon.sources.log_file import COMPRESSED, FilePosition, LogOpener, OpenLog
from ragmon.sources.rotation import RotatedLog

_READ_BYTES = 1 << 20
_MOST_LINE_BYTES = 16 << 20
_LONGEST_PAUSE_S = 30.0  # of a file that cannot be read
_ROTATION_S = 5.0  # writers may reopen their log only some time after it was renamed


class Options(BaseModel, frozen=True, extra="forbid"):
    """``sources: [{kind: jsonl, path: …}]``."""

    path: Path
    """File to follow, one JSON object a line; it need not exist yet, and may be rotated and
    compressed (.gz, .zst) before it was read to its end. No pattern, and no compressed file."""
    records: Literal["queries", "feedback", "labels"] = "queries"
    """Kind of records in the file: queries, feedback or labels."""
    poll_s: float = Field(0.5, gt=0, le=60)
    """Seconds between two looks at the file for new lines."""
    mapping: dict[str, str] = {}
    """JMESPath expressions by field of the record, for lines of another form, for example {query:
    input.question, tags.tenant: customer}; none: the lines are records."""

    @field_validator("path")
    @classmethod
    def _is_one_growing_file(cls, path: Path) -> Path:
        if path.suffix in (*COMPRESSED, ".bz2", ".xz"):
            raise ValueError(
                "a compressed file does not grow; name the file that is written (what rotation "
                "made of it is found, .gz and .zst too), and send old ones with `ragmon replay`"
            )
        if any(mark in path.name for mark in "*?") and not path.exists():
            raise ValueError(
                "one source follows one file, and this is a pattern; add a source for each file "
                "that is written (rotated ones are found), and send others with `ragmon replay`"
            )
        return path

    @model_validator(mode="after")
    def _has_a_mapping_that_can_be(self) -> "Options":
        mapping_of(self.mapping, self.records)
        return self


def build(options: Options, context: SourceContext) -> "JsonlSource":
    """A source that follows one file."""
    return JsonlSource(options, context)


class JsonlSource(LoopOwner):
    """One thread that reads, submits, and waits until it is durable."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options = options
        self._context = context
        self._name = f"jsonl:{options.path}"
        self._files = RotatedLog(options.path)
        self._opener = LogOpener()
        self.unread_bytes: int | None = None  # of the file and those it was; None: not looked yet
        self._quiet: tuple[FilePosition, float] | None = (
            None  # a rotated file's end, and since when
        )
        self._log = structlog.get_logger("jsonl").bind(path=str(options.path))
        mapping = mapping_of(options.mapping, options.records)
        self._intake = LineIntake(
            IntakeOptions("jsonl", options.records, mapping, "at_byte"),
            context,
            self._log,
            lambda offset: f"{options.path}, byte {offset}",
        )
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
        path = self._files.find(place)
        if path is None:
            return False
        try:
            with self._opener.open(path) as log:
                if place is None and (beginning := log.position(0)).head_bytes:
                    # Known before its first line is read: a kill now, and its rotation, lose none.
                    return self._deliver([], 0, beginning)
                start = self._start(log, place)
                self.unread_bytes = self._unread(path, start.offset)
                lines, end = _complete_lines(log, start.offset)
                if end > start.offset:
                    if place is not None and place.offset > start.offset:
                        self._log.warning("file_replaced", read_before_to_byte=place.offset)
                    return self._deliver(lines, start.offset, log.position(end, start))
                successor = self._successor(path, start)
                if successor is None:
                    return False
                tail = log.read_at(start.offset, _MOST_LINE_BYTES)  # it will not be completed
                if log.is_damaged:
                    self._log.warning("file_damaged", file=str(path), from_byte=start.offset)
                    self._context.counters.rejected("jsonl", "damaged_file")
            with self._opener.open(successor) as log:
                beginning = log.position(0)
        except FileNotFoundError:
            return False  # it was renamed or compressed just now: it is found under its new name
        return self._deliver([tail + b"\n"] if tail else [], start.offset, beginning)

    def _place(self) -> FilePosition | None:
        stored = self._context.offset(self._name)
        return msgspec.msgpack.decode(stored, type=FilePosition) if stored else None

    def _start(self, log: OpenLog, place: FilePosition | None) -> FilePosition:
        """Position to read on from; the beginning when the file is another or was truncated."""
        if place is not None and log.continues(place):
            return log.position(place.offset, place)
        return log.position(0)

    def _unread(self, path: Path, offset: int) -> int:
        """Bytes after an offset; of a compressed file only those of the one that follows it."""
        live, unread = self._options.path, 0
        with contextlib.suppress(OSError):
            if path.suffix not in COMPRESSED:
                unread = max(0, path.stat().st_size - offset)
            if path != live:
                unread += live.stat().st_size
        return unread

    def _successor(self, path: Path, end: FilePosition) -> Path | None:
        """The file to go on with after the end of a rotated one; None while it may still grow."""
        live = self._options.path
        if path == live:
            return None
        if later := self._files.after(path, end):
            return later  # it was rotated in its turn
        now = self._context.clock.monotonic()
        if self._quiet is None or self._quiet[0] != end:
            self._quiet = (end, now)
        over = now - self._quiet[1] >= _ROTATION_S
        return live if over and live.is_file() and live.stat().st_size else None

    def _deliver(self, lines: list[bytes], offset: int, reached: FilePosition) -> bool:
        """Submit a batch with its position, and wait; False when stopped first."""
        position = (self._name, msgspec.msgpack.encode(reached))
        return self._intake.deliver(_placed(lines, offset), position, self.loop.stopping)


def _placed(lines: list[bytes], offset: int) -> Iterator[tuple[int, bytes]]:
    """Each line with the byte at which it begins."""
    for line in lines:
        yield offset, line
        offset += len(line)


def _complete_lines(log: OpenLog, offset: int) -> tuple[list[bytes], int]:
    """Whole lines from an offset, about a megabyte of them, and where they end."""
    read = log.read_at(offset, _READ_BYTES)
    while b"\n" not in read and len(read) < _MOST_LINE_BYTES:
        more = log.read_at(offset + len(read), _READ_BYTES)
        if not more:
            break
        read += more
    end = read.rfind(b"\n") + 1
    if not end and len(read) >= _MOST_LINE_BYTES:
        end = len(read)  # no line is this long: refuse it piece by piece rather than wait forever
    return [line + b"\n" for line in read[:end].split(b"\n")[:-1]] or [read[:end]], offset + end
