"""A standby sends requests on: what comes back is what the active ragmon answers."""

import asyncio
import contextlib
import gzip
import http.client
import socket
import threading
from urllib.parse import urlsplit

import pytest

from ragmon.daemon.tcp_relay import TcpRelay
from tests.support.certificates import Authority
from tests.support.daemons import running
from tests.support.http import Site, everything
from tests.support.standbys import Stores, WaitingSite
from tests.support.wait import eventually

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@contextlib.contextmanager
def waiting(tmp_path, addresses, **flags):
    """A standby of whoever answers there."""
    standby = WaitingSite(tmp_path, Stores(addresses), **flags)
    try:
        eventually(lambda: standby.get("/livez").status == 200, "it listens")
        yield standby
    finally:
        standby.standby.stop()
        standby.end()
        standby.bound.close()


@pytest.fixture(scope="module")
def active(tmp_path_factory):
    with running(tmp_path_factory.mktemp("active") / "data", limits__body="1MB") as site:
        yield site


@pytest.fixture(scope="module")
def standby(tmp_path_factory, active):
    with waiting(tmp_path_factory.mktemp("standby"), active.url) as site:
        yield site


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_standby_is_ready_while_the_active_one_is_and_says_whose_it_is(active, standby):
    ready = standby.get("/readyz")
    assert ready.status == 200
    assert ready.text == f"ok: standby of {active.url}\n"


def test_what_is_sent_to_a_standby_is_counted_by_the_active_one(active, standby):
    accepted = standby.post("/v1/queries", [{"query_id": f"sent{at}"} for at in range(3)])
    assert accepted.json["accepted"] == 3
    packed = gzip.compress(b'{"query_id": "packed", "answer": "nine to five"}')
    sent = standby.post("/v1/queries", packed, content_encoding="gzip")
    assert sent.json["accepted"] == 1
    assert active.get("/v1/queries/packed").json["record"]["answer"] == "nine to five"


def test_a_body_in_chunks_arrives_as_a_whole(active, standby):
    pieces = (b'{"query_id": "chunk%d"}\n' % at for at in range(5_000))
    answer = standby.request(
        "POST", "/v1/queries", pieces, {"content-type": "application/x-ndjson"}
    )
    assert answer.json["accepted"] == 5_000
    assert active.get("/v1/queries/chunk4999").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/queries?limit=2",
        "/v1/queries/none",
        "/v1/no-such-endpoint",
        "/docs",
        "/openapi.json",
    ],
)
def test_an_answer_is_the_one_of_the_active_one(active, standby, path):
    own, forwarded = active.get(path), standby.get(path)
    assert forwarded.status == own.status
    volatile = {"date"}
    assert {name: text for name, text in forwarded.headers.items() if name not in volatile} == {
        name: text for name, text in own.headers.items() if name not in volatile
    }
    assert forwarded.body == own.body


def test_head_has_the_headers_alone_and_the_next_request_works(standby):
    place = urlsplit(standby.url)
    wire = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
    for _ in range(2):
        wire.request("HEAD", "/openapi.json")
        answer = wire.getresponse()
        assert answer.status == 200
        assert int(answer.headers["content-length"]) > 10_000
        assert answer.read() == b""
        wire.request("GET", "/v1/queries?limit=1")
        assert wire.getresponse().read().startswith(b"{")
    wire.close()


def test_a_long_answer_comes_as_a_whole(active, standby):
    texts = [{"query_id": f"long{at}", "answer": f"{at} " * 20_000} for at in range(40)]
    for record in texts:
        assert active.post("/v1/queries", [record]).json["accepted"] == 1
    path = "/v1/export?limit=100000"
    own = active.get(path)
    assert own.status == 200
    assert len(own.body) > 3_000_000
    assert standby.get(path).body == own.body


def test_a_body_that_is_too_large_is_refused_by_the_active_one_and_the_next_works(standby):
    refused = standby.post("/v1/queries", b'{"query_id": "' + b"x" * 3_000_000 + b'"}')
    assert refused.status == 413
    assert "limits.body" in refused.text
    assert standby.post("/v1/queries", [{"query_id": "after"}]).status == 200


def test_a_client_that_leaves_within_its_body_does_no_harm(active, standby):
    head = b"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n"
    with standby.wire() as wire:
        wire.sendall(head + b'{"query_id": "half')
    with active.wire() as probe:  # the turn after: whatever was half is gone
        probe.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"200" in everything(probe)
    assert standby.post("/v1/queries", [{"query_id": "whole"}]).status == 200
    assert active.get("/v1/queries/half").status == 404


def test_tokens_are_checked_by_the_active_one(tmp_path):
    tokens = [{"name": "t", "token": "secret-secret-secret", "scopes": ["read"]}]
    with (
        running(tmp_path / "a", auth__tokens=tokens) as active,
        waiting(tmp_path, active.url) as standby,
    ):
        assert standby.get("/v1/report").status == 401
        assert standby.with_token("secret-secret-secret").get("/v1/report").status == 200


def test_while_the_active_one_is_away_senders_are_told_to_try_again(tmp_path):
    with waiting(tmp_path, f"http://127.0.0.1:{free_port()}") as standby:
        refused = standby.post("/v1/queries", [{"query_id": "a"}])
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert "did not answer" in refused.text
        ready = standby.get("/readyz")
        assert ready.status == 503
        assert "process 7" in ready.text
        assert standby.total("ragmon_rejected_total", reason="standby") == 1


