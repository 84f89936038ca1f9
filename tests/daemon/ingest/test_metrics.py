"""Limits as the metrics page tells them."""

import shutil

import pytest

from ragmon.config import load
from ragmon.daemon.ingest.metrics import limits


def of(data_dir, store_bytes=1_000, **flags) -> dict[str, float]:
    return limits(load(None, {"data_dir": str(data_dir), **flags}, {}).settings, store_bytes)


def test_the_disk_is_what_the_store_has_and_what_is_free(tmp_path):
    expected = 1_000 + shutil.disk_usage(tmp_path).free
    assert of(tmp_path)["disk"] == pytest.approx(expected, rel=0.01)  # others write too


def test_limits_are_those_of_the_settings(tmp_path):
    found = of(tmp_path, **{"limits.queue": "8MiB", "retention.max_disk": "2GB"})
    assert (found["queue"], found["max_disk"]) == (8 << 20, 2e9)
    assert "max_disk" not in of(tmp_path)


def test_a_disk_that_does_not_answer_is_left_out(tmp_path):
    assert of(tmp_path / "gone").keys() == {"queue"}
