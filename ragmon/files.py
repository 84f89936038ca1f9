"""Files of lines, also compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, cast

import zstandard

BROKEN = (OSError, EOFError, zlib.error, zstandard.ZstdError)
"""Exceptions from reading a damaged file."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@contextmanager
def unpacked(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """A file, decompressed where its first bytes say gzip or zstd."""
    head = raw.read(len(_ZSTD))
    raw.seek(0)
    with ExitStack() as stack:
        if head.startswith(_GZIP):
            yield cast("IO[bytes]", stack.enter_context(gzip.open(raw)))
        elif head == _ZSTD:
            unzip = zstandard.ZstdDecompressor()
            stream = unzip.stream_reader(raw, read_across_frames=True, closefd=False)
            yield io.BufferedReader(cast("io.RawIOBase", stack.enter_context(stream)))
        else:
            yield raw


def chunks(stream: IO[bytes], size_bytes: int = 1 << 20) -> Iterator[tuple[int, bytes]]:
    """Whole lines, about a megabyte of them at a time, each with the number of its first line."""
    number, rest = 1, b""
    while read := stream.read(size_bytes):
        whole, end, after = read.rpartition(b"\n")
        if not end:
            rest += read
            continue
        yield number, rest + whole
        number += read.count(b"\n")
        rest = after
    if rest:
        yield number, rest
