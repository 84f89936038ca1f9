"""Sketches of embeddings: a few hundred bytes from which the cosine of two vectors is still read.

Each number of a vector is added, with a sign, to one of 256 cells; both are fixed by its place.
What is left is scaled to whole numbers of 8 bits. A cosine read from two sketches is right on
average, with a standard error of 0.06 or less.

Source: Charikar, Chen and Farach-Colton (2004), TCS 312:3-15; Weinberger et al. (2009), ICML.
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CELLS = 256
_HEAD = 2  # bytes that tell the length of the vector: only vectors of one model are compared
SKETCH_BYTES = _HEAD + CELLS


def sketch(vector: Sequence[float]) -> bytes | None:
    """The sketch of a vector; None for one of zeros, or with a number that is none.

    Args:
        vector: of at most 65,535 numbers.
    """
    values = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    if not 0.0 < largest < np.inf:
        return None
    values = values / largest
    if len(values) > CELLS:
        cells, signs = _places(len(values))
        values = np.bincount(cells, values * signs, CELLS).astype(np.float64)
    largest = float(np.abs(values).max())
    if not largest > 0.0:
        return None
    whole = np.zeros(CELLS, dtype=np.int8)
    whole[: len(values)] = np.rint(values * (127.0 / largest))
    return len(vector).to_bytes(_HEAD, "big") + whole.tobytes()


def kind_of(sketched: bytes) -> int:
    """Numbers of the vector that it was made of; 0 for what is no sketch."""
    return int.from_bytes(sketched[:_HEAD], "big") if len(sketched) == SKETCH_BYTES else 0


def cells_of(sketched: bytes) -> NDArray[np.int8]:
    """The numbers of a sketch; shape (CELLS,)."""
    return np.frombuffer(sketched, np.int8, CELLS, _HEAD)


@functools.lru_cache(maxsize=8)
def _places(length: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cell and sign of each number, by the mixing of SplitMix64."""
    mixed = (np.arange(length, dtype=np.uint64) + np.uint64(7)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    signs = np.where(mixed >> np.uint64(63), 1.0, -1.0)
    return (mixed % np.uint64(CELLS)).astype(np.int64), signs
