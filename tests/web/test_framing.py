"""Requests that RFC 9112 forbids are refused with 400, counted, and leave no traceback."""

import pytest

from tests.support.http import PROBLEM


def malformed(site) -> float:
    return site.total("ragmon_rejected_total", source="http", reason="malformed")


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        pytest.param(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: " + b"0" * 5_000,
            b"18 digits",
            id="a length of 5,000 zeros",
        ),
        pytest.param(
            b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: " + b"0" * 5_000,
            b"18 digits",
            id="also of a read",
        ),
        pytest.param(b"GET /livez HTTP/1.1\r\naccept: */*", b"one Host", id="no Host"),
        pytest.param(
            b"GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: evil.example", b"one Host", id="two"
        ),
        pytest.param(
            b"GET /livez HTTP/1.0\r\nhost: localhost\r\nhost: evil.example",
            b"one Host",
            id="two by HTTP/1.0",
        ),
    ],
)
def test_a_request_against_the_rules_is_refused_and_counted(daemon, caplog, start, remedy):
    before = malformed(daemon)
    answer = daemon.raw(start + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in answer
    assert remedy in answer
    assert malformed(daemon) == before + 1
    assert [each for each in caplog.records if each.exc_info] == []


def test_http_1_0_needs_no_host(daemon):
    assert daemon.raw(b"GET /livez HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK")


def test_what_is_no_http_is_counted_too(daemon):
    before = malformed(daemon)
    assert daemon.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert malformed(daemon) == before + 1


@pytest.mark.parametrize("path", ["/v1/report/", "/v1/alerts/", "/livez/"])
def test_nothing_leads_to_another_host(daemon, path):
    answer = daemon.raw(
        f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"location" not in answer.lower()
