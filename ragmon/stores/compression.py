"""Compression of what stores keep, and the errors of reading what was changed on disk."""

import msgspec
import zstandard

_MOST_RATIO = 1 << 16  # a block of zstd holds up to 128 KB in four bytes

UNDECODABLE = (msgspec.MsgspecError, TypeError, ValueError, LookupError, OverflowError)
"""Errors of decoding what was changed on disk."""
UNREADABLE = (*UNDECODABLE, zstandard.ZstdError, MemoryError)
"""The same, and those of decompressing it."""


def compressor() -> zstandard.ZstdCompressor:
    """A compressor of blocks, for one thread.

    It is of level 1, except that it remembers twice as much, and finds a passage that many answers
    were built on: a tenth less to write for a twentieth more to compute.
    """
    usual = zstandard.ZstdCompressionParameters.from_level(
        1, window_log=20, hash_log=15, write_checksum=True
    )
    return zstandard.ZstdCompressor(compression_params=usual)


def unzip(body: bytes) -> bytes:
    """Decompress what ``compressor`` compressed.

    Raises:
        zstandard.ZstdError: it is damaged. A size that no compression reaches is not believed: to
            make room for it would take all memory.
    """
    if zstandard.frame_content_size(body) > _MOST_RATIO * len(body):
        raise zstandard.ZstdError("the size of a compressed value is damaged")
    return zstandard.ZstdDecompressor().decompress(body)
