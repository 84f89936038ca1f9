"""Addresses at which replicas find each other."""

import socket

import pytest

from ragmon.daemon.addresses import Addresses, own_addresses, read_addresses
from tests.support.standbys import settings

HERE = socket.gethostname()


@pytest.mark.parametrize(
    ("flags", "url", "port", "expected"),
    [
        pytest.param({}, "http://127.0.0.1:8321", None, "http://127.0.0.1:8321", id="loopback"),
        pytest.param(
            {}, "http://0.0.0.0:8321", None, f"http://{HERE}:8321", id="every address: the name"
        ),
        pytest.param({}, "http://[::]:1", None, f"http://{HERE}:1", id="and of version 6"),
        pytest.param({}, "http://[fe80::1]:1", None, "http://[fe80::1]:1", id="one of version 6"),
        pytest.param(
            {"replica.address": "10.1.2.3"}, "http://0.0.0.0:1", None, "http://10.1.2.3:1", id="set"
        ),
        pytest.param(
            {"replica.address": "fd00::7", "otlp.grpc": "[::]:4317"},
            "https://[::]:1",
            4317,
            "https://[fd00::7]:1 grpc://[fd00::7]:4317",
            id="set, of version 6, with gRPC",
        ),
        pytest.param(
            {"otlp.grpc": "127.0.0.1:0"},
            "http://127.0.0.1:1",
            5,
            "http://127.0.0.1:1 grpc://127.0.0.1:5",
            id="a port that was chosen",
        ),
    ],
)
def test_own_addresses_are_reachable_ones(tmp_path, flags, url, port, expected):
    text = own_addresses(settings(tmp_path, **flags), url, port).as_text()
    assert text == expected
    assert read_addresses(text).as_text() == expected


@pytest.mark.parametrize("text", ["", "nonsense", "file:///etc/passwd", "http://", "x" * 10_000])
def test_what_is_no_address_is_nothing(text):
    assert read_addresses(text) == Addresses()
