"""Objects of an S3 bucket, in the order in which they came, each row once.

An object that does not change any more is read from its beginning to its end; its time, its name
and the rows that were read are committed together with the records, so a crash neither repeats nor
skips a row. What is written again under its name is read again; records with ids count once.
"""

import io
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import IO, TYPE_CHECKING, Annotated, Literal, cast

import msgspec
import structlog
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragmon import row_files
from ragmon.errors import RemoteError, SettingsError
from ragmon.files import BROKEN
from ragmon.loops import Loop, LoopOptions, LoopOwner, beat
from ragmon.mapping import mapping_of
from ragmon.sources import ListedObject, ObjectStore, SourceContext
from ragmon.sources.line_intake import IntakeOptions, LineIntake

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_RESOLUTION_S = 1.0  # of the times of a listing: objects of a second are read when it is over
_LONGEST_PAUSE_S = 300.0  # of a bucket that does not answer
_MOST_ROWS = 1_000
_MOST_BYTES = 1 << 20  # of the rows of one batch
_ROOM_LEFT = 64 << 20  # bytes of the temporary folder that are left to others
_MOST_ARRAY = 64 << 20  # bytes of a JSON array, which is in memory as a whole


class Options(BaseModel):
    """``sources: [{kind: objects, url: s3://bucket/prefix}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    url: Annotated[str, Field(pattern="^s3://[^/?#]+(/[^?#]*)?$")]
    """Bucket and beginning of the names, such as s3://logs/rag. Credentials come from the variables
    AWS_*, the shared credentials file or the role of the machine, as for backups."""
    endpoint: Annotated[str, Field(pattern="^(https?://.+)?$")] = ""
    """URL of another server than AWS, such as MinIO; empty: AWS, or AWS_ENDPOINT_URL."""
    region: str = ""
    """Region of the bucket; empty: AWS_REGION, else us-east-1."""
    form: Literal["jsonl", "json", "csv", "tsv", "parquet"] | None = None
    """Form of all objects; none: by the ending of each name, also under .gz and .zst, and objects
    with another ending are left out."""
    records: Literal["queries", "feedback", "labels"] = "queries"
    """Kind of the records: queries, feedback or labels."""
    mapping: dict[str, str] = {}
    """JMESPath expressions by field of the record, for rows of another form; none: the rows are
    records."""
    poll_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """Seconds between two listings of the bucket."""
    settle_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Seconds for which an object must not have changed before it is read. Longer than an upload in
    parts takes: such an object has the time at which its upload began."""
    max_object_bytes: Annotated[int, Field(gt=0)] = 10 << 30
    """Size of the largest object that is read, 10 GiB: each is copied into the temporary folder
    (TMPDIR) while its rows are read. A larger one is left out, logged and counted."""

    @model_validator(mode="after")
    def _can_be(self) -> "Options":
        mapping_of(self.mapping, self.records)
        return self


class ObjectPosition(Struct, frozen=True):
    """The object that was read last, and how far."""

    modified: str  # ISO 8601, as the server lists it
    name: str
    rows: int = 0
    is_done: bool = False


def build(options: Options, context: SourceContext) -> "ObjectSource":
    """A source that reads the objects of one prefix."""
    if options.form == "parquet":
        row_files.require_parquet()
    if context.objects is None:
        raise SettingsError("this program has no object store", hint="Run `ragmon serve`")
    store = context.objects(options.url, options.endpoint, options.region)
    return ObjectSource(options, context, store)


