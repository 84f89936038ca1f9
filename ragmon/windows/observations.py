"""A batch of observations: what a commit adds to the windows, and what a block keeps of it."""

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.windows.series import Dims


class Sparse(Struct, frozen=True):
    """Sums that few records take part in: rows of (m, width), each of one record."""

    names: tuple[str, ...]  # of the blocks that a row is made of
    record: NDArray[np.int32]  # (m,) distinct
    rows: NDArray[np.float64]  # (m, width)


class Observations(Struct, frozen=True):
    """n observed records over ``columns``; NaN means unknown."""

    slices: tuple[str, ...]  # names of the dims after pipeline and version
    dims: list[Dims]  # distinct
    dim_index: NDArray[np.int32]  # (n,) into dims
    timestamps: NDArray[np.float64]  # (n,) unix seconds
    values: NDArray[np.float64]  # (n, columns)
    judged: Sparse | None = None  # what verdicts and labels add

    def __len__(self) -> int:
        return len(self.timestamps)


class _Packed(Struct, array_like=True, frozen=True):
    columns: list[str]
    slices: tuple[str, ...]
    dims: list[Dims]
    dim_index: bytes
    timestamps: bytes
    values: bytes
    judged: tuple[tuple[str, ...], bytes, bytes] | None = None


_decoder = msgspec.msgpack.Decoder(_Packed)


def pack(observations: Observations, columns: Sequence[str]) -> bytes:
    """Bytes that ``unpack`` reads, by column because neighbours in a column are alike."""
    return msgspec.msgpack.encode(
        _Packed(
            list(columns),
            observations.slices,
            observations.dims,
            observations.dim_index.astype(np.int32).tobytes(),
            observations.timestamps.tobytes(),
            np.ascontiguousarray(observations.values.T).tobytes(),
            _pack_sparse(observations.judged),
        )
    )


def unpack(packed: bytes, columns: Sequence[str]) -> Observations:
    """Observations over the columns in force now; a column the block never had is unknown."""
    stored = _decoder.decode(packed)
    timestamps = np.frombuffer(stored.timestamps)
    held = np.frombuffer(stored.values).reshape(len(stored.columns), len(timestamps))
    values = np.full((len(timestamps), len(columns)), np.nan)
    position = {name: index for index, name in enumerate(stored.columns)}
    for index, name in enumerate(columns):
        if name in position:
            values[:, index] = held[position[name]]
    dim_index = np.frombuffer(stored.dim_index, dtype=np.int32)
    judged = _unpack_sparse(stored.judged)
    return Observations(stored.slices, stored.dims, dim_index, timestamps, values, judged)


def _pack_sparse(sparse: Sparse | None) -> tuple[tuple[str, ...], bytes, bytes] | None:
    if sparse is None:
        return None
    return sparse.names, sparse.record.astype(np.int32).tobytes(), sparse.rows.tobytes()


def _unpack_sparse(packed: tuple[tuple[str, ...], bytes, bytes] | None) -> Sparse | None:
    if packed is None:
        return None
    names, record, rows = packed
    records = np.frombuffer(record, dtype=np.int32)
    return Sparse(names, records, np.frombuffer(rows).reshape(len(records), -1))


def join(packed: Sequence[bytes]) -> bytes:
    """One batch out of several, in their order."""
    parts = [_decoder.decode(each) for each in packed]
    columns = list(dict.fromkeys(name for part in parts for name in part.columns))
    return pack(concatenate([unpack(each, columns) for each in packed]), columns)


def concatenate(batches: Sequence[Observations]) -> Observations:
    """The batches after one another, over the union of their slices.

    They are as logged: what verdicts add comes by restatement and is not part of a block.
    """
    slices = tuple(dict.fromkeys(name for batch in batches for name in batch.slices))
    dims: list[Dims] = []
    for batch in batches:
        every = [_widen(each, batch.slices, slices) for each in batch.dims]
        dims += [every[index] for index in batch.dim_index.tolist()]
    distinct, dim_index = index_dims(dims)
    return Observations(
        slices,
        distinct,
        dim_index,
        np.concatenate([batch.timestamps for batch in batches]),
        np.concatenate([batch.values for batch in batches]),
    )


def _widen(dims: Dims, slices: tuple[str, ...], wanted: tuple[str, ...]) -> Dims:
    values = dict(zip(slices, dims[2:], strict=True))
    return (dims[0], dims[1], *(values.get(name, "") for name in wanted))


def index_dims(dims: Sequence[Dims]) -> tuple[list[Dims], NDArray[np.int32]]:
    """Distinct dims, and for each record which of them it has."""
    distinct: dict[Dims, int] = {}
    index = np.array([distinct.setdefault(each, len(distinct)) for each in dims], dtype=np.int32)
    return list(distinct), index
