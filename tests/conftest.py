"""Fixtures of several test files."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The first draw of a test fills caches for seconds on a busy machine; that is no defect. A change
# is judged by the same examples as the one before it; EXPLORE=1 draws others.
settings.register_profile(
    "shared",
    deadline=None,
    derandomize=os.environ.get("EXPLORE") != "1",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shared")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A daemon of this file's own, in a thread; its tests choose distinct pipelines and ids."""
    from tests.support.daemons import running  # most tests need no daemon

    with running(tmp_path_factory.mktemp("daemon") / "data") as site:
        yield site


@pytest.fixture
def clean_environment(monkeypatch, tmp_path):
    """No settings but those of the test, and a wide terminal."""
    for name in os.environ:
        if name.startswith("RAGMON_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def pytest_collection_modifyitems(items):
    """A second try, reported as a rerun, for what the machine may spoil.

    Real programs compete for it always. Under ``CI=true`` so do both halves of the suite on two
    cores, and one test of ten thousand that looks a moment too early would refuse a whole change.
    """
    for item in items:
        needs_one = os.environ.get("CI") == "true" or item.get_closest_marker("end_to_end")
        if needs_one and not item.get_closest_marker("flaky"):
            item.add_marker(pytest.mark.flaky(reruns=1))
