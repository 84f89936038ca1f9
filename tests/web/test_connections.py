"""Connections and answers end: in number, and when nobody reads."""

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
import requests

from ragmon.daemon.descriptors import connection_limit
from ragmon.web import protocol
from tests.support.daemons import Process, running
from tests.support.http import everything
from tests.support.wait import eventually

LIMIT = 16
LIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
REPORT = b"GET /v1/report HTTP/1.1\r\nhost: localhost\r\n\r\n"
LONG = 900_000


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A daemon of 16 connections that waits a second for those who do not read."""
    folder = tmp_path_factory.mktemp("narrow") / "data"
    with running(folder, limits__connections=LIMIT, limits__write_timeout=1) as site:
        # Inherited by its connections: the system would take a whole answer otherwise.
        site.daemon._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        for at in range(4):
            assert site.post("/v1/queries", {"query_id": f"q{at}", "answer": "x" * LONG})
        yield site


def refused(site, reason: str) -> float:
    return site.total("ragmon_rejected_total", source="http", reason=reason)


def not_reading(site) -> socket.socket:
    """A connection that takes some kilobytes and no more."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    wire.settimeout(10)
    parts = urlsplit(site.url)
    wire.connect((parts.hostname, parts.port))
    return wire


def occupied(site, stack: ExitStack, count: int) -> None:
    """Open connections, each with half a request."""
    for _ in range(count):
        stack.enter_context(site.wire()).sendall(LIVE[:20])
    open_now = lambda: len(site.daemon._server.server_state.connections)  # noqa: E731
    eventually(lambda: open_now() >= count, "all are open")


def test_who_does_not_read_an_answer_is_closed_and_counted(narrow):
    before = refused(narrow, "write_timeout")
    with not_reading(narrow) as wire:
        wire.sendall(b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\n\r\n")
        eventually(lambda: refused(narrow, "write_timeout") == before + 1, "it is given up")
        assert len(everything(wire)) < 4 * LONG
    assert narrow.get("/livez").status == 200


def test_who_pipelines_and_does_not_read_leaves_no_traceback(narrow, caplog):
    before = refused(narrow, "write_timeout")
    with not_reading(narrow) as wire:
        asked = b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\n\r\n"
        wire.sendall(asked * 20 + asked[:30])
        eventually(lambda: refused(narrow, "write_timeout") == before + 1, "it is given up")
    assert narrow.get("/livez").status == 200
    assert [each for each in caplog.records if each.exc_info] == []


def test_a_refusal_waits_for_the_answers_before_it(narrow, caplog):
    with narrow.wire() as wire:
        wire.sendall(REPORT + b"GET /livez HTTP/1.1\r\nx: " + b"y" * 70_000)
        answer = everything(wire)
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert [each for each in caplog.records if each.exc_info] == []


def test_a_slow_reader_that_goes_on_reading_gets_everything(narrow):
    size = 0
    with not_reading(narrow) as wire:
        wire.sendall(b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        while part := wire.recv(8_192):
            size += len(part)
    assert size > 4 * LONG


def test_a_long_answer_is_written_in_pieces_as_it_is_read(narrow):
    server = narrow.daemon._server
    with not_reading(narrow) as wire:
        wire.sendall(b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\n\r\n")

        def unread() -> int:
            waiting = [each.transport.get_write_buffer_size() for each in connections()]
            return max(waiting, default=0)

        def connections():
            return [each for each in server.server_state.connections if each.transport]

        eventually(lambda: unread() > 0, "the client is behind")
        assert unread() <= 2 << 20


def test_an_answer_is_reserved_until_it_is_taken(narrow):
    memory = narrow.daemon._memory
    eventually(lambda: memory.reserved == 0, "nothing is in progress")
    with not_reading(narrow) as wire:
        wire.sendall(b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\n\r\n")
        eventually(lambda: 4 * LONG < memory.reserved < 4 * LONG + 1_000_000, "it is reserved")
    eventually(lambda: memory.reserved == 0, "it is given back")


def test_a_read_that_does_not_fit_into_the_memory_is_refused(narrow):
    memory = narrow.daemon._memory
    with memory.open() as others:
        others.take(memory.room - 1_000_000)
        answer = narrow.get("/v1/queries")
        assert answer.status == 503
        assert "limits.memory" in answer.json["detail"]
        assert narrow.get("/livez").status == 200
    assert narrow.get("/v1/queries").status == 200


def test_connections_beyond_the_limit_are_told_so(narrow):
    before = refused(narrow, "connections")
    with ExitStack() as stack:
        occupied(narrow, stack, LIMIT)
        answer = narrow.raw(REPORT)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"limits.connections" in answer
        assert b"retry-after: 2" in answer
    eventually(lambda: narrow.get("/v1/report").status == 200, "there is room again")
    assert refused(narrow, "connections") >= before + 1


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_probes_get_through_where_all_connections_are_taken(narrow, path):
    with ExitStack() as stack:
        occupied(narrow, stack, LIMIT)
        answer = narrow.raw(LIVE.replace(b"/livez", path.encode()))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in answer


def test_beyond_the_spare_ones_even_probes_are_refused_at_once(narrow, monkeypatch):
    monkeypatch.setattr(protocol, "SPARE", 0)
    with ExitStack() as stack:
        occupied(narrow, stack, LIMIT)
        assert narrow.raw(b"").startswith(b"HTTP/1.1 503 ")


def test_a_spare_connection_is_given_up_soon(narrow, monkeypatch):
    monkeypatch.setattr(protocol, "SPARE_S", 0.2)
    with ExitStack() as stack:
        occupied(narrow, stack, LIMIT)
        assert narrow.raw(LIVE[:20]).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("configured", "descriptors", "expected"),
    [
        pytest.param(512, 65_536, 512, id="enough"),
        pytest.param(512, 256, 128, id="few: the store needs some"),
        pytest.param(512, 64, 16, id="next to none"),
    ],
)
def test_connections_leave_descriptors_for_the_store(configured, descriptors, expected):
    assert connection_limit(configured, descriptors) == expected


def test_more_clients_than_descriptors_do_not_stop_it(tmp_path):
    prefix = ("prlimit", "--nofile=256")
    with Process(tmp_path / "data", "--limits.read_timeout", "2s", prefix=prefix) as site:
        assert any(event["event"] == "connections_limited" for event in site.events())
        with ExitStack() as stack:
            for _ in range(400):
                stack.enter_context(site.wire()).sendall(LIVE[:20])
            eventually(lambda: _post(site) == 200, "it takes records again")
        assert refused(site, "connections") > 200
        assert not any("error" in event["event"] for event in site.events())


def _post(site) -> int:
    try:
        return site.post("/v1/queries", {"query": "a"}).status
    except requests.ConnectionError:
        return 0
