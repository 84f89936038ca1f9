"""Erasure within stored blocks: read and rewritten beside the writer, swapped in by it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct

from ragmon.daemon.ingest.engine import Engine
from ragmon.privacy.erasure import Aliases, Subject, erase, erase_amendments, erased_id, is_erased
from ragmon.records import Amendments, QueryRecord, number_of, sequence_of, shard_of
from ragmon.stores import Reader, StoredBlock, amendments
from ragmon.stores.erasure import ErasedBlock, ErasureRow

Chooser = Callable[[StoredBlock], Sequence[int]]
"""Positions of the records of a block whose content is to go."""


Pack = Callable[[bytes, int], bytes]


class _Owner(Struct):
    query_id: str = ""
    pipeline: str = "default"
    user_id: str | None = None
    session_id: str | None = None


class ErasureCounts(Struct):
    """Number of records and of changes to them that were erased."""

    records: int = 0
    changes: int = 0  # records with feedback, labels or verdicts


class _Rewritten(Struct, frozen=True):
    block: ErasedBlock
    trace_ids: frozenset[str]


_owner = msgspec.msgpack.Decoder(_Owner)
_owners = msgspec.msgpack.Decoder(list[_Owner])
_raw = msgspec.msgpack.Decoder(list[msgspec.Raw])
_record = msgspec.msgpack.Decoder(QueryRecord)
_encode = msgspec.msgpack.Encoder().encode


class ErasedShard(Protocol):
    """A shard whose records are erased, for the thread that does it."""

    number: int

    def end(self) -> int:
        """Sequence number of the next record."""
        ...

    def reader(self) -> Reader:
        """A view of the store."""
        ...

    def pack(self, records: bytes, first_sequence: int) -> bytes:
        """The body of a block, see ``BlockErasure``."""
        ...

    def swap(
        self, block: ErasedBlock, row: Callable[[], ErasureRow] | None, traces: frozenset[str]
    ) -> bool:
        """Replace a block, and let go of what is cached; False when it changed meanwhile."""
        ...


class ShardEraser:
    """Erases records wherever a chooser finds them; a block at a time is in memory."""

    def __init__(self, shard: ErasedShard) -> None:
        self._shard = shard

    def erase(
        self,
        choose: Chooser,
        counts: ErasureCounts,
        row: Callable[[], ErasureRow] | None = None,
        *,
        start: int = 0,
        until: int | None = None,
    ) -> Iterator[int]:
        """Erase, a block a step; yields the sequence number behind each block.

        Args:
            choose: names the records.
            counts: are added to.
            row: the request as it is to be remembered with each block.
            start: sequence number to begin at.
            until: sequence number to end before; None: that of the next record.
        """
        for block in self._blocks(start, until):
            while positions := choose(block):
                before = counts.records, counts.changes
                rewritten = rewrite(block, positions, counts, self._shard.pack)
                if self._shard.swap(rewritten.block, row, rewritten.trace_ids):
                    break
                counts.records, counts.changes = before
                current = self._read(block.first_sequence)
                if current is None:
                    break
                block = current  # noqa: PLW2901 - it was joined to its neighbours meanwhile
            yield block.first_sequence + len(block.hashes)

    def _blocks(self, start: int, until: int | None) -> Iterator[StoredBlock]:
        """Blocks of the shard, numbered within it."""
        number = self._shard.number
        end = self._shard.end() if until is None else until
        with self._shard.reader() as reader:
            while start < end:
                block = reader.stored_block(number_of(number, start))
                if block is None or shard_of(block.first_sequence) != number:
                    return
                block = _within_shard(block)
                if block.first_sequence >= end:
                    return
                yield block
                start = block.first_sequence + len(block.hashes)

    def _read(self, sequence: int) -> StoredBlock | None:
        number = self._shard.number
        with self._shard.reader() as reader:
            block = reader.stored_block(number_of(number, sequence))
        is_there = block is not None and shard_of(block.first_sequence) == number
        return _within_shard(block) if block is not None and is_there else None


class EngineShard:
    """The shard of an engine; see ``ErasedShard``."""

    def __init__(self, engine: Engine) -> None:
        self.number = engine.shard.number
        self._engine = engine
        self._erasure = engine.shard.erasure()
        self.pack = self._erasure.pack
        self.reader = engine.store.reader

    def end(self) -> int:
        """Sequence number of the next record."""
        return self._engine.shard.next_sequence

    def swap(
        self, block: ErasedBlock, row: Callable[[], ErasureRow] | None, traces: frozenset[str]
    ) -> bool:
        """Replace a block, and let go of what is cached; False when it changed meanwhile."""
        return self._engine.thread.ask(partial(self._swap, block, row, traces))

    def _swap(
        self, block: ErasedBlock, row: Callable[[], ErasureRow] | None, traces: frozenset[str]
    ) -> bool:
        swapped = self._erasure.swap(block, row)
        if swapped:
            self._engine.shard.let_go()
            self._engine.record_cache.clear()
            self._engine.exemplars.let_go(traces)
        return swapped


class BlockEraser(ShardEraser):
    """Eraser of the engine's own shard."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(EngineShard(engine))
        self._engine = engine

    def count(self, choose: Chooser) -> Iterator[int]:
        """Number of records that would be erased, block by block, whoever stored them."""
        number = 0
        with self._engine.store.reader() as reader:
            while (block := reader.stored_block(number)) is not None:
                yield len(choose(block))
                number = block.first_sequence + len(block.hashes)


