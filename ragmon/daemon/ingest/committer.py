"""One group of submissions into one commit: duplicates out, changes to their queries, counted.

Everything is prepared before the store is asked, and nothing is remembered until it answered:
a failed commit leaves no trace.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from ragmon.daemon.ingest.changes import (
    Changes,
    Postponed,
    Restated,
    from_waiting,
    sender_pipelines,
)
from ragmon.daemon.ingest.counting import WindowCounts
from ragmon.daemon.ingest.elsewhere import Elsewhere, HandingOver, LateChanges, note_fate
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.daemon.ingest.group_parts import Counted, Doubted, Fresh, arrivals_of
from ragmon.daemon.ingest.identities import Identities
from ragmon.daemon.ingest.record_cache import RecordCache
from ragmon.errors import StoreBodiesError, StoreInDoubtError
from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.repeats import RepeatTable
from ragmon.sources import Submission
from ragmon.stores import Commit, Waiting
from ragmon.stores.ports import Shard
from ragmon.windows.observations import Observations, pack

_TAKEN_UP = 16  # hashes at a time: for each an object may have to be read
_LATE = (
    "amendments", "waiting", "offsets", "judged", "handed", "claimed", "quarantined", "spans"
)  # fmt: skip
_encode_into = msgspec.msgpack.Encoder().encode_into


class Committer:
    """Owns the order: prepare, commit, count."""

    def __init__(
        self,
        shard: Shard,
        pipeline: Pipeline,
        windows: WindowCounts,
        exemplars: ExemplarStore,
        *,
        most_waiting: int,
        record_cache: RecordCache | None = None,
    ) -> None:
        self.repeats = RepeatTable()
        self.elsewhere: Elsewhere | None = None  # where other processes store queries, too
        self._shard = shard
        self._record_cache = record_cache or RecordCache()
        self._identities = Identities(shard, self._record)
        self._pipeline = pipeline
        self._windows = windows
        self._exemplars = exemplars
        self._most_waiting = most_waiting
        self._listeners: list[Callable[[Counted], None]] = []
        self._readers: list[Callable[[Sequence[QueryRecord]], None]] = []
        self._report: Callable[[Exception], None] = _ignore
        self.forbidden = 0  # changes that waited for a query which their sender may not change
        self._doubted: Doubted | None = None
        self._encoded = bytearray()  # fresh memory for every commit would cost more than encoding

    def commit(self, group: Sequence[Submission], now: float) -> None:
        """Make the group durable and count it; fills in each submission's duplicates and refusals.

        Raises:
            StoreError: nothing was kept.
        """
        self._settle()
        fresh = self._fresh(group)
        try:
            self._commit(group, fresh, now)
        except BaseException:
            self.repeats.take_back(fresh.received)
            raise

    def take_up(self, now: float) -> int:
        """Apply some changes whose query could not be read when they came; returns how many.

        Raises:
            StoreBodiesError: it still cannot be read; nothing was changed.
            StoreError: nothing was changed.
        """
        self._settle()
        hashes = self._shard.waiting_hashes()
        stored = self._shard.find_many(np.array(hashes, dtype=np.uint64)) if hashes else []
        known = [each for each, at in zip(hashes, stored, strict=True) if at is not None]
        waiting = self._shard.waiting(known[:_TAKEN_UP])
        if waiting:
            self._commit((), Fresh([], [], {}, {}), now, waiting)
        return len(waiting)

    def _commit(
        self,
        group: Sequence[Submission],
        fresh: Fresh,
        now: float,
        taken_up: Sequence[Waiting] = (),
    ) -> None:
        by_sequence = dict(zip(fresh.sequences.values(), fresh.records, strict=True))
        changes = Changes(self._shard, self._pipeline, by_sequence, self._record)
        room = self._most_waiting - self._shard.waiting_count()
        postponed = Postponed(self._shard, room)
        arrived = [*taken_up, *self._shard.waiting(fresh.hashes)]
        self._apply_arrived(arrived, changes, postponed, fresh)
        self._revise(group, changes, fresh)
        handing = HandingOver(self.elsewhere, [submission.places for submission in group])
        self._apply(group, changes, LateChanges(postponed, handing), fresh, now)
        restated = changes.restated()
        observations = self._pipeline.observe(fresh.records) if fresh.records else None
        commit = replace(
            self._block(fresh, observations),
            amendments=restated.amendments,
            restatement=restated.packed(self._pipeline.columns),
            waiting=postponed.waiting,
            awaited=changes.awaited,
            judged=changes.judged,
            arrived=sorted({waiting.query_hash for waiting in arrived}),
            offsets=[offset for each in group for offset in each.offsets],
            handed=handing.handed,
            claimed=[row for each in group for row in each.claimed],
            spans=[row for each in group for row in each.spans],
            quarantined=[item for each in group for item in each.quarantined],
        )
        if fresh.records or any(getattr(commit, part) for part in _LATE):
            first = self._shard.next_sequence
            try:
                self._shard.commit(commit)
            except StoreInDoubtError:
                counted = Counted(observations, restated, arrivals_of(group))
                self._doubted = Doubted(fresh, counted, commit, changes.revised)
                raise
            self._record_cache.keep(first, commit.hashes, commit.records)
            self._record_cache.discard(changes.revised)
        self._count(observations, restated)
        self._tell(fresh, Counted(observations, restated, arrivals_of(group)))

    def _settle(self) -> None:
        """Count the commit before, if its outcome was not known and turns out to be durable.

        Whoever sent it was told to send it again: then all of it is known already.

        Raises:
            StoreInDoubtError: it is still not known.
        """
        doubted = self._doubted
        if doubted is None:
            return
        first = self._shard.next_sequence
        is_durable = self._shard.settle()
        self._doubted = None
        if is_durable:
            self.repeats.number(doubted.fresh.received)
            self._record_cache.keep(first, doubted.commit.hashes, doubted.commit.records)
            self._record_cache.discard(doubted.revised)
            self._count(doubted.counted.logged, doubted.counted.restated)
            self._tell(doubted.fresh, doubted.counted)

    def follow(self, counted: Counted) -> None:
        """Count what another process committed."""
        self._count(counted.logged, counted.restated)
        for listener in self._listeners:
            self._try(listener, counted)

    def hand_over(self, now: float, *, newest_only: bool) -> int:
        """Hand changes that wait here to the owners of their queries; returns how many.

        Args:
            now: unix seconds.
            newest_only: whether to look among the newest queries of other shards only.

        Raises:
            StoreError: none was handed over.
        """
        self._settle()
        if self.elsewhere is None:
            return 0
        hashes = self.elsewhere.stored(self._shard.waiting_hashes(), newest_only=newest_only)
        rows = self._shard.waiting(hashes)
        if not rows:
            return 0
        handing = HandingOver(self.elsewhere)
        handing.look_up(from_waiting(row).query_id for row in rows)
        kept = [row for row in rows if not self._hands_over(handing, row, now)]
        arrived = sorted({row.query_hash for row in rows})
        self.send(arrived=arrived, waiting=kept, handed=handing.handed)
        return len(handing.handed)

    def send(self, **parts: Any) -> None:
        """Commit what changes no record.

        Args:
            **parts: of a ``Commit``.

        Raises:
            StoreError: nothing was kept.
        """
        self._settle()
        commit = replace(_nothing(), **parts)
        try:
            self._shard.commit(commit)
        except StoreInDoubtError:
            counted = Counted(None, Restated(), [])
            self._doubted = Doubted(Fresh([], [], {}, {}), counted, commit, ())
            raise

    def find(self, query_id: str) -> int | None:
        """Sequence number of a query of this shard."""
        return self._identities.find(query_id).sequence

    def let_go(self) -> None:
        """Let go of what is cached, because records were erased."""
        self._record_cache.clear()

    def _hands_over(self, handing: HandingOver, row: Waiting, now: float) -> bool:
        fate = handing.add(from_waiting(row), now, sender_pipelines(row))
        self.forbidden += fate == "pipeline_forbidden"
        return fate is not None

    def listen(self, listener: Callable[[Counted], None]) -> None:
        """Have a function called with what each commit adds, on the thread that commits."""
        self._listeners.append(listener)

    def read(self, reader: Callable[[Sequence[QueryRecord]], None]) -> None:
        """Have a function called with the new records of each commit, on the thread that commits.

        It costs every record: at most a microsecond each.
        """
        self._readers.append(reader)

    def report(self, report: Callable[[Exception], None]) -> None:
        """Have a function called with what went wrong after a commit was durable."""
        self._report = report

    def _record(self, sequence: int) -> bytes | None:
        cached = self._record_cache.record(sequence)
        return self._shard.record(sequence) if cached is None else cached

    def _fresh(self, group: Sequence[Submission]) -> Fresh:
        """The records not stored yet, in order; the others are counted as duplicates."""
        ids = [record.query_id for each in group for record in each.records]
        hashes, stored = self._identities.find_all(ids)
        fresh = Fresh([], [], {}, {})
        places = iter(zip(hashes, stored, strict=True))
        for submission in group:
            for record in submission.records:
                query_hash, known = next(places)
                if query_hash in fresh.hashes and record.query_id not in fresh.sequences:
                    query_hash, sequence = self._identities.find(record.query_id, fresh.hashes)
                    known = sequence is not None
                if known or record.query_id in fresh.sequences:
                    submission.duplicates += 1
                else:
                    sequence = self._shard.next_sequence + len(fresh.received)
                    fresh.sequences[record.query_id] = sequence
                    fresh.hashes[query_hash] = record.query_id
                    fresh.received.append(record)
        self.repeats.number(fresh.received)
        fresh.records.extend(map(self._pipeline.admit, fresh.received))
        return fresh

    def _apply_arrived(
        self, arrived: Sequence[Waiting], changes: Changes, postponed: Postponed, fresh: Fresh
    ) -> None:
        """Apply what waited for the new records, or for stored ones that could not be read."""
        for waiting in arrived:
            change = from_waiting(waiting)
            query_hash, sequence = 0, fresh.sequences.get(change.query_id)
            if sequence is None:
                query_hash, sequence = self._identities.find(change.query_id, fresh.hashes)
            if sequence is None:
                postponed.move(query_hash, waiting)
            else:
                fate = changes.apply(sequence, change, sender_pipelines(waiting))
                self.forbidden += fate == "pipeline_forbidden"

    def _apply(
        self,
        group: Sequence[Submission],
        changes: Changes,
        late: LateChanges,
        fresh: Fresh,
        now: float,
    ) -> None:
        """Apply feedback, labels and verdicts, hand them to the owner of their query, or wait."""
        for submission, position in self._as_stored(group):
            change = submission.changes[position]
            admitted = self._pipeline.admit_change(change)
            sequence = fresh.sequences.get(change.query_id)
            if sequence is None:
                query_hash = 0
                if change.query_id not in submission.places:
                    query_hash, sequence = self._identities.find(change.query_id, fresh.hashes)
                if sequence is None:
                    late.add(submission, position, admitted, query_hash)
                    continue
            try:
                fate = changes.apply(sequence, admitted, submission.pipelines)
            except StoreBodiesError:  # it waits until its query can be read
                query_hash = self._identities.find(change.query_id, fresh.hashes).query_hash
                late.wait(submission, position, admitted, query_hash, now)
            else:
                note_fate(submission, position, fate)
        late.settle(now)

    def _as_stored(self, group: Sequence[Submission]) -> list[tuple[Submission, int]]:
        """The changes by their places: in the order of their queries, so a block is opened once.

        Those of one query keep their order.
        """
        places = [(each, at) for each in group for at in range(len(each.changes))]
        order = self._identities.order([each.changes[at].query_id for each, at in places])
        return [places[at] for at in order]

    def _revise(self, group: Sequence[Submission], changes: Changes, fresh: Fresh) -> None:
        """Put queries that were mapped again in the place of the stored ones; some are gone."""
        revisions = [mapped for submission in group for mapped in submission.revisions]
        for at in self._identities.order([mapped.query_id for mapped in revisions]):
            mapped = revisions[at]
            sequence = fresh.sequences.get(mapped.query_id)
            if sequence is None:
                _, sequence = self._identities.find(mapped.query_id, fresh.hashes)
            if sequence is not None:
                changes.revise(sequence, mapped)

    def _block(self, fresh: Fresh, observations: Observations | None) -> Commit:
        """A commit of the new records alone."""
        hashes = np.fromiter(fresh.hashes, np.uint64, len(fresh.hashes))
        if observations is None:
            return Commit(hashes=hashes)
        _encode_into(fresh.records, self._encoded)
        return Commit(
            records=self._encoded,
            hashes=hashes,
            first_timestamp=float(observations.timestamps.min()),
            last_timestamp=float(observations.timestamps.max()),
            observations=pack(observations, self._pipeline.columns),
        )

    def _count(self, observations: Observations | None, restated: Restated) -> None:
        """Add it to the windows. From here on nothing is refused: what is durable is accepted."""
        try:
            if observations is not None:
                self._windows.fold(observations)
            if restated.old is not None and restated.new is not None:
                self._windows.restate(restated.old, restated.new)
        except Exception as error:  # noqa: BLE001 - they are counted anew from the store
            self._windows.is_incomplete = True
            self._report(error)

    def _tell(self, fresh: Fresh, counted: Counted) -> None:
        """Have others count it; a defect of one of them costs only its own."""
        for reader in (self._exemplars.observe, *self._readers):
            self._try(reader, fresh.records)
        for listener in self._listeners:
            self._try(listener, counted)

    def _try(self, function: Callable[[Any], None], argument: object) -> None:
        try:
            function(argument)
        except Exception as error:  # noqa: BLE001 - the commit is durable, and others count it
            self._report(error)


def _nothing() -> Commit:
    return Commit(hashes=np.empty(0, dtype=np.uint64))


def _ignore(_: Exception) -> None:
    """Nobody asked."""
