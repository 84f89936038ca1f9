"""File descriptors: a shortage is logged once, counted by the second, and ends."""

import asyncio
import os
import resource

import pytest
import structlog

from ragmon.daemon.descriptors import DescriptorWatch, can_open, raise_limit


def test_a_shortage_is_logged_at_its_begin_and_end_and_counted_by_the_second():
    states = iter([True, False, False, True, True])
    with structlog.testing.capture_logs() as logged:
        watch = DescriptorWatch(lambda: next(states))
        for _ in range(5):
            asyncio.run(watch.look())
    assert [event["event"] for event in logged] == [
        "file_descriptors_exhausted",
        "file_descriptors_available",
    ]
    assert watch.seconds == 2


@pytest.fixture
def no_descriptors():
    """No more file can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_is_seen_that_no_file_can_be_opened(no_descriptors):
    assert not can_open()


def test_usually_files_can_be_opened():
    assert can_open()


def test_the_limit_is_raised_as_far_as_the_system_allows():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        assert raise_limit() == min(hard, 65_536)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
