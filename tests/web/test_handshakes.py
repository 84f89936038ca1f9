"""Connections over TLS count and end before their handshake as they do after it."""

import socket
import ssl
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import Authority
from tests.support.daemons import running
from tests.support.http import everything
from tests.support.wait import eventually

LIMIT, SPARE = 16, 32
LIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
REPORT = LIVE.replace(b"/livez", b"/v1/report")


def _hello() -> bytes:
    """The first bytes of a client."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(
            ssl.MemoryBIO(), outgoing, server_hostname="localhost"
        ).do_handshake()
    return outgoing.read()


HELLO = _hello()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def narrow(tmp_path, authority):
    """A daemon of 16 connections over TLS that waits two seconds for a handshake."""
    pair = authority.issue("narrow")
    files = {"tls__cert_file": str(pair.cert), "tls__key_file": str(pair.key)}
    with running(
        tmp_path / "data", **files, limits__connections=LIMIT, limits__read_timeout=2
    ) as site:
        yield site


def plain(site) -> socket.socket:
    parts = urlsplit(site.url)
    return socket.create_connection((parts.hostname, parts.port), 10)


def asked(site, authority, request: bytes) -> bytes:
    """The answer over TLS; empty when the connection was dropped before."""
    context = ssl.create_default_context(cafile=authority.cert)
    try:
        with context.wrap_socket(plain(site), server_hostname="127.0.0.1") as wire:
            wire.sendall(request)
            return everything(wire)
    except OSError:
        return b""


def refused(site, reason: str) -> float:
    return site.daemon._context.own.total("ragmon_rejected_total", source="http", reason=reason)


def taken(site) -> int:
    return len(site.daemon._server.server_state.connections)


def test_connections_count_before_their_handshake(narrow):
    with ExitStack() as stack:
        wires = [stack.enter_context(plain(narrow)) for _ in range(LIMIT + SPARE + 20)]
        eventually(lambda: refused(narrow, "connections") >= 20, "those too many are refused")
        assert taken(narrow) == LIMIT + SPARE
        assert everything(wires[-1]) == b""
    eventually(lambda: taken(narrow) == 0, "all have ended")


def test_probes_get_through_and_others_are_told(narrow, authority):
    with ExitStack() as stack:
        for _ in range(LIMIT):
            stack.enter_context(plain(narrow))
        eventually(lambda: taken(narrow) == LIMIT, "all are open")
        assert asked(narrow, authority, LIVE).startswith(b"HTTP/1.1 200 ")
        answer = asked(narrow, authority, REPORT)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"limits.connections" in answer


def test_a_handshake_that_does_not_end_is_ended_and_counted(narrow, authority):
    with plain(narrow) as wire:
        wire.sendall(HELLO[:40])
        assert everything(wire) == b""
    eventually(lambda: refused(narrow, "tls_handshake") == 1, "it is counted")
    assert asked(narrow, authority, REPORT).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        pytest.param(b"", 0, id="opened for nothing, as load balancers do"),
        pytest.param(LIVE, 1, id="no TLS"),
        pytest.param(HELLO[:9] + b"\x07" + HELLO[10:], 1, id="an impossible version"),
    ],
)
def test_connections_that_end_leave_nothing(narrow, caplog, sent, counted):
    with plain(narrow) as wire:
        wire.sendall(sent)
        everything(wire)
    eventually(lambda: taken(narrow) == 0, "it has ended")
    assert refused(narrow, "tls_handshake") == counted
    assert [each for each in caplog.records if each.exc_info] == []


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_a_handshake_may_come_in_pieces(narrow, authority, size):
    context = ssl.create_default_context(cafile=authority.cert)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with plain(narrow) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(step) -> bytes:
            """Do a step, and again when the server has answered."""
            while True:
                try:
                    got = step()
                except ssl.SSLWantReadError:
                    got = None
                sent = outgoing.read()
                for at in range(0, len(sent), size):
                    wire.sendall(sent[at : at + size])
                if got is not None:
                    return got
                incoming.write(wire.recv(65_536))

        exchange(lambda: tls.do_handshake() or b"")
        tls.write(LIVE)
        assert exchange(lambda: tls.read(100)).startswith(b"HTTP/1.1 200 ")


def test_the_end_of_the_server_does_not_wait_for_handshakes(narrow):
    with plain(narrow) as wire:
        eventually(lambda: taken(narrow) == 1, "it is open")
        narrow.daemon.stop()
        assert everything(wire) == b""
