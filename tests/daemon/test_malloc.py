"""The heap that threads share, and give back."""

import platform
import resource
from pathlib import Path

import pytest

from ragmon.daemon import malloc

GLIBC = platform.libc_ver()[0] == "glibc"


@pytest.mark.parametrize(
    ("environment", "shared"),
    [
        pytest.param({}, GLIBC, id="one heap, where the C library knows how"),
        pytest.param({"MALLOC_ARENA_MAX": "4"}, False, id="unless somebody chose otherwise"),
    ],
)
def test_share(environment, shared):
    assert malloc.share(environment) is shared


@pytest.mark.skipif(not GLIBC, reason="another C library")
def test_what_is_free_between_what_is_used_is_given_back():
    texts = [bytearray(b"x") * 50_000 for _ in range(1_000)]  # too small for a mapping each
    kept = texts[::100]
    full = resident()
    del texts[:]
    malloc.trim()
    assert full - resident() > 30_000_000
    assert sum(map(len, kept)) == 500_000


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
