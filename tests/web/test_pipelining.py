"""Requests sent before earlier ones are answered, and headers of one read, take little memory."""

import pytest

from tests.support.daemons import running
from tests.support.http import everything

LIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
PIPELINED = 32
HEADERS = 100


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("pipelining") / "data") as daemon:
        yield daemon


def refused(site, reason: str) -> float:
    return site.total("ragmon_rejected_total", source="http", reason=reason)


def test_some_requests_may_wait_on_a_connection(site):
    before = refused(site, "pipelined")
    with site.wire() as wire:
        wire.sendall(LIVE * PIPELINED + LAST)
        assert everything(wire).count(b"HTTP/1.1 200 OK") == PIPELINED + 1
    assert refused(site, "pipelined") == before


def test_no_more_are_read_and_those_before_are_answered(site):
    before = refused(site, "pipelined")
    with site.wire() as wire:
        wire.sendall(LIVE * 5_000)
        answers = everything(wire)
    assert answers.count(b"HTTP/1.1 200 OK") == answers.count(b"HTTP/1.1") == PIPELINED + 1
    assert refused(site, "pipelined") == before + 1
    assert site.get("/livez").status == 200


@pytest.mark.parametrize(
    ("more", "status"),
    [
        pytest.param(b"aa: bb\r\n" * (HEADERS - 2), b"200", id="as many as are taken"),
        pytest.param(b"aa: bb\r\n" * (HEADERS - 1), b"431", id="one more"),
        pytest.param(b"a:\r\n" * 10_000, b"431", id="the smallest"),
        pytest.param(b"a: " + b"b" * 65_000 + b"\r\n", b"200", id="as long as they may be"),
        pytest.param(b"a: " + b"b" * 65_600 + b"\r\n", b"431", id="longer"),
    ],
)
def test_headers_are_limited_also_when_they_come_in_one_read(site, more, status):
    before = refused(site, "headers_too_large")
    with site.wire() as wire:
        wire.sendall(LAST[:-2] + more + b"\r\n")
        assert everything(wire)[:12] == b"HTTP/1.1 " + status
    assert refused(site, "headers_too_large") == before + (status == b"431")


def test_headers_that_go_on_are_counted_before_they_are_complete(site):
    before = refused(site, "headers_too_large")
    with site.wire() as wire:
        wire.sendall(LIVE[:-2] + b"a:\r\n" * 200)
        assert everything(wire).startswith(b"HTTP/1.1 431 ")
    assert refused(site, "headers_too_large") == before + 1