def test_two_standbys_do_not_send_requests_round_in_circles(tmp_path):
    first_stores, second_stores = Stores(), Stores()
    first = WaitingSite(tmp_path / "1", first_stores)
    second = WaitingSite(tmp_path / "2", second_stores)
    try:
        first_stores.error.addresses = second.url
        second_stores.error.addresses = first.url
        for standby in (first, second):
            eventually(
                lambda at=standby: "another standby" in at.get("/v1/report").text, "it stops"
            )
            assert standby.get("/readyz").status == 503
    finally:
        for standby in (first, second):
            standby.standby.stop()
            standby.end()
            standby.bound.close()


class RawServer:
    """Answers each connection with bytes of its own, and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(self._answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


REQUEST = b"GET /v1/report HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(b"", b"503", id="no answer"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", b"503", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", b"503", id="half of the headers"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000, b"503", id="headers without end"
        ),
    ],
)
def test_what_is_no_answer_is_a_503(tmp_path, answer, expected):
    server = RawServer(answer)
    try:
        with waiting(tmp_path, server.url) as standby:
            assert standby.raw(REQUEST).split(b" ", 2)[1] == expected
    finally:
        server.close()


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(tmp_path):
    server = RawServer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    try:
        with waiting(tmp_path, server.url) as standby:
            got = standby.raw(REQUEST)
            assert b"hello" in got
            assert not got.endswith(b"0\r\n\r\n")
    finally:
        server.close()


def test_headers_between_two_neighbours_end_at_the_standby(tmp_path):
    seen = []

    class Listening(RawServer):
        def _serve(self) -> None:
            client, _ = self._socket.accept()
            with client:
                seen.append(client.recv(65_536))
                client.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Hop\r\n"
                    b"X-Hop: 1\r\nX-End: 2\r\n\r\nok"
                )

    server = Listening(b"")
    try:
        with waiting(tmp_path, server.url) as standby:
            got = standby.raw(
                b"GET /v1/report?a=%20b HTTP/1.1\r\nHost: ragmon.example\r\nX-Mine: 1\r\n"
                b"Connection: close, X-Secret\r\nX-Secret: 1\r\nTE: trailers\r\n\r\n"
            )
    finally:
        server.close()
    assert seen[0].startswith(b"GET /v1/report?a=%20b HTTP/1.1\r\nhost: ragmon.example\r\n")
    assert b"x-mine: 1" in seen[0]
    assert b"x-secret" not in seen[0].lower()
    assert b"te:" not in seen[0].lower()
    assert b"x-end: 2" in got.lower()
    assert b"x-hop" not in got.lower()


def test_otlp_over_grpc_reaches_the_active_one(tmp_path):
    grpc = pytest.importorskip("grpc")
    there, here = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (
        running(tmp_path / "a", otlp__grpc=there) as active,
        waiting(tmp_path, f"{active.url} grpc://{there}", **{"otlp.grpc": here}),
        grpc.insecure_channel(here) as channel,
    ):
        for _ in range(3):
            assert channel.unary_unary(TRACES)(b"", timeout=10) == b""


def test_while_nobody_is_active_connections_over_grpc_are_closed(tmp_path):
    here = free_port()
    with (
        waiting(tmp_path, "", **{"otlp.grpc": f"127.0.0.1:{here}"}),
        socket.create_connection(("127.0.0.1", here), timeout=10) as wire,
    ):
        assert everything(wire) == b""


def test_a_connection_over_grpc_that_says_nothing_is_closed():
    """By both sides: neither a client nor the active one holds it for ever."""

    async def closed() -> tuple[bytes, bytes]:
        accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        accepted = asyncio.Queue()
        server = await asyncio.start_server(lambda *pair: accepted.put_nowait(pair), "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        relay = TcpRelay(lambda: f"127.0.0.1:{port}", 10, idle_s=0.05)
        host, _, here = (await relay.listen("127.0.0.1:0")).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(here))
        writer.write(b"a few bytes")
        async with asyncio.timeout(20):
            there, back = await accepted.get()
            got = await reader.read(), await there.read(100)
            for each in (writer, back):
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()
        await relay.close()
        server.close()
        return got

    assert asyncio.run(closed()) == (b"", b"a few bytes")


def test_between_replicas_certificates_are_checked(tmp_path):
    authority, foreign = Authority(tmp_path / "tls"), Authority(tmp_path / "foreign")
    pair = authority.issue("active")
    files = {"tls__cert_file": str(pair.cert), "tls__key_file": str(pair.key)}
    with running(tmp_path / "a", **files) as active:
        url = active.url
        with waiting(tmp_path, url, **{"replica.ca_file": str(authority.cert)}) as standby:
            assert standby.get("/v1/report").status == 200
        with waiting(tmp_path, url, **{"replica.ca_file": str(foreign.cert)}) as standby:
            refused = standby.get("/v1/report")
            assert refused.status == 503
            assert "CERTIFICATE_VERIFY_FAILED" in refused.text
        other_name = url.replace("127.0.0.1", "127.0.0.2")
        with waiting(tmp_path, other_name, **{"replica.ca_file": str(authority.cert)}) as standby:
            assert standby.get("/v1/report").status == 503


def test_a_daemon_announces_where_it_answers(active):
    lock = active.daemon.settings.data_dir / "lock"
    eventually(lambda: active.url in lock.read_text(), "it is in the lock")
    assert isinstance(active, Site)
