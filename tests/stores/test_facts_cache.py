"""Facts in memory: believed while the stored checksum is theirs, the newest blocks kept."""

import pytest

from ragmon.stores.compression import compressor
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.sealing import HEAD_BYTES, seal

SHARD = 0


def stored(facts: bytes, first: int) -> bytes:
    return seal(compressor().compress(facts), "block_facts", first)


def unreadable(row: bytes) -> bytes:
    """The same row with its checksum, and nothing behind it."""
    return row[:HEAD_BYTES]


def test_facts_are_read_once_until_they_are_made_anew():
    cache = FactsCache()
    row = stored(b"old", 1)
    assert cache.read(row, SHARD, 1) == b"old"
    assert cache.read(unreadable(row), SHARD, 1) == b"old"
    assert cache.read(stored(b"new", 1), SHARD, 1) == b"new"
    with pytest.raises(ValueError, match="checksum"):
        cache.read(unreadable(row), SHARD, 1)


def test_another_shard_has_facts_of_its_own():
    cache = FactsCache()
    row = stored(b"facts", 1)
    cache.read(row, SHARD, 1)
    with pytest.raises(ValueError, match="checksum"):
        cache.read(unreadable(row), SHARD + 1, 1)


def test_a_full_cache_keeps_the_newest_blocks():
    cache = FactsCache(most_bytes=3_000)
    rows = {first: stored(bytes(600), first) for first in (9, 8, 3, 2, 1)}
    for first, row in rows.items():
        assert cache.read(row, SHARD, first) == bytes(600)
    kept = []
    for first, row in rows.items():
        try:
            cache.read(unreadable(row), SHARD, first)
        except ValueError:
            continue
        kept.append(first)
    assert kept == [9, 8, 3]


def test_what_was_changed_is_refused():
    row = bytearray(stored(b"facts", 1))
    row[-1] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        FactsCache().read(bytes(row), SHARD, 1)
