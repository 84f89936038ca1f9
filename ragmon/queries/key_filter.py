"""Bloom filter over what a block holds: whether it is worth opening.

Source: Kirsch and Mitzenmacher (2008), Less Hashing, Same Performance.
"""

from collections.abc import Collection

import numpy as np
import xxhash

_BITS = 16  # a key: one false positive in 1,400
_MOST_PROBES = 7
_KEY_LENGTH = 100  # characters that count: a word may have a million
_LOW = (1 << 32) - 1


def build(keys: Collection[str], most_bytes: int) -> bytes:
    """The filter of some keys.

    Args:
        keys: distinct.
        most_bytes: of the filter; with less than 16 bits a key, more blocks are opened in vain.
    """
    size = max(1, min(-(-_BITS * len(keys) // 8), most_bytes - 1))
    bits = 8 * size
    probes = min(_MOST_PROBES, max(1, round(0.69 * bits / max(1, len(keys)))))
    hashes = np.fromiter(map(digest_of, keys), np.uint64, count=len(keys))
    first, second = hashes & np.uint64(_LOW), (hashes >> np.uint64(32)) | np.uint64(1)
    marked = np.zeros(bits, dtype=np.bool_)
    for probe in range(probes):
        marked[(first + np.uint64(probe) * second) % np.uint64(bits)] = True
    return bytes([probes]) + np.packbits(marked).tobytes()


def digest_of(key: str) -> int:
    """The hash by which a filter knows a key."""
    return xxhash.xxh3_64_intdigest(key[:_KEY_LENGTH].encode(errors="replace"))


def may_hold(packed: bytes, digest: int) -> bool:
    """False: surely not one of the keys. True: probably.

    Args:
        packed: the filter.
        digest: of the key.

    Raises:
        ValueError: this is no filter.
    """
    bits = 8 * (len(packed) - 1)
    if bits <= 0 or not 1 <= packed[0] <= _MOST_PROBES:
        raise ValueError("the filter of a block is damaged")
    first, second = digest & _LOW, digest >> 32 | 1
    for probe in range(packed[0]):
        at = (first + probe * second) % bits
        if not packed[1 + (at >> 3)] >> (7 - (at & 7)) & 1:
            return False
    return True
