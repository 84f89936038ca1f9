"""Checksums of stored bodies, each bound to the row that it was written for.

A sealed body is ``MARK``, eight bytes of checksum and the body. SQLite checks nothing of what it
stores, PostgreSQL only where its cluster was made so, and a page in the wrong place is as well
formed as any: the checksum therefore covers the key of the row too. Format 2 of the embedded store
had bodies as they are; none of them begins with ``MARK``.
"""

import struct

import xxhash

MARK = b"\xc1"  # MessagePack never uses it; zstd frames, JSON and decimals begin otherwise
HEAD_BYTES = 9

_sum = struct.Struct("<Q")


def seal(body: bytes | bytearray, *key: str | float) -> bytes:
    """A body with its checksum.

    Args:
        body: to store.
        key: table and key of its row.
    """
    checksum = xxhash.xxh3_64_intdigest(body, _seed(key))
    return b"".join((MARK, _sum.pack(checksum), body))


def is_sealed(stored: bytes) -> bool:
    """False for what format 2 wrote."""
    return stored[:1] == MARK


def unseal(stored: bytes, *key: str | float) -> bytes:
    """The body that ``seal`` was called with; what format 2 wrote is returned as it is.

    Raises:
        ValueError: it was changed, or belongs to another row.
    """
    if stored[:1] != MARK:
        return stored
    body = stored[HEAD_BYTES:]
    if stored[1:HEAD_BYTES] != _sum.pack(xxhash.xxh3_64_intdigest(body, _seed(key))):
        raise ValueError(f"the checksum of {key[0]} {key[1]} does not match")
    return body


def _seed(key: tuple[str | float, ...]) -> int:
    return xxhash.xxh3_64_intdigest(repr(key).encode())
