"""Feedback and labels: finding their query, today's or last week's, and restating it."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ragmon.pipeline import Amendments, Pipeline, amend, effective
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.stores import Restatement, Store, Waiting
from ragmon.windows.observations import Observations, pack

Change = Feedback | Label

_record = msgspec.msgpack.Decoder(QueryRecord)
_amendments = msgspec.msgpack.Decoder(Amendments)
_kinds: dict[str, msgspec.msgpack.Decoder[Feedback] | msgspec.msgpack.Decoder[Label]] = {
    "feedback": msgspec.msgpack.Decoder(Feedback),
    "label": msgspec.msgpack.Decoder(Label),
}


class Restated(Struct, frozen=True):
    """What a group of changes comes to."""

    amendments: tuple[tuple[int, bytes], ...] = ()
    old: Observations | None = None
    new: Observations | None = None

    def packed(self, columns: Sequence[str]) -> Restatement | None:
        """For the store, so that a restart can restate again."""
        if self.old is None or self.new is None:
            return None
        return Restatement(pack(self.old, columns), pack(self.new, columns))


class Changes:
    """Collects the changes of one commit; nothing is written here."""

    def __init__(self, store: Store, pipeline: Pipeline, fresh: dict[int, QueryRecord]) -> None:
        self._store = store
        self._pipeline = pipeline
        self._fresh = fresh  # records of this very commit, by sequence number
        self._before: dict[int, Amendments] = {}
        self._after: dict[int, Amendments] = {}
        self._records: dict[int, QueryRecord] = {}

    def apply(self, sequence: int, change: Change) -> bool:
        """Fold one change in; False when it says nothing new (or the record is gone)."""
        if sequence not in self._records and not self._open(sequence, change.query_id):
            return False
        known = self._after[sequence]
        self._after[sequence] = amend(known, change)
        return self._after[sequence] is not known

    def restated(self) -> Restated:
        """The difference that all changes together make."""
        changed = [s for s in sorted(self._after) if self._after[s] is not self._before[s]]
        if not changed:
            return Restated()
        old = [effective(self._records[s], self._before[s]) for s in changed]
        new = [effective(self._records[s], self._after[s]) for s in changed]
        return Restated(
            tuple((s, msgspec.msgpack.encode(self._after[s])) for s in changed),
            self._pipeline.observe(old),
            self._pipeline.observe(new),
        )

    def _open(self, sequence: int, query_id: str) -> bool:
        record = self._fresh.get(sequence)
        known = Amendments()
        if record is None:
            stored = self._store.record(sequence)
            if stored is None:
                return False
            record = _record.decode(stored)
            amended = self._store.amendments((sequence,)).get(sequence)
            known = _amendments.decode(amended) if amended else known
        if record.query_id != query_id:
            return False  # another id with the same hash
        self._records[sequence] = record
        self._before[sequence] = self._after[sequence] = known
        return True


def to_waiting(query_hash: int, change: Change, now: float) -> Waiting:
    """A change that came before its query."""
    kind = "feedback" if isinstance(change, Feedback) else "label"
    return Waiting(query_hash, kind, msgspec.msgpack.encode(change), now)


def from_waiting(waiting: Waiting) -> Change:
    """The change again."""
    return _kinds[waiting.kind].decode(waiting.body)
