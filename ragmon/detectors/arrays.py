"""Arrays that grow by rows and travel as bytes: what every detector's state is made of."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Fields = dict[str, tuple[tuple[int, ...], str, float]]


def picked(array: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """Some rows of an array that lies in memory part by part; so does the answer."""
    return array.T.take(rows, axis=-1).T


def grown(array: NDArray[Any], rows: int, fill: float = 0) -> NDArray[Any]:
    """The array with at least that many rows, new ones filled."""
    if len(array) >= rows:
        return array
    more = np.full((rows - len(array), *array.shape[1:]), fill, dtype=array.dtype)
    return np.concatenate([array, more])


class Arrays:
    """Named arrays with one row a stream, all of one length.

    Subclasses list them in ``_FIELDS`` as name: (shape of a row, dtype, what a new row holds).
    """

    _FIELDS: ClassVar[Fields] = {}
    _BY_PART: ClassVar[frozenset[str]] = frozenset()
    """Fields of which the first part of all rows lies in memory before the second: what is done to
    every row is then done to long stretches."""

    def __init__(self) -> None:
        for name, (shape, dtype, fill) in self._FIELDS.items():
            self._set(name, np.full((0, *shape), fill, dtype=dtype))

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self._FIELDS))))

    def grow(self, streams: int) -> None:
        """Make room for that many rows."""
        for name, (_, _, fill) in self._FIELDS.items():
            self._set(name, grown(getattr(self, name), streams, fill))

    def clear(self, streams: Sequence[int] | Ints) -> None:
        """Set rows to what a new row holds."""
        rows = np.asarray(streams, dtype=np.int64)
        for name, (_, _, fill) in self._FIELDS.items():
            getattr(self, name)[rows] = fill

    def keep(self, kept: Bools) -> None:
        """Drop the rows for which ``kept`` is false."""
        for name in self._FIELDS:
            self._set(name, getattr(self, name)[kept])

    def dump(self) -> bytes:
        """Everything, as bytes."""
        return pack({name: getattr(self, name) for name in self._FIELDS})

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken, perhaps by a release with fewer fields."""
        arrays = unpack(data)
        for name in arrays.keys() & self._FIELDS.keys():
            self._set(name, arrays[name])
        self.grow(max(map(len, arrays.values()), default=0))

    def _set(self, name: str, array: NDArray[Any]) -> None:
        setattr(self, name, np.asfortranarray(array) if name in self._BY_PART else array)


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as bytes."""
    return msgspec.msgpack.encode(
        {name: (each.dtype.str, each.shape, each.tobytes()) for name, each in arrays.items()}
    )


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Arrays from the bytes of ``pack``; writable."""
    stored = msgspec.msgpack.decode(data, type=dict[str, tuple[str, tuple[int, ...], bytes]])
    return {
        name: np.frombuffer(body, dtype=dtype).reshape(shape).copy()
        for name, (dtype, shape, body) in stored.items()
    }