def _within_shard(block: StoredBlock) -> StoredBlock:
    return block._replace(first_sequence=sequence_of(block.first_sequence))


def owned(subject: Subject) -> Chooser:
    """A chooser of one user's or session's records."""
    needle = subject.id.encode()

    def choose(block: StoredBlock) -> list[int]:
        chosen = set()
        if needle in block.records:
            owners = _owners.decode(block.records)
            chosen = {at for at, owner in enumerate(owners) if _is_of(subject, owner)}
        for at, record in block.revised.items():
            if needle in record and _is_of(subject, _owner.decode(record)):
                chosen.add(at)
        return sorted(chosen)

    return choose


def _is_of(subject: Subject, owner: _Owner) -> bool:
    is_owner = subject.owns(owner.user_id, owner.session_id, owner.pipeline)
    return is_owner and not is_erased(owner.query_id)


def with_content(block: StoredBlock, positions: Sequence[int]) -> list[int]:
    """Those of the positions whose records still have content."""
    if not positions:
        return []
    owners = _owners.decode(block.records)
    return [at for at in positions if not is_erased(owners[at].query_id)]


def rewrite(
    block: StoredBlock, positions: Sequence[int], counts: ErasureCounts, pack: Pack
) -> _Rewritten:
    """The block without the content of some of its records.

    Args:
        block: as stored.
        positions: of the records.
        counts: of erased records, added to; the changes only when the block is swapped.
        pack: makes the body of a block, see ``BlockErasure``.
    """
    records = _raw.decode(block.records)
    aliases: dict[int, Aliases] = {}
    names: dict[int, str] = {}
    traces = set()
    for at in positions:
        sequence = block.first_sequence + at
        record = _record.decode(records[at])
        names[sequence] = erased_id(int(block.hashes[at]))
        aliases[sequence] = Aliases()
        records[at] = msgspec.Raw(_encode(erase(record, names[sequence], aliases[sequence])))
        traces.add(record.trace_id or "")
    counts.records += len(positions)

    def change(sequence: int, body: bytes) -> bytes:
        def erased(known: Amendments) -> Amendments:
            return erase_amendments(known, names[sequence], aliases[sequence])

        counts.changes += 1
        return amendments.rewrite(body, erased)

    erased_block = ErasedBlock(
        first_sequence=block.first_sequence,
        stored=block.stored,
        body=pack(_encode(records), block.first_sequence),
        sequences=sorted(names),
        amend=change,
    )
    return _Rewritten(erased_block, frozenset(traces))
