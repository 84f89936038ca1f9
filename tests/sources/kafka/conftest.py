"""One real broker for all tests of the source."""

import pytest

from tests.support.kafka import broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
