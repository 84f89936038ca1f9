"""Limits as the metrics page tells them."""

import shutil

import pytest

from ragmon.config import load
from ragmon.daemon.ingest.metrics import limits
from ragmon.stores.sqlite.store import SqliteStore


class Sized:
    def __init__(self, free_bytes):
        self._free_bytes = free_bytes

    def size_bytes(self):
        return 1_000

    def free_bytes(self):
        return self._free_bytes


def of(free_bytes=None, **flags) -> dict[str, float]:
    return limits(load(None, flags, {}).settings, Sized(free_bytes))


def test_the_disk_is_what_the_store_has_and_what_is_free():
    assert of(4_000)["disk"] == 5_000


def test_a_file_knows_what_its_disk_has_left(tmp_path):
    store = SqliteStore(tmp_path)
    try:
        free = shutil.disk_usage(tmp_path).free
        assert store.free_bytes() == pytest.approx(free, rel=0.01)  # others write too
    finally:
        store.close()


def test_limits_are_those_of_the_settings():
    found = of(**{"limits.queue": "8MiB", "retention.max_disk": "2GB"})
    assert (found["queue"], found["max_disk"]) == (8 << 20, 2e9)
    assert "max_disk" not in of()


def test_a_disk_that_nobody_knows_is_left_out():
    assert of().keys() == {"queue"}
