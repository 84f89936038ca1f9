"""Batches of observations, as a commit adds them to the windows and a block stores them."""

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
    judged: Sparse | None = None  # sums of verdicts and labels

    def __len__(self) -> int:
        return len(self.timestamps)

    def select(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> "Observations":
        """Some of the records, with only the dims that they have.

        Args:
            rows: distinct indices, in the order that is asked for; or a mask of shape (n,).
        """
        at = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp, copy=False)
        used, dim_index = np.unique(self.dim_index[at], return_inverse=True)
        return Observations(
            self.slices,
            [self.dims[index] for index in used.tolist()],
            dim_index.astype(np.int32),
            self.timestamps[at],
            self.values[at],
            None if self.judged is None else _select_sparse(self.judged, at, len(self)),
        )

    @staticmethod
    def concatenate(parts: "Sequence[Observations]") -> "Observations":
        """The records of one or more batches after one another, over the union of their slices.

        Raises:
            ValueError: no batch, or verdict sums of different layouts.
        """
        if len(parts) == 1:
            return parts[0]
        slices = tuple(dict.fromkeys(name for part in parts for name in part.slices))
        distinct: dict[Dims, int] = {}
        dim_index = []
        for part in parts:
            dims = _widened(part, slices)
            places = [distinct.setdefault(key, len(distinct)) for key in dims]
            dim_index.append(np.array(places, dtype=np.int32)[part.dim_index])
        return Observations(
            slices,
            list(distinct),
            np.concatenate(dim_index),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.values for part in parts]),
            _concatenate_sparse(parts),
        )


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
    """Observations over the columns in force now; a column the block never had is unknown.

    Raises:
        ValueError: its parts do not fit together.
        msgspec.MsgspecError: it is damaged.
    """
    stored = _decoder.decode(packed)
    timestamps = np.frombuffer(stored.timestamps)
    by_column = np.frombuffer(stored.values).reshape(len(stored.columns), len(timestamps))
    values = np.full((len(timestamps), len(columns)), np.nan)
    position = {name: index for index, name in enumerate(stored.columns)}
    for index, name in enumerate(columns):
        if name in position:
            values[:, index] = by_column[position[name]]
    dim_index = np.frombuffer(stored.dim_index, dtype=np.int32)
    judged = _unpack_sparse(stored.judged)
    if len(dim_index) != len(timestamps) or not _all_below(dim_index, len(stored.dims)):
        raise ValueError("observations name slices that they do not have")
    if judged is not None and not _all_below(judged.record, len(timestamps)):
        raise ValueError("observations hold sums of records that they do not have")
    return Observations(stored.slices, stored.dims, dim_index, timestamps, values, judged)


def _all_below(places: NDArray[np.int32], end: int) -> bool:
    return not places.size or bool(places.min() >= 0 and places.max() < end)


def count(packed: bytes) -> int:
    """Number of records of a packed batch, every part of which can be read.

    Raises:
        ValueError: its parts do not fit together.
        msgspec.MsgspecError: it is damaged.
    """
    return len(unpack(packed, ()))


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
    return pack(Observations.concatenate([unpack(each, columns) for each in packed]), columns)


def _select_sparse(sparse: Sparse, rows: NDArray[np.intp], count: int) -> Sparse:
    """The sums of the selected records, under their new positions."""
    position = np.full(count, -1, dtype=np.int32)
    position[rows] = np.arange(len(rows))
    record = position[sparse.record]
    selected = record >= 0
    return Sparse(sparse.names, record[selected], sparse.rows[selected])


def _concatenate_sparse(parts: Sequence[Observations]) -> Sparse | None:
    sums: list[Sparse] = []
    record: list[NDArray[np.int32]] = []
    before = 0
    for part in parts:
        if part.judged is not None:
            sums.append(part.judged)
            record.append(part.judged.record + np.int32(before))
        before += len(part)
    if not sums:
        return None
    if any(sparse.names != sums[0].names for sparse in sums):
        raise ValueError("verdict sums of different layouts cannot be put together")
    return Sparse(
        sums[0].names, np.concatenate(record), np.concatenate([sparse.rows for sparse in sums])
    )


def _widened(part: Observations, slices: tuple[str, ...]) -> list[Dims]:
    if part.slices == slices:
        return part.dims
    return [_widen(dims, part.slices, slices) for dims in part.dims]


def _widen(dims: Dims, slices: tuple[str, ...], wider: tuple[str, ...]) -> Dims:
    """The dims over more slices; a value that was not recorded is empty."""
    values = dict(zip(slices, dims[2:], strict=True))
    return (dims[0], dims[1], *(values.get(name, "") for name in wider))


def index_dims(dims: Sequence[Dims]) -> tuple[list[Dims], NDArray[np.int32]]:
    """Distinct dims, and for each record which of them it has."""
    distinct: dict[Dims, int] = {}
    index = np.array([distinct.setdefault(each, len(distinct)) for each in dims], dtype=np.int32)
    return list(distinct), index