class ObjectSource(LoopOwner):
    """One thread that lists, reads, submits, and waits until it is durable."""

    def __init__(self, options: Options, context: SourceContext, store: ObjectStore) -> None:
        self._options = options
        self._context = context
        self._store = store
        self._name = f"objects:{options.url}"
        self._log = structlog.get_logger("objects").bind(url=options.url)
        self._waiting: deque[ListedObject] = deque()
        self._current = ""
        mapping = mapping_of(options.mapping, options.records)
        self._intake = LineIntake(
            IntakeOptions("objects", options.records, mapping, "row"),
            context,
            self._log,
            lambda row: f"{options.url}: {self._current}, row {row}",
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
        """Read and deliver one object; False when there is no new one.

        Raises:
            RagmonError: the store did not answer, or refused.
        """
        packed = self._context.offset(self._name)
        place = msgspec.msgpack.decode(packed, type=ObjectPosition) if packed else None
        if not self._waiting:
            self._waiting.extend(self._listed(place))
        if not self._waiting:
            return False
        listed = self._waiting[0]
        try:
            is_read = self._read(listed, place)
        except BaseException:
            self._waiting.clear()  # it may be gone: the next listing knows
            raise
        if is_read:
            self._waiting.popleft()
        return is_read

    def _listed(self, place: ObjectPosition | None) -> list[ListedObject]:
        """Objects after the last one, in order, that do not change any more."""
        newest = self._context.clock.now() - max(self._options.settle_s, _RESOLUTION_S)
        return sorted(
            (
                listed
                for listed in self._store.objects()
                if self._form(listed)
                and _is_next(listed, place)
                and datetime.fromisoformat(listed.modified).timestamp() <= newest
            ),
            key=lambda listed: (listed.modified, listed.name),
        )

    def _form(self, listed: ListedObject) -> str:
        """The form of an object; empty where it is none to read."""
        if not listed.size_bytes or listed.name.endswith("/"):
            return ""
        return self._options.form or row_files.form_of(listed.name)

    def _read(self, listed: ListedObject, place: ObjectPosition | None) -> bool:
        """Deliver the rows of an object that were not yet; False when stopped first."""
        form = self._form(listed)
        if form == "parquet":
            row_files.require_parquet()  # or every object would count as damaged
        done = 0
        if place is not None and (place.modified, place.name) == (listed.modified, listed.name):
            done = place.rows
        self._current = listed.name
        if listed.size_bytes > self._options.max_object_bytes:
            return self._leave_out(listed)
        _require_room(listed)
        with tempfile.TemporaryFile() as file:
            self._store.get_into(listed.name, file)
            file.seek(0)
            beating = cast("IO[bytes]", io.BufferedReader(_BeatingFile(file)))
            batches = self._batches(beating, form, done, listed)
            batch = next(batches, [])
            while True:
                after = next(batches, None)
                done += len(batch)
                reached = ObjectPosition(listed.modified, listed.name, done, after is None)
                position = (self._name, msgspec.msgpack.encode(reached))
                if not self._intake.deliver(batch, position, self.loop.stopping):
                    return False
                if after is None:
                    return True
                batch = after

    def _leave_out(self, listed: ListedObject) -> bool:
        """Go on behind an object that is too large; False when stopped first."""
        self._context.counters.rejected("objects", "object_too_large")
        self._log.error(
            "object_too_large",
            object=listed.name,
            size_bytes=listed.size_bytes,
            limit_bytes=self._options.max_object_bytes,
            remedy="write smaller objects, or raise max_object_bytes of this source",
        )
        reached = ObjectPosition(listed.modified, listed.name, 0, is_done=True)
        position = (self._name, msgspec.msgpack.encode(reached))
        return self._intake.deliver([], position, self.loop.stopping)

    def _batches(
        self, file: IO[bytes], form: str, done: int, listed: ListedObject
    ) -> Iterator[list[tuple[int, bytes]]]:
        """Rows with their numbers; the end of a damaged object is left out and counted."""
        batch: list[tuple[int, bytes]] = []
        size = 0
        try:
            rows = row_files.rows(file, form, _MOST_ARRAY)
            for number, row in enumerate(islice(rows, done, None), done + 1):
                batch.append((number, row))
                size += len(row)
                if len(batch) == _MOST_ROWS or size >= _MOST_BYTES:
                    yield batch
                    batch, size = [], 0
        except (SettingsError, *BROKEN) as error:
            self._context.counters.rejected("objects", "damaged_object")
            self._log.warning("object_damaged", object=listed.name, error=str(error)[:300])
        if batch:
            yield batch


class _BeatingFile(io.RawIOBase):
    """A file whose every reading is a heartbeat: millions of blank lines give no row."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of every file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As of every file."""
        return self._file.tell()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """As of every file."""
        beat()
        return cast("io.BufferedRandom", self._file).readinto(buffer)


def free_bytes() -> int:
    """Bytes that the temporary folder has room for."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def _require_room(listed: ListedObject) -> None:
    """Refuse, for now, to fill the temporary folder, which others need as well.

    Raises:
        RemoteError: there is too little room.
    """
    free = free_bytes()
    if listed.size_bytes > free - _ROOM_LEFT:
        folder = tempfile.gettempdir()
        raise RemoteError(
            f"object {listed.name} of {listed.size_bytes:,} bytes does not fit into {folder}, which"
            f" has {free:,} left",
            hint="Make room there, or set TMPDIR to a larger folder; it is tried again",
        )


def _is_next(listed: ListedObject, place: ObjectPosition | None) -> bool:
    if place is None:
        return True
    here, there = (listed.modified, listed.name), (place.modified, place.name)
    return here > there or (here == there and not place.is_done)
