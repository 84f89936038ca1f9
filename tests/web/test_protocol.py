"""Headers end: in bytes, and in time."""

import pytest

from ragmon.web.protocol import _AnswerTransport
from tests.support.daemons import running
from tests.support.http import everything
from tests.support.wait import eventually

HASTY_S = 0.3
REQUEST = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A daemon that waits a third of a second for headers and bodies."""
    with running(tmp_path_factory.mktemp("hasty") / "data", limits__read_timeout=HASTY_S) as site:
        yield site


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/queries"),
        ("POST", "/v1/feedback"),
        ("POST", "/v1/labels"),
        ("GET", "/v1/queries"),
        ("GET", "/v1/queries/some-id"),
        ("GET", "/v1/report"),
        ("GET", "/metrics"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/"),
    ],
)
@pytest.mark.parametrize(
    "long",
    [
        pytest.param(b"cookie: " + b"x" * 1_000_000 + b"\r\n", id="one header of 1 MB"),
        pytest.param(b"a: b\r\n" * 15_000, id="15,000 short ones"),
    ],
)
def test_a_megabyte_of_headers_is_refused_everywhere(hasty, method, path, long):
    start = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".encode()
    answer = hasty.raw(start, long, b"content-length: 0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in answer
    assert b"limits.headers" in answer


def test_headers_without_end_are_cut_off_soon(hasty):
    before = hasty.total("ragmon_rejected_total", source="http", reason="headers_too_large")
    sent = 0
    with hasty.wire() as wire:
        wire.sendall(b"GET /livez HTTP/1.1\r\nx: ")
        try:
            for _ in range(1_000):
                sent += wire.send(b"y" * 100_000)
        except OSError:  # closed, as it should be
            pass
    assert sent < 20_000_000
    after = hasty.total("ragmon_rejected_total", source="http", reason="headers_too_large")
    assert after == before + 1


def test_headers_that_stop_half_way_are_given_up(hasty):
    before = hasty.total("ragmon_rejected_total", source="http", reason="read_timeout")
    answer = hasty.raw(b"GET /livez HTTP/1.1\r\nhost: loc")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer
    after = hasty.total("ragmon_rejected_total", source="http", reason="read_timeout")
    assert after == before + 1


def test_headers_that_stop_half_way_in_a_later_request_are_given_up_too(hasty):
    with hasty.wire() as wire:
        wire.sendall(REQUEST)
        assert b"200 OK" in wire.recv(65_536)
        wire.sendall(REQUEST[:-2])
        assert everything(wire).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed_without_a_word(hasty):
    assert hasty.raw() == b""


def test_a_quiet_connection_that_has_asked_before_stays_open(hasty):
    with hasty.wire() as wire:
        wire.sendall(REQUEST)
        assert b"200 OK" in wire.recv(65_536)
        wire.settimeout(3 * HASTY_S)
        with pytest.raises(TimeoutError):
            wire.recv(1)
        wire.sendall(REQUEST)
        assert b"200 OK" in wire.recv(65_536)


def test_slow_headers_that_arrive_in_time_are_answered(hasty):
    with hasty.wire() as wire:
        for at in range(0, len(REQUEST), 12):
            wire.sendall(REQUEST[at : at + 12])
        assert b"200 OK" in wire.recv(65_536)


def test_a_body_that_stops_half_way_is_given_up(hasty):
    start = b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
    answer = hasty.raw(start, b'{"query":')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer
    assert b"limits" not in answer


def test_a_client_that_leaves_half_way_is_counted(hasty):
    def left() -> float:
        return hasty.total("ragmon_rejected_total", source="http", reason="disconnected")

    before = left()
    with hasty.wire() as wire:
        wire.sendall(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
        )
    eventually(lambda: left() == before + 1, "the half body is counted")


@pytest.mark.parametrize(
    "bytes_",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="TLS"),
        pytest.param(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
            b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            id="a length and chunks",
        ),
        pytest.param(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
            id="less than 0",
        ),
    ],
)
def test_what_is_no_http_is_refused(hasty, bytes_):
    assert hasty.raw(bytes_).startswith(b"HTTP/1.1 400 ")
    assert hasty.get("/livez").status == 200


JAVA = (
    b"POST /v1/queries HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: %d\r\n"
    b"Host: localhost\r\nHTTP2-Settings: AAEAAEAA\r\nUpgrade: h2c\r\n\r\n"
)


def test_a_client_that_would_rather_speak_http_2_is_answered_in_http_1(hasty):
    """As Java's does, which sends the body in a write of its own."""
    body = b'{"query": "When?", "answer": "Upgrade: at nine."}'
    with hasty.wire() as wire:
        for _ in range(2):
            wire.sendall(JAVA % len(body))
            wire.sendall(body)
            assert b'"accepted":1' in wire.recv(65_536)


