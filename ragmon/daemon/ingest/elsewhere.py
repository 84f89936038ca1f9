"""Changes of queries that other processes store: found by id, checked, and handed to their owners.

What is found here may be older than what the owner has, so the owner applies a change as it would
one of its own; here it is only told whether it can be accepted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.access import Pipelines
from ragmon.daemon.ingest.changes import REFUSED, Fate, Postponed, has_room, to_waiting
from ragmon.errors import StoreBodiesError
from ragmon.pipeline import Change, amend
from ragmon.records import Amendments
from ragmon.sources import Submission
from ragmon.stores import Handed, Reader, amendments
from ragmon.stores.sharing import OtherShards

_MOST_ATTEMPTS = 4  # hashes of an id: that two ids have one is hardly ever


class _Stored(Struct):
    """The part of a stored query that a change has to fit."""

    query_id: str
    pipeline: str = "default"


_decode = msgspec.msgpack.Decoder(_Stored).decode


class PlacedQuery:
    """A query of another shard, with what is known of it."""

    def __init__(self, number: int, pipeline: str | None, known: Amendments) -> None:
        self.number = number  # among those of all shards
        self.pipeline = pipeline  # None: it was not read
        self.known = known  # with the changes that were handed over since


class Elsewhere:
    """Finds queries of other shards; for the writer's thread."""

    def __init__(
        self,
        others: OtherShards,
        reader: Callable[[], Reader],
        hash_: Callable[[str, int], int],
    ) -> None:
        """Make it.

        Args:
            others: ids of the queries that workers store.
            reader: opens a view of the store.
            hash_: hash of an id, another for each attempt.
        """
        self._others = others
        self._open = reader
        self._hash = hash_

    def find(self, query_ids: Iterable[str]) -> dict[str, PlacedQuery]:
        """Those of the queries that a worker stored, by their ids."""
        left = [*dict.fromkeys(query_ids)]
        placed: dict[str, PlacedQuery] = {}
        for attempt in range(_MOST_ATTEMPTS):
            hashes = np.array([self._hash(each, attempt) for each in left], dtype=np.uint64)
            numbers = self._others.find_many(hashes)
            hits = sorted(
                (number, query_id)
                for query_id, number in zip(left, numbers, strict=True)
                if number is not None
            )
            if not hits:
                break
            with self._open() as reader:
                placed |= self._read(reader, hits)
            left = [query_id for _, query_id in hits if query_id not in placed]
            if not left:
                break
        return placed

    def stored(self, hashes: Sequence[int], *, newest_only: bool) -> list[int]:
        """Those of the hashes that records of other shards have."""
        if not hashes:
            return []
        asked = np.array(hashes, dtype=np.uint64)
        numbers = self._others.find_many(asked, newest_only=newest_only)
        return [each for each, number in zip(hashes, numbers, strict=True) if number is not None]

    def _read(self, reader: Reader, hits: Sequence[tuple[int, str]]) -> dict[str, PlacedQuery]:
        """Those whose record has the very id, in the order of their numbers."""
        placed = {}
        for number, query_id in hits:
            try:
                row = reader.record(number)
            except StoreBodiesError:  # what is about it waits until it can be read
                continue
            stored = None if row is None else _decode(row[0])
            if row is not None and stored is not None and stored.query_id == query_id:
                known = amendments.decode(row[1]).known if row[1] else Amendments()
                placed[query_id] = PlacedQuery(number, stored.pipeline, known)
        return placed


class HandingOver:
    """Collects the changes of one commit that are for other shards."""

    def __init__(
        self, elsewhere: Elsewhere | None, places: Sequence[Mapping[str, int]] = ()
    ) -> None:
        """Make it.

        Args:
            elsewhere: finds queries; None where this process stores all of them.
            places: numbers of queries that are known.
        """
        self.handed: list[Handed] = []
        self._elsewhere = elsewhere
        self._placed = {
            query_id: PlacedQuery(number, None, Amendments())
            for known in places
            for query_id, number in known.items()
        }

    def look_up(self, query_ids: Iterable[str]) -> None:
        """Find queries that this process does not store."""
        unknown = [each for each in query_ids if each not in self._placed]
        if self._elsewhere is not None and unknown:
            self._placed |= self._elsewhere.find(unknown)

    def add(self, change: Change, now: float, pipelines: Pipelines | None) -> Fate | None:
        """Hand over one change; None where no worker stored its query.

        Args:
            change: to a query that was looked up.
            now: unix seconds.
            pipelines: that its sender may write; None: all.
        """
        placed = self._placed.get(change.query_id)
        if placed is None:
            return None
        if placed.pipeline is not None and pipelines is not None and not pipelines(placed.pipeline):
            return "pipeline_forbidden"
        if not has_room(placed.known, change):
            return "labels_full"
        placed.known, is_new = amend(placed.known, change)
        if not is_new:
            return "duplicate"
        waiting = to_waiting(0, change, now)
        self.handed.append(Handed(placed.number, waiting.kind, waiting.body, now))
        return "accepted"


class LateChanges:
    """Collects the changes of one commit whose query this process does not store."""

    def __init__(self, postponed: Postponed, handing: HandingOver) -> None:
        """Make it.

        Args:
            postponed: for what waits for its query.
            handing: for what belongs to another shard.
        """
        self._postponed = postponed
        self._handing = handing
        self._changes: list[tuple[Submission, int, Change, int]] = []

    def add(self, submission: Submission, position: int, change: Change, query_hash: int) -> None:
        """Remember one, with its place in its submission and the hash of its query."""
        self._changes.append((submission, position, change, query_hash))

    def wait(
        self, submission: Submission, position: int, change: Change, query_hash: int, now: float
    ) -> None:
        """Let one wait whose query is stored here, and cannot be read now."""
        fate = self._postponed.add(query_hash, change, now, submission.pipelines)
        note_fate(submission, position, fate)

    def settle(self, now: float) -> None:
        """Hand over what other processes store, and let the rest wait for its query."""
        self._handing.look_up(
            change.query_id for submission, _, change, _ in self._changes if not submission.claimed
        )
        for submission, position, change, query_hash in self._changes:
            fate = self._handing.add(change, now, submission.pipelines)
            if fate is None and submission.claimed:
                fate = "duplicate"  # it was handed over, and its record is gone since
            elif fate is None:
                fate = self._postponed.add(query_hash, change, now, submission.pipelines)
            note_fate(submission, position, fate)


def note_fate(submission: Submission, position: int, fate: Fate) -> None:
    """Fill in what became of a change."""
    submission.duplicates += fate == "duplicate"
    if fate in REFUSED:
        submission.refused.append((position, fate))
