"""Store, windows and writer put together: what a restart rebuilds and a snapshot saves."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import structlog

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.changes import Restated
from ragmon.daemon.ingest.committer import Committer
from ragmon.daemon.ingest.counting import WindowCounting
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.daemon.ingest.group_parts import Counted
from ragmon.daemon.ingest.record_cache import RecordCache
from ragmon.daemon.ingest.retention import RetentionClock
from ragmon.daemon.ingest.writer import Writer
from ragmon.errors import StoreBodiesError, StoreError
from ragmon.loops import beat
from ragmon.pipeline import Pipeline
from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.repeats import MOST_QUESTIONS, Asked
from ragmon.stores import JournalEntry, Restatement
from ragmon.stores.ports import Store
from ragmon.stores.quarantine import QuarantineBounds
from ragmon.stores.sharing import OtherShards
from ragmon.windows import Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.observations import unpack
from ragmon.windows.snapshot import dump_totals

_decode_asked = msgspec.msgpack.Decoder(Asked).decode


class WindowSnapshot(NamedTuple):
    """State of the windows at one moment; the windows go on."""

    changed: ChangedBuckets
    totals: bytes
    positions: Positions

    def prepare(self) -> None:
        """Do the most of the work, on any thread."""
        self.changed.prepare()


class Recounts(msgspec.Struct):
    """Counts of windows that were counted anew because the clock had been wrong."""

    times: int = 0
    left_out: int = 0  # stored queries so far ahead of the clock that no window counts them yet


class Engine:
    """The state of one daemon: store, windows and the writer that owns them.

    Once the writer runs, ``thread`` is the way to the methods, the windows and the store.
    """

    others: OtherShards | None = None  # that workers write; None where this process does it all
    frontier = math.inf  # unix seconds: of what workers log until then, nothing is missing
    _taken: WindowSnapshot | None = None  # begun, and not saved yet
    _is_paused = False  # snapshots are
    _is_replaced = False  # the windows are not those of the last snapshot

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        windows: Windows,
        clock: Clock,
        settings: Settings,
        *,
        on_commit: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Put them together; nothing is read yet.

        Args:
            store: opened, with one shard.
            pipeline: by the settings.
            windows: empty.
            clock: of the daemon.
            settings: of the daemon.
            on_commit: called with the seconds that each commit took.
        """
        self.store = store
        self.shard = store.shards[ONLY_SHARD]
        self.state = store.state
        self.pipeline = pipeline
        self.windows = windows
        self.exemplars = ExemplarStore()
        self._settings = settings
        self.ages = RetentionClock(clock)
        self.waiting_expired = 0  # feedback and labels whose query never came
        self._saved: Positions = {}
        self._compacted = 0
        self.record_cache = RecordCache()
        self.counting = WindowCounting(self.state, windows)
        self.recounts = Recounts()
        self.quarantine = self.shard.quarantine(_bounds(settings))
        self.committer = Committer(
            self.shard,
            pipeline,
            windows,
            self.exemplars,
            most_waiting=settings.limits.waiting,
            record_cache=self.record_cache,
        )
        queue_bytes = settings.limits.queue
        self.writer = Writer(self.committer, clock, queue_bytes=queue_bytes, on_commit=on_commit)
        self.thread = self.writer.thread
        self.on_erased: list[Callable[[], None]] = []  # lets go of content beside the store
        self._log = structlog.get_logger("windows")
        self._listen()

    def _listen(self) -> None:
        self.committer.report(self._note_defect)
        self.committer.listen(self._mend_after)

    @property
    def max_clock_skew_s(self) -> float:
        """Longest time by which a query may lie ahead of the clock."""
        return self._settings.max_clock_skew

    @property
    def positions(self) -> Positions:
        """The place up to which the windows have counted, by shard; their own to its end."""
        return {**self.counting.positions, self.shard.number: self.shard.position}

    def has_counted(self, entry: JournalEntry) -> bool:
        """True for an entry of the journal that the windows hold."""
        if entry.shard == self.shard.number:
            return True
        counted = self.counting.positions.get(entry.shard, Position())
        if isinstance(entry.change, Restatement):
            return entry.position.restatement <= counted.restatement
        return entry.position.sequence <= counted.sequence

    def follow(self, entries: Sequence[JournalEntry]) -> None:
        """Count what other processes committed, each entry once; on the writer's thread."""
        columns = self.pipeline.columns
        for entry in entries:
            if self.has_counted(entry):
                continue
            self.counting.positions[entry.shard] = entry.position
            change = entry.change
            if isinstance(change, Restatement):
                restated = Restated((), unpack(change.old, columns), unpack(change.new, columns))
                self.committer.follow(Counted(None, restated, []))
            else:
                self.committer.follow(Counted(unpack(change, columns), Restated(), []))
        self.writer.stats.version += 1

    def restore(self) -> int:
        """Load the last snapshot and count what came after it; returns how many records."""
        self._saved, records = self.counting.count()
        self._recall_questions()
        return records

    def mend(self) -> None:
        """Count the windows anew if that failed half-way, as a restart would.

        Until it succeeds no snapshot is saved, so that none lacks what was committed.

        Raises:
            StoreError: the store could not be read.
        """
        if self.windows.is_incomplete:
            self._log.error("windows_incomplete", remedy="they are counted anew from the store")
            self._saved, records = self.counting.count()
            self._log.info("windows_counted_anew", replayed=records)

    def index(self) -> None:
        """Write the id index of the newest records to disk when that is due.

        Raises:
            StoreError: it could not be written.
        """
        with self._noted():
            self.shard.index()

    def snapshot(self) -> None:
        """Save the buckets that changed, and the position they stand for: all of it at once."""
        self.index()
        taken = self.begin_snapshot()
        if taken is not None:
            self.save_snapshot(taken)

    def begin_snapshot(self) -> WindowSnapshot | None:
        """Take what has changed since the last snapshot, for ``save_snapshot``; None: nothing has.

        What an earlier call took and nobody saved is part of it.
        """
        self.mend()
        if self._taken is not None:
            self._taken.changed.put_back()
            self._taken = None
        positions = self.positions
        is_saved = positions == self._saved and not self._is_replaced
        if self._is_paused or (is_saved and self.writer.last_error is None):
            return None
        totals = dump_totals(self.windows)
        self._taken = WindowSnapshot(ChangedBuckets(self.windows), totals, positions)
        return self._taken

    def save_snapshot(self, taken: WindowSnapshot) -> None:
        """Save it, unless another was begun since, which has all of it.

        It also tries a store that refused the last write, since whoever is not ready gets no
        traffic that would.

        Raises:
            StoreError: it could not be written; the next snapshot has all of it.
        """
        if taken is not self._taken:
            return
        self._taken = None
        try:
            with self._noted():
                # Bucket by bucket: together they may be a hundred megabytes after a back-fill.
                self.state.save_windows(taken.changed.dump(), taken.totals, taken.positions)
        except BaseException:
            taken.changed.put_back()
            raise
        self._saved = taken.positions
        self._is_replaced = False
        self.writer.note_write(None)

    def pause_snapshots(self) -> None:
        """Save none until ``resume_snapshots``: what came after the last one stays readable."""
        if self._taken is not None:
            self._taken.changed.put_back()
            self._taken = None
        self._is_paused = True

    def resume_snapshots(self) -> None:
        """Save them again."""
        self._is_paused = False

    def note_recount(self, left_out: int) -> None:
        """Have windows that were counted anew saved whole, and shown."""
        self._is_replaced = True
        self.recounts.times += 1
        self.recounts.left_out = left_out
        self.writer.stats.version += 1

    def expire(self, now: float) -> int:
        """Delete one step's worth of what retention no longer covers; returns how many records."""
        retention = self._settings.retention
        deleted = self.shard.expire(now - retention.records, retention.max_disk)
        if deleted:
            self.record_cache.clear()
        return deleted

    def take_up(self, now: float) -> int:
        """Apply some changes that waited because their query could not be read; how many."""
        try:
            return self.committer.take_up(now)
        except StoreBodiesError as error:
            self._log.info("changes_wait", reason=str(error))
            return 0

    def forget(self, now: float) -> None:
        """Let go of windows, series and quarantined entries that are too old."""
        retention = self._settings.retention
        coarsest = len(self.windows.tiers) - 1
        oldest = [
            int(now - (retention.windows if level == coarsest else tier.width_s * tier.slots))
            // tier.width_s
            for level, tier in enumerate(self.windows.tiers)
        ]
        self.waiting_expired += self.shard.expire_waiting(now - retention.records)
        self.state.expire_windows(oldest)
        self.quarantine.expire(now - self._settings.quarantine.keep)
        self.windows.forget(now)

    def compact(self) -> int:
        """Join one stretch of small blocks; returns how many blocks it took, 0 at the end."""
        below = self._saved.get(self.shard.number, Position()).sequence
        joined, self._compacted = self.shard.compact(self._compacted, below)
        if self._compacted >= below:
            self._compacted = 0
            return 0
        return joined

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Have the writer know of a store that refuses inside the block."""
        try:
            yield
        except StoreError as error:
            self.writer.note_write(error)
            raise

    def _recall_questions(self) -> None:
        """Remember the questions of the newest records, so that a restart hides no repeat."""
        at = max(0, self.shard.next_sequence - MOST_QUESTIONS)
        with self.store.reader() as reader:
            while (block := reader.hashes_from(at)) is not None:
                first, hashes = block
                if first >= self.shard.next_sequence:  # of a worker, which remembers its own
                    break
                try:
                    records = reader.records(first)
                except StoreBodiesError as error:  # a start needs no object store
                    self._log.warning("repeats_unknown", reason=str(error))
                    records = []
                self.committer.repeats.number(map(_decode_asked, records))
                at = first + len(hashes)
                beat()

    def _note_defect(self, error: Exception) -> None:
        self.writer.loop.heartbeat.fail()
        self._log.error("counting_failed", error=repr(error), exc_info=error)

    def _mend_after(self, _: Counted) -> None:
        try:
            self.mend()
        except Exception:  # noqa: BLE001 - what was committed is durable; a snapshot tries again
            self._log.exception("windows_still_incomplete")


def _bounds(settings: Settings) -> QuarantineBounds:
    return QuarantineBounds(
        entries=settings.quarantine.max_entries, size_bytes=settings.quarantine.max_size
    )
