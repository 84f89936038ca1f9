"""Erasure in the shards of workers: asked for by the evaluator, carried out by their owners.

A request goes to each shard by the inbox, the answer comes back to the inbox of shard 0. An owner
that dies in between is followed by one that begins again, and finds what is left.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.daemon.erasure.blocks import ErasureCounts, ShardEraser, owned
from ragmon.daemon.erasure.quarantine import QuarantineEraser
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.worker_inbox import OwnedShard
from ragmon.privacy.erasure import Subject
from ragmon.records import ONLY_SHARD, number_of, sequence_of, shard_of
from ragmon.stores import Commit, Handed, InboxRow, Reader
from ragmon.stores.erasure import ErasedBlock
from ragmon.stores.quarantine import Quarantine

_Answer = TypeVar("_Answer")

ERASE, ERASED = "erase", "erased"
"""Kinds of rows in an inbox: a request, and the answer to it."""


class ErasedInShard(Struct, frozen=True):
    """Number of everything that was erased in one shard."""

    shard: int
    records: int = 0
    changes: int = 0
    quarantine: int = 0


class WorkerErasedShard:
    """A worker's shard; see ``ErasedShard``."""

    def __init__(self, place: OwnedShard) -> None:
        self.number = place.shard.number
        self._place = place
        self._erasure = place.shard.erasure()
        self.pack = self._erasure.pack
        self.reader = place.reader

    def end(self) -> int:
        """Sequence number of the next record."""
        return self._place.shard.next_sequence

    def swap(
        self,
        block: ErasedBlock,
        row: object,  # noqa: ARG002 - the request is the evaluator's
        traces: frozenset[str],  # noqa: ARG002 - a worker shows none
    ) -> bool:
        """Replace a block, and let go of what is cached; False when it changed meanwhile."""
        swapped = self._erasure.swap(block, None)
        if swapped:
            self._place.shard.let_go()
            self._place.committer.let_go()
        return swapped


class _Entries:
    """The quarantine of a worker's shard, on its own thread."""

    def __init__(self, entries: Quarantine) -> None:
        self._entries = entries

    def ask(self, function: Callable[[Quarantine], _Answer]) -> _Answer:
        """The answer of a function that looks at them."""
        return function(self._entries)


def carry_out(place: OwnedShard, row: InboxRow, now: float) -> Iterator[Commit | None]:
    """Erase in a worker's shard, a block a step; the last is the commit that answers.

    Args:
        place: the shard.
        row: the request.
        now: unix seconds.
    """
    subject = msgspec.msgpack.decode(row.waiting.body, type=Subject)
    counts = ErasureCounts()
    for _ in ShardEraser(WorkerErasedShard(place)).erase(owned(subject), counts):
        yield None
    quarantine = QuarantineEraser(
        _Entries(place.shard.quarantine()), place.reader, _stored_in(place)
    )
    entries = quarantine.erase(subject, dry_run=False)
    done = ErasedInShard(place.shard.number, counts.records, counts.changes, entries)
    body = msgspec.msgpack.encode(done)
    yield Commit(
        hashes=np.empty(0, dtype=np.uint64),
        claimed=[row.number],
        handed=[Handed(number_of(ONLY_SHARD, row.sequence), ERASED, body, now)],
    )


def _stored_in(place: OwnedShard) -> Callable[[Reader, str], tuple[bytes, bytes | None] | None]:
    """A query of this shard by its id: entries are about queries of the same partition."""

    def stored(reader: Reader, query_id: str) -> tuple[bytes, bytes | None] | None:
        sequence = place.committer.find(query_id)
        return None if sequence is None else reader.record(number_of(place.shard.number, sequence))

    return stored


class ShardAnswers(NamedTuple):
    """Answers of the owners of shards to one request."""

    rows: Mapping[int, ErasedInShard]  # by number of the row in the inbox
    is_complete: bool  # every shard has answered


class ShardRequests:
    """The evaluator's side: asks every shard once, and gathers the answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, request: int, subject: Subject, requested_at: float, now: float) -> ShardAnswers:
        """Ask the shards that were not asked yet; the answers that have come.

        Nothing is asked before workers have stored what the log held when the request was made.

        Args:
            request: its number.
            subject: whose content is erased.
            requested_at: unix seconds.
            now: unix seconds.

        Raises:
            StoreError: it could not be asked, or read.
        """
        others = self._engine.others
        if others is None:
            return ShardAnswers({}, is_complete=True)
        progress = others.progress()
        answers = {
            row.number: msgspec.msgpack.decode(row.waiting.body, type=ErasedInShard)
            for row in others.answers(ERASED)
            if row.sequence == request
        }
        if any(until is None or until < requested_at for until in progress.values()):
            return ShardAnswers(answers, is_complete=False)
        pending = {shard_of(each) for each in others.handed(ERASE) if sequence_of(each) == request}
        answered = {each.shard for each in answers.values()}
        left = sorted(progress.keys() - pending - answered)
        if left:
            body = msgspec.msgpack.encode(subject)
            handed = [Handed(number_of(shard, request), ERASE, body, now) for shard in left]
            self._engine.thread.ask(lambda: self._engine.committer.send(handed=handed))
        return ShardAnswers(answers, is_complete=not left and not pending)

    def settle(self, request: int) -> None:
        """Delete the answers to a request, whose counts are kept."""
        others = self._engine.others
        rows = [] if others is None else others.answers(ERASED)
        claimed = [row.number for row in rows if row.sequence == request]
        if claimed:
            self._engine.thread.ask(lambda: self._engine.committer.send(claimed=claimed))
