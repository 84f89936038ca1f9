"""Joining the small blocks of quiet hours."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from ragmon.stores.packing import BlockSpan, read_hashes, read_observations, read_records
from ragmon.stores.sealing import HEAD_BYTES as SEAL_BYTES
from ragmon.stores.sealing import is_sealed
from ragmon.windows.observations import join

RECORDS = 512  # of a block that is not joined to others
MOST_BLOCKS = 256  # looked at in one step
HEAD_BYTES = 32  # of a stored body: how large it is when opened stands in them
_BYTES = 4 << 20  # of the records of a joined block: whoever reads one of them opens it


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


def opened_bytes(head: bytes) -> int:
    """Size of the records of a block when it is opened; 0 for a head that says none.

    Compressed sizes do not bound it: of a repeated text a thousandth is stored.

    Args:
        head: the first ``HEAD_BYTES`` of a stored body.
    """
    try:
        return zstandard.frame_content_size(head[SEAL_BYTES:] if is_sealed(head) else head)
    except zstandard.ZstdError:
        return 0  # damaged or missing, which joining finds


def neighbours(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows (first, records, opened bytes) from the start that touch and make one block."""
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
