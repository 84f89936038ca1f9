"""Inputs made from kept ones by chance of a seed, so that every run sees the same ones.

The engine follows coverage, which depends on what a machine does beside it. These follow nothing.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.fuzz import corpora

_MOST_INPUT = 4_096
_MOST_CHANGES = 4
_MOST_REPEATED = 64


def mutated(name: str, kept: Sequence[bytes], count: int, seed: str = "") -> Iterator[bytes]:
    """So many inputs of a target, the same ones for the same seed.

    Args:
        name: of the target.
        kept: inputs to begin with.
        count: inputs to make.
        seed: of the chance.
    """
    chance, target = random.Random(name + seed), corpora.target(name)
    for _ in range(count):
        data = chance.choice(kept)
        for _ in range(1 + chance.randrange(_MOST_CHANGES)):
            data = _changed(data, kept, target, chance)
        yield data[:_MOST_INPUT]


def _changed(data: bytes, kept: Sequence[bytes], target: Any, chance: random.Random) -> bytes:
    if hasattr(target, "mutate") and chance.random() < 0.5:
        return target.mutate(
            data, _MOST_INPUT, chance.getrandbits(32), lambda part, *_: _bytewise(part, chance)
        )
    if target.WORDS and chance.random() < 0.15:
        at = chance.randrange(len(data) + 1)
        return data[:at] + chance.choice(target.WORDS) + data[at:]
    if chance.random() < 0.1:
        other = chance.choice(kept)
        return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
    return _bytewise(data, chance)


def _bytewise(data: bytes, chance: random.Random) -> bytes:
    """A bit turned, bytes replaced, inserted, removed or repeated."""
    at, kind = chance.randrange(len(data) + 1), chance.randrange(5)
    size = 1 + chance.randrange(8)
    if kind == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + chance.randbytes(size) + data[at + size :]
    if kind == 2:
        return data[:at] + data[at + size :]
    if kind == 3:
        return data[:at] + data[at : at + size] * chance.randrange(_MOST_REPEATED) + data[at:]
    return data[:at] + chance.randbytes(size) + data[at:]
