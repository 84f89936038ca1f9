"""Query logs as files of JSON lines, plain or compressed: good lines are kept, bad ones named."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ragmon.backtest.queries import Gatherer, Queries, Refusal
from ragmon.decode import Decoder
from ragmon.durations import rounded_duration_text
from ragmon.errors import RecordError, SettingsError
from ragmon.event_time import Bounds
from ragmon.files import BROKEN, chunks, unpacked
from ragmon.pipeline import Pipeline
from ragmon.records import UNSTAMPED, QueryRecord
from ragmon.repeats import RepeatTable


def read(
    paths: Sequence[Path],
    pipeline: Pipeline,
    *,
    now: float,
    max_skew_s: float = 0.0,
    progress: Callable[[int], None] = lambda _: None,
) -> Queries:
    """Every query of some files, in whatever order they stand there.

    Args:
        paths: JSON lines as ``POST /v1/queries`` takes them, plain, gzip or zstd by their content.
        pipeline: makes observations of queries.
        now: unix seconds; a query from the future is refused, as live.
        max_skew_s: how far in the future a timestamp may lie.
        progress: called with the bytes of the files read so far.

    Raises:
        SettingsError: a file cannot be read to its end.
    """
    gatherer = Gatherer(pipeline.columns, pipeline.slices)
    reader = _Reader(pipeline, gatherer, Bounds(0.0, now + max_skew_s), now)
    before = 0
    for path in paths:
        try:
            with path.open("rb") as raw, unpacked(raw) as stream:
                for line, lines in chunks(stream):
                    reader.take(str(path), line, lines)
                    progress(before + raw.tell())
            before += path.stat().st_size
        except BROKEN as error:
            raise SettingsError(f"cannot read {path}: {error}") from error
    return gatherer.build()


class _Reader:
    """Whole lines to observations, thousands at a time."""

    def __init__(self, pipeline: Pipeline, gatherer: Gatherer, bounds: Bounds, now: float) -> None:
        self._pipeline = pipeline
        self._gatherer = gatherer
        self._bounds = bounds
        self._now = now
        self._repeats = RepeatTable()
        self._all = msgspec.json.Decoder(QueryRecord)
        self._one = Decoder(QueryRecord)

    def take(self, path: str, line: int, lines: bytes) -> None:
        """Decode and observe some lines, the first of which has the number ``line``."""
        records = self._at_once(lines)
        if records is None:
            records = list(self._one_by_one(path, line, lines))
        if records:
            self._repeats.number(records)
            admitted = [self._pipeline.admit(record) for record in records]
            observed = self._pipeline.observe(admitted)
            self._gatherer.add(observed, [record.query_id for record in records])

    def _at_once(self, lines: bytes) -> list[QueryRecord] | None:
        """Every record; None when something is wrong with one of them."""
        try:
            if not lines.isascii():
                lines.decode()  # fields that are not decoded are not checked otherwise
            records = self._all.decode_lines(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        stamps = [record.timestamp for record in records]
        fine = not stamps or (
            min(stamps) >= self._bounds.oldest and max(stamps) <= self._bounds.newest
        )
        return records if fine and b"\\u0000" not in lines else None

    def _one_by_one(self, path: str, line: int, lines: bytes) -> Iterator[QueryRecord]:
        for number, text in enumerate(lines.split(b"\n"), line):
            if text.strip():
                try:
                    yield self._decode(text)
                except RecordError as error:
                    reason = (error.field, error.args[0], error.hint)
                    self._gatherer.refuse(Refusal(path, number, *reason))

    def _decode(self, line: bytes) -> QueryRecord:
        record = self._one(line, UNSTAMPED, Bounds(UNSTAMPED, math.inf))
        if record.timestamp == UNSTAMPED:
            hint = "nothing else says when it was asked"
            raise RecordError("invalid", "timestamp", "is missing", hint=hint)
        if record.timestamp > self._bounds.newest:
            ahead = rounded_duration_text(record.timestamp - self._now)
            message = f"lies {ahead} in the future"
            raise RecordError("future", "timestamp", message, hint="check the logger's clock")
        return record
