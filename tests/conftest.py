"""Fixtures of several test files."""

from collections.abc import Iterator

import pytest

from tests.support.daemons import Running, running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon of this file's own, in a thread; its tests choose distinct pipelines and ids."""
    with running(tmp_path_factory.mktemp("daemon") / "data") as site:
        yield site
