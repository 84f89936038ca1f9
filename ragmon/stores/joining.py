"""Joining the small blocks of quiet hours."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon.stores.packing import BlockSpan, read_hashes, read_observations, read_records
from ragmon.windows.observations import join

RECORDS = 512  # of a block that is not joined to others
MOST_BLOCKS = 256  # looked at in one step
_BYTES = 1 << 20  # of a joined block, compressed


class StoredRow(NamedTuple):
    """A block as it is stored."""

    span: BlockSpan
    hashes: bytes
    observations: bytes
    body: bytes


class JoinedBlock(NamedTuple):
    """Neighbouring blocks as one, to be compressed."""

    span: BlockSpan
    hashes: bytes
    observations: bytes
    body: bytes  # one msgpack array


def neighbours(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows (first, records, bytes) from the start that touch and make at most one block."""
    follows = np.r_[True, sizes[1:, 0] == sizes[:-1, 0] + sizes[:-1, 1]]
    fits = np.cumsum(sizes[:, 1]) <= 2 * RECORDS
    light = np.cumsum(sizes[:, 2]) <= _BYTES
    good = follows & fits & light
    return sizes[: len(sizes) if good.all() else max(1, int(np.argmin(good)))]


def joined(rows: Sequence[StoredRow]) -> JoinedBlock:
    """Neighbouring blocks as one.

    Raises:
        ValueError: one of them was changed.
        msgspec.MsgspecError: likewise.
        zstandard.ZstdError: likewise.
    """
    records: list[msgspec.Raw] = []
    for row in rows:
        records += read_records(row.body, row.span.first, row.span.records)
    spans = [row.span for row in rows]
    return JoinedBlock(
        BlockSpan(
            spans[0].first,
            len(records),
            min(span.first_timestamp for span in spans),
            max(span.last_timestamp for span in spans),
        ),
        b"".join(read_hashes(row.hashes, row.span).tobytes() for row in rows),
        join([read_observations(row.observations, row.span.first) for row in rows]),
        msgspec.msgpack.encode(records),
    )
