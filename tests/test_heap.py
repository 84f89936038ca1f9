"""The heap that threads share."""

import platform

import pytest

from ragmon import heap

GLIBC = platform.libc_ver()[0] == "glibc"


@pytest.mark.parametrize(
    ("environment", "shared"),
    [
        pytest.param({}, GLIBC, id="one heap, where the C library knows how"),
        pytest.param({"MALLOC_ARENA_MAX": "4"}, False, id="unless somebody chose otherwise"),
    ],
)
def test_share(environment, shared):
    assert heap.share(environment) is shared
