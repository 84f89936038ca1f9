"""One group of submissions into one commit: duplicates out, changes to their queries, counted.

Everything is prepared before the store is asked, and nothing is remembered until it answered:
a failed commit leaves no trace.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ragmon.daemon.changes import Changes, Restated, from_waiting, to_waiting
from ragmon.daemon.exemplars import ExemplarStore
from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from ragmon.stores import Commit, Hashes, Store, Waiting
from ragmon.windows import Windows
from ragmon.windows.observations import Observations, pack

_encode = msgspec.msgpack.Encoder().encode


class Fresh(NamedTuple):
    """The new records of a group."""

    records: list[QueryRecord]
    hashes: Hashes
    sequences: dict[int, int]  # by hash


class Committer:
    """Owns the order: prepare, commit, count."""

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        windows: Windows,
        exemplars: ExemplarStore,
        *,
        most_waiting: int,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._windows = windows
        self._exemplars = exemplars
        self._most_waiting = most_waiting

    def commit(self, group: Sequence[Submission], now: float) -> None:
        """Make the group durable and count it; fills in each submission's duplicates and refusals.

        Raises:
            StoreError: nothing was kept.
        """
        fresh = self._fresh(group)
        by_sequence = dict(zip(fresh.sequences.values(), fresh.records, strict=True))
        changes = Changes(self._store, self._pipeline, by_sequence)
        arrived = self._store.waiting(fresh.sequences)
        for waiting in arrived:
            changes.apply(fresh.sequences[waiting.query_hash], from_waiting(waiting))
        late = self._apply(group, changes, fresh, now)
        restated = changes.restated()
        observations = self._pipeline.observe(fresh.records) if fresh.records else None
        commit = self._assemble(fresh, observations, restated)
        commit.waiting = late
        commit.arrived = sorted({waiting.query_hash for waiting in arrived})
        commit.offsets = [each.offset for each in group if each.offset is not None]
        if commit.records or commit.amendments or commit.waiting or commit.offsets:
            self._store.commit(commit)
        self._count(observations, restated)
        self._exemplars.observe(fresh.records)

    def _fresh(self, group: Sequence[Submission]) -> Fresh:
        """The records not stored yet, in order; the others are counted as duplicates."""
        hashes = [self._store.hash(record.query_id) for each in group for record in each.records]
        known = self._store.known(np.array(hashes, dtype=np.uint64)).tolist()
        kept: list[QueryRecord] = []
        sequences: dict[int, int] = {}
        at = 0
        for submission in group:
            for record in submission.records:
                if known[at] or hashes[at] in sequences:
                    submission.duplicates += 1
                else:
                    sequences[hashes[at]] = self._store.next_sequence + len(kept)
                    kept.append(self._pipeline.admit(record))
                at += 1
        return Fresh(kept, np.fromiter(sequences, np.uint64, len(sequences)), sequences)

    def _apply(
        self, group: Sequence[Submission], changes: Changes, fresh: Fresh, now: float
    ) -> list[Waiting]:
        """Apply feedback and labels; returns those whose query has not come yet."""
        late: list[Waiting] = []
        room = self._most_waiting - self._store.waiting_count()
        for submission in group:
            for position, change in enumerate(submission.changes):
                query_hash = self._store.hash(change.query_id)
                sequence = fresh.sequences.get(query_hash)
                if sequence is None:
                    sequence = self._store.find(query_hash)
                if sequence is None and len(late) >= room:
                    submission.refused.append((position, "waiting_full"))
                elif sequence is None:
                    late.append(to_waiting(query_hash, self._pipeline.admit_change(change), now))
                elif not changes.apply(sequence, self._pipeline.admit_change(change)):
                    submission.duplicates += 1
        return late

    def _assemble(
        self, fresh: Fresh, observations: Observations | None, restated: Restated
    ) -> Commit:
        commit = Commit(
            hashes=fresh.hashes,
            amendments=restated.amendments,
            restatement=restated.packed(self._pipeline.columns),
        )
        if observations is not None:
            commit.records = [_encode(record) for record in fresh.records]
            commit.first_timestamp = float(observations.timestamps.min())
            commit.last_timestamp = float(observations.timestamps.max())
            commit.observations = pack(observations, self._pipeline.columns)
        return commit

    def _count(self, observations: Observations | None, restated: Restated) -> None:
        if observations is not None:
            self._windows.fold(observations)
        if restated.old is not None and restated.new is not None:
            self._windows.restate(restated.old, restated.new)
