"""Texts in the raw bytes of files, also where they are compressed, deleted or half overwritten."""

import re
from pathlib import Path

import zstandard

_FRAME = re.compile(re.escape(b"\x28\xb5\x2f\xfd"))
_MOST_BYTES = 64 << 20


def carved(directory: Path) -> bytes:
    """All bytes of all files below, followed by whatever a zstd frame among them unpacks to."""
    pieces = []
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        raw = path.read_bytes()
        pieces.append(raw)
        pieces += [_unpacked(raw[match.start() :]) for match in _FRAME.finditer(raw)]
    return b"\n".join(pieces)


def _unpacked(data: bytes) -> bytes:
    """What the beginning of a frame unpacks to, as far as it is whole."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    got = bytearray()
    try:
        for at in range(0, len(data), 256):
            got += unpacker.decompress(data[at : at + 256])
            if unpacker.eof or len(got) > _MOST_BYTES:
                break
    except zstandard.ZstdError:
        pass
    return bytes(got)
