"""A path that is almost right is answered with the right one."""

import pytest

from ragmon.web import endpoints, ingest_endpoints
from ragmon.web.paths import path_hint

ENDPOINTS = (*endpoints.EVERY, *ingest_endpoints.EVERY)


def taking(method: str) -> list[str]:
    return [endpoint.path for endpoint in ENDPOINTS if endpoint.method == method]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/traces", "/v1/traces"),
        ("POST", "/v1/trace", "/v1/traces"),
        ("POST", "/api/v1/traces/", "/v1/traces"),
        ("POST", "/api/v1/logs", "/v1/logs"),
        ("POST", "/", "/v1/traces"),
        ("POST", "/api/public/otel", "/v1/traces"),
        ("POST", "/v1/query", "/v1/queries"),
        ("POST", "/queries", "/v1/queries"),
        ("POST", "/api/feedback", "/v1/feedback"),
        ("POST", "/v1/label", "/v1/labels"),
        ("GET", "/v1/report/", "/v1/report"),
    ],
)
def test_the_right_path_is_named(method, path, expected):
    assert expected in path_hint(method, path, taking(method))


@pytest.mark.parametrize("path", ["/nothing/like/it", "/" + "x" * 10_000])
def test_a_path_like_none_gets_no_hint(path):
    assert path_hint("GET", path, taking("GET")) == ""


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [
        ("POST", "/queries", "did you mean /v1/queries?"),
        ("POST", "/v1/report", "Method Not Allowed"),
        ("GET", "/v1/report/", "did you mean /v1/report?"),
    ],
)
def test_the_server_names_it(daemon, method, path, hint):
    answer = daemon.request(method, path)
    assert answer.status in (404, 405)
    assert answer.json["detail"].endswith(hint)