def test_an_upgrade_in_headers_that_come_in_parts_is_refused(hasty):
    head = JAVA % 2
    before = hasty.total("ragmon_rejected_total", source="http", reason="upgrade")
    with hasty.wire() as wire:
        wire.sendall(REQUEST + head[:40])
        assert b"200 OK" in wire.recv(65_536)
        wire.sendall(head[40:] + b"{}")
        answer = everything(wire)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP_1_1" in answer
    after = hasty.total("ragmon_rejected_total", source="http", reason="upgrade")
    assert after == before + 1


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A daemon that takes bodies of a megabyte."""
    folder = tmp_path_factory.mktemp("small") / "data"
    with running(folder, limits__body=1 << 20, limits__read_timeout=1) as site:
        yield site


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("last", [False, True], ids=["to go on", "to close"])
def test_a_client_that_sends_all_of_a_far_too_large_body_reads_the_answer(small, chunked, last):
    """More than the sockets hold, of one who looks for an answer only at the end, as most do."""
    part, parts = bytes(1 << 20), 30
    length = "transfer-encoding: chunked" if chunked else f"content-length: {parts * len(part)}"
    connection = "close" if last else "keep-alive"
    head = (
        "POST /v1/queries HTTP/1.1\r\nhost: localhost\r\n"
        f"connection: {connection}\r\n{length}\r\n\r\n"
    )
    with small.wire() as wire:
        wire.sendall(head.encode())
        for _ in range(parts):
            wire.sendall(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        if chunked:
            wire.sendall(b"0\r\n\r\n")
        if last:
            assert everything(wire).startswith(b"HTTP/1.1 413 ")
            return
        assert wire.recv(65_536).startswith(b"HTTP/1.1 413 ")
        wire.sendall(REQUEST)
        assert b"200 OK" in wire.recv(65_536)


@pytest.mark.parametrize(
    "path", ["/v1/queries", "/v1/nothing"], ids=["too large", "of a path that is not there"]
)
def test_a_body_without_end_is_cut_off_after_its_refusal(small, path):
    sent = 0
    with small.wire() as wire:
        wire.sendall(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\n"
            "content-length: 999999999999\r\n\r\n".encode()
        )
        try:
            for _ in range(1_000):
                sent += wire.send(bytes(1 << 20))
        except OSError:  # closed, as it should be
            pass
    assert sent < 200 << 20


def test_a_body_that_never_comes_after_its_refusal_is_not_waited_for(small):
    with small.wire() as wire:
        wire.sendall(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n"
        )
        assert everything(wire).startswith(b"HTTP/1.1 413 ")


class Wire:
    """A transport that keeps what was written, by call."""

    def __init__(self):
        self.written = []

    def write(self, data):
        self.written.append(bytes(data))

    def is_closing(self):
        return False

    def close(self):
        self.written.append(b"(closed)")


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param([b"head", b"body"], [b"headbody"], id="a short body goes with its head"),
        pytest.param([b"head", b""], [b"head"], id="no body"),
        pytest.param([b"head"], [b"head"], id="an answer to HEAD"),
        pytest.param([b"head", b"1", b"2"], [b"head1", b"2"], id="a body in parts"),
        pytest.param(
            [b"head", b"x" * 100_000], [b"head", b"x" * 100_000], id="a long body is not copied"
        ),
        pytest.param(
            [b"HTTP/1.1 100 Continue\r\n\r\n", b"head", b"body"],
            [b"HTTP/1.1 100 Continue\r\n\r\n", b"headbody"],
            id="the client waits for 100",
        ),
    ],
)
def test_the_head_of_an_answer_is_written_with_its_body(writes, expected):
    wire = Wire()
    answer = _AnswerTransport(wire, wire.close)
    for data in writes:
        answer.write(memoryview(data) if data == b"body" else data)
    answer.flush()
    assert wire.written == expected


def test_a_head_without_a_body_is_written_before_the_end():
    wire = Wire()
    answer = _AnswerTransport(wire, wire.close)
    answer.write(b"head")
    answer.close()
    assert wire.written == [b"head", b"(closed)"]


def test_head_and_100_continue_reach_the_client(hasty):
    with hasty.wire() as wire:
        wire.sendall(b"HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert wire.recv(65_536).startswith(b"HTTP/1.1 200 ")
        wire.sendall(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
            b"connection: close\r\ncontent-length: 15\r\n\r\n"
        )
        assert wire.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(b'{"query": "ab"}')
        assert everything(wire).startswith(b"HTTP/1.1 200 ")
