"""Scrapers that read slowly, and several at once, over real connections."""

import socket
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.support.daemons import running
from tests.support.wait import eventually

SLOW = 12
ASKED = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A daemon whose page has some megabytes."""
    with running(tmp_path_factory.mktemp("slow") / "data", limits__write_timeout=600) as site:
        # Inherited by its connections: the system would take a whole answer otherwise.
        site.daemon._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        fill(site)
        yield site


def fill(site) -> None:
    """Queries of pipelines with long names, whose page has some megabytes."""
    queries = [
        {
            "query_id": f"q{at}",
            "pipeline": f"{at}-" + "x" * 240,
            "chunks": [{"id": "a", "score": 0.5}],
            "citations": ["a"],
            "latency_ms": {"total": 100.0},
        }
        for at in range(30)
    ]
    assert site.post("/v1/queries", queries).json["accepted"] == len(queries)


def one_byte(site, stack: ExitStack) -> None:
    """A scraper that has read a byte, and would read the next in a second."""
    assert ask(site, stack).recv(1) == b"H"


def ask(site, stack: ExitStack) -> socket.socket:
    """A scraper that has asked and reads nothing yet."""
    wire = stack.enter_context(socket.socket())
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    wire.settimeout(20)
    parts = urlsplit(site.url)
    wire.connect((parts.hostname, parts.port))
    wire.sendall(ASKED)
    return wire


def behind(site) -> int:
    """Connections whose answer was not taken yet."""
    open_now = site.daemon._server.server_state.connections
    return sum(each.transport.get_write_buffer_size() > 0 for each in open_now if each.transport)


def test_scrapers_that_read_a_byte_a_second_hold_up_nothing(site):
    whole = site.page()
    assert len(whole) > 1_000_000
    threads = set(threading.enumerate())
    tracemalloc.start()
    try:
        with ExitStack() as stack:
            for at in range(SLOW):
                one_byte(site, stack)
                eventually(lambda: behind(site) == at + 1, "it is behind")  # noqa: B023 - at once
            grown = tracemalloc.get_traced_memory()[0]
            assert len(set(threading.enumerate()) - threads) < SLOW
            assert grown < SLOW * len(whole) / 2  # they share a page
            assert abs(len(site.page()) - len(whole)) < 10_000
            assert site.post("/v1/queries", {"query_id": "new"}).json["accepted"] == 1
            assert 'ragmon_queries_total{pipeline="default"} 1' in site.page()
    finally:
        tracemalloc.stop()


def test_pages_that_wait_for_slow_scrapers_are_within_the_memory_limit(tmp_path):
    """Each has a page of its own, because a record comes between two of them."""
    with running(tmp_path / "data", limits__write_timeout=600, limits__memory="64MiB") as site:
        site.daemon._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        fill(site)
        memory, size = site.daemon._memory, len(site.page())
        eventually(lambda: memory.reserved == 0, "nothing is under way")
        room = memory.limit // 8  # lent whatever the process holds besides
        assert 2 * size < room
        with ExitStack() as stack:
            for at in range(room // size):
                assert site.post("/v1/queries", {"query_id": f"new{at}"}).status == 200
                ask(site, stack)
                waiting = 0.9 * (at + 1) * size
                eventually(lambda: memory.reserved > waiting, "its page waits")  # noqa: B023
            assert site.post("/v1/queries", {"query_id": "last"}).status == 200
            refused = site.get("/metrics", **{"accept-encoding": "identity"})
            assert (refused.status, refused.headers["retry-after"]) == (503, "2")
            assert "limits.memory" in refused.json["detail"]
        eventually(lambda: memory.reserved == 0, "they have gone")
        assert site.total("ragmon_rejected_total", reason="memory") == 1


def test_scrapers_at_once_get_whole_pages_that_say_the_same(site):
    def page(encoding: str) -> list[str]:
        answer = site.get("/metrics", **{"accept-encoding": encoding})
        assert answer.status == 200
        assert answer.headers.get("content-encoding", "identity") == encoding
        assert answer.body.endswith(b"\n")
        return [line for line in answer.body.decode().splitlines() if "pipeline=" in line]

    with ThreadPoolExecutor(6) as pool:
        first, *others = pool.map(page, ["identity", "gzip"] * 6)
    assert len(first) > 1_000
    assert all(other == first for other in others)
