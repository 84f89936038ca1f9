"""Fixtures of several test files."""

import pytest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A daemon of this file's own, in a thread; its tests choose distinct pipelines and ids."""
    from tests.support.daemons import running  # most tests need no daemon

    with running(tmp_path_factory.mktemp("daemon") / "data") as site:
        yield site


def pytest_collection_modifyitems(items):
    """Real programs compete for the machine: their tests get a second try, reported as a rerun."""
    for item in items:
        if item.get_closest_marker("end_to_end"):
            item.add_marker(pytest.mark.flaky(reruns=1))
