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

    def __init__(self) -> None:
        for name, (shape, dtype, fill) in self._FIELDS.items():
            setattr(self, name, np.full((0, *shape), fill, dtype=dtype))

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self._FIELDS))))

    def grow(self, streams: int) -> None:
        """Make room for that many rows."""
        for name, (_, _, fill) in self._FIELDS.items():
            setattr(self, name, grown(getattr(self, name), streams, fill))

    def clear(self, streams: Sequence[int] | Ints) -> None:
        """Set rows to what a new row holds."""
        rows = np.asarray(streams, dtype=np.int64)
        for name, (_, _, fill) in self._FIELDS.items():
            getattr(self, name)[rows] = fill

    def dump(self) -> bytes:
        """Everything, as bytes."""
        return pack({name: getattr(self, name) for name in self._FIELDS})

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken, perhaps by a release with fewer fields."""
        arrays = unpack(data)
        for name in arrays.keys() & self._FIELDS.keys():
            setattr(self, name, arrays[name])
        self.grow(max(map(len, arrays.values()), default=0))


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
