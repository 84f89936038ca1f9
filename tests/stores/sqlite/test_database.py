"""Compressed values of the store, whole and damaged."""

import pytest
import zstandard

from ragmon.errors import StoreCorruptError
from ragmon.stores.compression import unzip
from ragmon.stores.sqlite.database import Database, translated


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "store.sqlite", "OFF")
    yield opened
    opened.close()


@pytest.mark.parametrize("size", [0, 1, 1_000, 50_000_000])
def test_what_compresses_best_is_read_back(database, size):
    assert unzip(database.zip(bytes(size))) == bytes(size)


def test_a_size_that_nothing_compresses_to_is_not_believed(database):
    body = bytearray(database.zip(bytes(200)))
    whole = zstandard.get_frame_parameters(bytes(body))
    assert whole.content_size == 200
    # The descriptor's two highest bits say that eight bytes of size follow it.
    forged = body[:4] + bytes([body[4] & 0x1F | 0xE0]) + (1 << 45).to_bytes(8, "little") + body[7:]
    assert zstandard.frame_content_size(bytes(forged)) == 1 << 45
    with pytest.raises(zstandard.ZstdError, match="damaged"):
        unzip(bytes(forged))


def test_a_row_that_is_longer_than_memory_is_damage(tmp_path):
    """SQLite asks for what a damaged page says that a row holds."""
    with pytest.raises(StoreCorruptError, match="more memory than there is"), translated(tmp_path):
        raise MemoryError
