"""Feedback, labels, verdicts and draws: finding their query, of whatever age, and restating it."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from ragmon.access import Pipelines
from ragmon.errors import StoreCorruptError
from ragmon.pipeline import Change, Pipeline, amend
from ragmon.records import Amendments, Draw, Feedback, Label, QueryRecord, Verdict
from ragmon.signals.evidence import SAMPLED_JUDGE, verdict_of
from ragmon.stores import Restatement, Waiting, amendments
from ragmon.stores.ports import Shard
from ragmon.stores.protocols import Awaited
from ragmon.windows.observations import Observations, pack

Fate = Literal["accepted", "duplicate", "waiting_full", "labels_full", "pipeline_forbidden"]
"""Outcome of a change; the last three refuse it."""

REFUSED: tuple[Fate, ...] = ("waiting_full", "labels_full", "pipeline_forbidden")
MOST_LABELS = 100  # of one query: looking for a labeller's own costs time with each

_record = msgspec.msgpack.Decoder(QueryRecord)
_kinds: dict[str, type[Change]] = {
    "feedback": Feedback,
    "label": Label,
    "verdict": Verdict,
    "draw": Draw,
}


class Restated(Struct, frozen=True):
    """Amendments by a group of changes, and the records as counted before and after."""

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

    def __init__(
        self,
        shard: Shard,
        pipeline: Pipeline,
        fresh: dict[int, QueryRecord],
        record: Callable[[int], bytes | None],
    ) -> None:
        self._shard = shard
        self._pipeline = pipeline
        self._record = record  # one stored record, by its sequence number
        self._fresh = fresh  # records of this very commit, by sequence number
        self._before: dict[int, Amendments] = {}
        self._after: dict[int, Amendments] = {}
        self._records: dict[int, QueryRecord] = {}
        self.awaited: list[Awaited] = []  # drawn for the sampled judge
        self.judged: list[int] = []  # no longer awaited
        self.revised: list[int] = []  # records that are others now

    def apply(self, sequence: int, change: Change, pipelines: Pipelines | None = None) -> Fate:
        """Fold one change in; a duplicate says nothing new, or its record is gone.

        Args:
            sequence: of the record.
            change: to it.
            pipelines: that its sender may write; None: all.

        Raises:
            StoreBodiesError: the object store does not give the record now.
        """
        if sequence not in self._records and not self._open(sequence, change.query_id):
            return "duplicate"
        if pipelines is not None and not pipelines(self._records[sequence].pipeline):
            return "pipeline_forbidden"
        if not has_room(self._after[sequence], change):
            return "labels_full"
        self._after[sequence], is_new = amend(self._after[sequence], change)
        if isinstance(change, Draw):
            asked = verdict_of(self._after[sequence], SAMPLED_JUDGE) is not None
            if is_new and change.drawn and not asked:
                self.awaited.append(Awaited(sequence, change.timestamp))
        elif isinstance(change, Verdict) and change.judge == SAMPLED_JUDGE:
            self.judged.append(sequence)
        return "accepted" if is_new else "duplicate"

    def revise(self, sequence: int, mapped: QueryRecord) -> None:
        """Put a query that was mapped again in the place of the stored one."""
        if sequence not in self._records and not self._open(sequence, mapped.query_id):
            return
        before = self._after[sequence]
        self._after[sequence], is_new = self._pipeline.revise(
            self._records[sequence], before, mapped
        )
        if not is_new:
            return
        self.revised.append(sequence)
        judged_before = verdict_of(before, SAMPLED_JUDGE) is not None
        is_unjudged = verdict_of(self._after[sequence], SAMPLED_JUDGE) is None
        if judged_before and is_unjudged and before.draw is not None:
            self.awaited.append(Awaited(sequence, before.draw.timestamp))  # it is asked again

    def restated(self) -> Restated:
        """The difference that all changes together make."""
        changed = [s for s in sorted(self._after) if self._after[s] is not self._before[s]]
        if not changed:
            return Restated()
        records = [self._records[s] for s in changed]
        old = self._pipeline.observe(records, [self._before[s] for s in changed])
        new = self._pipeline.observe(records, [self._after[s] for s in changed])
        logged = self._pipeline.observe(records).values
        layout = amendments.layout_of(self._pipeline.columns)
        bodies = [
            amendments.encode(self._after[s], layout, logged[at], new.values[at])
            for at, s in enumerate(changed)
        ]
        return Restated(tuple(zip(changed, bodies, strict=True)), old, new)

    def _open(self, sequence: int, query_id: str) -> bool:
        record = self._fresh.get(sequence)
        known = Amendments()
        if record is None:
            stored = self._record(sequence)
            if stored is None:
                return False
            record = _record.decode(stored)
            try:
                body = self._shard.amendments((sequence,)).get(sequence)
            except StoreCorruptError:
                return False  # to restate it without them would count them twice
            known = amendments.decode(body).known if body else known
        if record.query_id != query_id:
            return False  # another id with the same hash
        self._records[sequence] = record
        self._before[sequence] = self._after[sequence] = known
        return True


class Postponed:
    """Changes whose query has not come yet: each is kept once, and no more than there is room."""

    def __init__(self, shard: Shard, room: int) -> None:
        self.waiting: list[Waiting] = []
        self._shard = shard
        self._room = room
        self._known: dict[str, Amendments] = {}

    def add(
        self, query_hash: int, change: Change, now: float, pipelines: Pipelines | None = None
    ) -> Fate:
        """Keep one change, if it is new and there is room, with what its sender may write."""
        known = self._known.get(change.query_id) or self._load(query_hash, change.query_id)
        if not has_room(known, change):
            return "labels_full"
        amendments, is_new = amend(known, change)
        if not is_new:
            return "duplicate"
        if len(self.waiting) >= self._room:
            return "waiting_full"
        self.waiting.append(to_waiting(query_hash, change, now, pipelines))
        self._known[change.query_id] = amendments
        return "accepted"

    def move(self, query_hash: int, waiting: Waiting) -> None:
        """Keep one change under another hash, because its own now belongs to another id."""
        change = from_waiting(waiting)
        known = self._known.get(change.query_id, Amendments())
        self._known[change.query_id], _ = amend(known, change)
        self.waiting.append(waiting._replace(query_hash=query_hash))

    def _load(self, query_hash: int, query_id: str) -> Amendments:
        known = Amendments()
        for change in map(from_waiting, self._shard.waiting((query_hash,))):
            if change.query_id == query_id:
                known, _ = amend(known, change)
        return known


def has_room(known: Amendments, change: Change) -> bool:
    """True for a change that may be added; a known labeller may always revise."""
    if not isinstance(change, Label) or len(known.labels) < MOST_LABELS:
        return True
    return any(label.labeller == change.labeller for label in known.labels)


class _Sender(Struct, frozen=True):
    """A member beside those of a change, for what a token with few rights has sent."""

    sender_pipelines: tuple[str, ...] = ()


def to_waiting(
    query_hash: int, change: Change, now: float, pipelines: Pipelines | None = None
) -> Waiting:
    """A change that came before its query, with what its sender may write."""
    body = msgspec.msgpack.encode(change)
    if pipelines is not None:
        members = msgspec.msgpack.decode(body)
        body = msgspec.msgpack.encode({**members, "sender_pipelines": pipelines.globs})
    return Waiting(query_hash, type(change).__name__.lower(), body, now)


def sender_pipelines(waiting: Waiting) -> Pipelines | None:
    """Pipelines that the sender of a change may write; None: all."""
    globs = msgspec.msgpack.decode(waiting.body, type=_Sender).sender_pipelines
    return Pipelines(globs) if globs else None


def from_waiting(waiting: Waiting) -> Change:
    """The change again."""
    kind = _kinds[waiting.kind]
    change: Change
    try:
        change = msgspec.msgpack.decode(waiting.body, type=kind)
    except msgspec.ValidationError:
        change = msgspec.msgpack.decode(amendments.mended(waiting.body), type=kind)
    return change
