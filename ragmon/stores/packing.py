"""Packed forms of blocks and of the small rows, with their checksums; every store keeps them so.

Format 2 of the embedded store wrote small rows without; what has none is decoded here, so that
damage is found where it is.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from ragmon.stores import Hashes, Restatement, Waiting, amendments
from ragmon.stores.compression import unzip
from ragmon.stores.sealing import is_sealed, seal, unseal

_HASH_BYTES = 8


class BlockSpan(NamedTuple):
    """Place of a block in sequence and time; it is part of the checksum of the hashes."""

    first: int
    records: int
    first_timestamp: float
    last_timestamp: float


def block_row(
    span: BlockSpan, hashes: bytes, observations: bytes, body: bytes
) -> tuple[object, ...]:
    """A row to insert.

    Args:
        span: of the block.
        hashes: of the ids of its records.
        observations: packed and compressed.
        body: its records, packed and compressed.
    """
    return (
        *span,
        seal(hashes, "hashes", *span),
        seal(observations, "observations", span.first),
        seal(body, "body", span.first),
    )


def read_hashes(stored: bytes, span: BlockSpan) -> Hashes:
    """The hashes of a block.

    Raises:
        ValueError: they, or what else the row says of the block, were changed.
    """
    hashes = unseal(stored, "hashes", *span)
    if len(hashes) != _HASH_BYTES * span.records:
        raise ValueError(f"block {span.first} has not the hashes of {span.records} records")
    return np.frombuffer(hashes, dtype=np.uint64)


def read_observations(stored: bytes, first: int) -> bytes:
    """The packed observations of a block.

    Raises:
        ValueError: they were changed.
        zstandard.ZstdError: likewise.
    """
    return unzip(unseal(stored, "observations", first))


def read_records(stored: bytes, first: int, count: int) -> list[msgspec.Raw]:
    """The encoded records of a block; each keeps all of them in memory.

    Raises:
        ValueError: they were changed.
        msgspec.MsgspecError: likewise.
        zstandard.ZstdError: likewise.
    """
    body = unzip(unseal(stored, "body", first))
    records = msgspec.msgpack.decode(body, type=list[msgspec.Raw])
    if len(records) != count:
        raise ValueError(f"block {first} holds {len(records)} records, not {count}")
    return records


def read_amendment(stored: bytes, sequence: int) -> bytes:
    """The amendments of one record.

    Raises:
        ValueError: they were changed.
        msgspec.MsgspecError: likewise.
    """
    if not is_sealed(stored):
        amendments.decode(stored)
    return unseal(stored, "amendments", sequence)


def waiting_row(waiting: Waiting, stored_hash: int) -> tuple[int, str, bytes, float]:
    """A row to insert.

    Args:
        waiting: the change.
        stored_hash: of its query, as the store holds it.
    """
    body = seal(waiting.body, "waiting", stored_hash, waiting.kind)
    return stored_hash, waiting.kind, body, waiting.received


def read_waiting(stored_hash: int, kind: str, stored: bytes) -> bytes:
    """The body of a change that waits.

    Raises:
        ValueError: it was changed.
        msgspec.MsgspecError: likewise.
    """
    if not is_sealed(stored):
        msgspec.msgpack.decode(stored)
    return unseal(stored, "waiting", stored_hash, kind)


def read_bucket(stored: bytes, tier: int, bucket: int) -> bytes:
    """The body of a saved bucket.

    Raises:
        ValueError: it was changed.
        zstandard.ZstdError: likewise.
    """
    return unzip(unseal(stored, "windows", tier, bucket))


def read_restatement(old: bytes, new: bytes, number: int) -> Restatement:
    """Observations as they were and as they are.

    Raises:
        ValueError: they were changed.
        zstandard.ZstdError: likewise.
    """
    return Restatement(unzip(unseal(old, "old", number)), unzip(unseal(new, "new", number)))
