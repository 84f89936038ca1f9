"""Integers that are mostly small: a byte each, and compressed once they rest."""

import numpy as np
import zstandard
from numpy.typing import NDArray

Ints = NDArray[np.int32]
_Open = tuple[NDArray[np.uint8], Ints]
_Packed = tuple[bytes, bytes]
_LARGE = 255
_LEVEL = 1  # level 3 takes half as long again, for the same size


class Narrow:
    """Integers of zero or more, which never change.

    Any thread may read them, also while another has them rest.
    """

    __slots__ = ("_parts",)

    def __init__(self, values: Ints) -> None:
        """Take the small form of some integers, shape (n,)."""
        # A byte each, where 255 stands for the next of the large ones; both compressed at rest.
        small = np.minimum(values, _LARGE).astype(np.uint8)
        self._parts: _Open | _Packed = (small, values[values >= _LARGE])

    @property
    def nbytes(self) -> int:
        """Memory of what is held."""
        return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in self._parts)

    @property
    def rests(self) -> bool:
        """True once they are compressed."""
        return isinstance(self._parts[0], bytes)

    def wide(self) -> Ints:
        """The integers again."""
        small, large = _opened(self._parts)
        wide = small.astype(np.int32)
        wide[small == _LARGE] = large
        return wide

    def rest(self) -> None:
        """Take about a third of the memory, and twice as long to be read."""
        if not self.rests:
            compressor = zstandard.ZstdCompressor(level=_LEVEL)
            small, large = (compressor.compress(part.tobytes()) for part in _opened(self._parts))
            self._parts = (small, large)


def _opened(parts: _Open | _Packed) -> _Open:
    """The arrays of the small and of the large integers."""
    if isinstance(parts[0], bytes):
        small, large = (zstandard.ZstdDecompressor().decompress(part) for part in parts)
        return np.frombuffer(small, dtype=np.uint8), np.frombuffer(large, dtype=np.int32)
    return parts
