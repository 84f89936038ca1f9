"""A foreign web page can neither write to ragmon nor read from it."""

import pytest

from ragmon.asgi import Problem
from ragmon.web.browsers import BrowserGuard
from tests.support.daemons import running

EVIL = {"origin": "https://evil.example", "content-type": "text/plain"}


def scope(method="POST", path="/v1/queries", **headers):
    named = {
        name.replace("_", "-"): text
        for name, text in ({"host": "127.0.0.1:8321"} | headers).items()
    }
    return {
        "method": method,
        "path": path,
        "headers": [(name.encode(), text.encode()) for name, text in named.items()],
    }


OPEN = BrowserGuard("", None)
LOCAL = BrowserGuard("", ["127.0.0.1"])
NAMED = BrowserGuard("https://ragmon.example.org/", ["127.0.0.1"])


@pytest.mark.parametrize(
    ("guard", "request_scope"),
    [
        pytest.param(LOCAL, scope(), id="a program"),
        pytest.param(LOCAL, scope(host="localhost"), id="by name"),
        pytest.param(LOCAL, scope(host="[::1]:8321"), id="IPv6"),
        pytest.param(LOCAL, scope(host="ragmon.localhost:8321"), id="a name below localhost"),
        pytest.param(LOCAL, scope("GET", "/livez", host="pod-7"), id="a probe, by any name"),
        pytest.param(OPEN, scope(host="ragmon.monitoring.svc"), id="any name, with tokens"),
        pytest.param(
            LOCAL,
            scope(origin="http://127.0.0.1:8321", sec_fetch_site="same-origin"),
            id="our page",
        ),
        pytest.param(
            NAMED,
            scope(origin="https://ragmon.example.org", host="ragmon.example.org"),
            id="our page behind a proxy",
        ),
        pytest.param(
            NAMED, scope(origin="https://ragmon.example.org"), id="a proxy that rewrites the host"
        ),
        pytest.param(
            LOCAL,
            scope("GET", "/", sec_fetch_site="cross-site", sec_fetch_mode="navigate"),
            id="a link in a chat that a person followed",
        ),
        pytest.param(
            LOCAL,
            scope("GET", "/", sec_fetch_site="same-site", sec_fetch_mode="navigate"),
            id="a link in a dashboard of the same site",
        ),
        pytest.param(
            OPEN,
            scope("GET", "/v1/report", sec_fetch_site="none", sec_fetch_mode="navigate"),
            id="an address typed by a person",
        ),
    ],
)
def test_what_passes(guard, request_scope):
    guard.check(request_scope)


@pytest.mark.parametrize(
    ("guard", "request_scope", "reason"),
    [
        pytest.param(OPEN, scope(origin="https://evil.example"), "foreign_page", id="a form"),
        pytest.param(OPEN, scope(origin="null"), "foreign_page", id="a sandboxed frame"),
        pytest.param(
            OPEN, scope(origin="http://127.0.0.1:9000"), "foreign_page", id="another local port"
        ),
        pytest.param(
            OPEN,
            scope("GET", "/v1/queries", sec_fetch_site="cross-site", sec_fetch_mode="no-cors"),
            "foreign_page",
            id="an image or a script",
        ),
        pytest.param(
            OPEN,
            scope("GET", "/v1/queries", sec_fetch_site="same-site", sec_fetch_mode="no-cors"),
            "foreign_page",
            id="a script on a page of another port or a sister name",
        ),
        pytest.param(
            OPEN,
            scope(sec_fetch_site="same-site", sec_fetch_mode="navigate"),
            "foreign_page",
            id="a form there without an Origin",
        ),
        pytest.param(
            OPEN,
            scope(sec_fetch_site="cross-site", sec_fetch_mode="navigate"),
            "foreign_page",
            id="a form without an Origin",
        ),
        pytest.param(
            LOCAL, scope("GET", host="rebind.evil.example"), "foreign_host", id="DNS rebinding"
        ),
        pytest.param(LOCAL, scope(host=""), "foreign_host", id="no host"),
        pytest.param(LOCAL, scope(host="[::"), "foreign_host", id="half a host"),
    ],
)
def test_what_is_refused(guard, request_scope, reason):
    with pytest.raises(Problem) as caught:
        guard.check(request_scope)
    assert (caught.value.status, caught.value.reason) == (403, reason)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/queries"),
        ("POST", "/v1/feedback"),
        ("POST", "/v1/traces"),
        ("POST", "/v1/silences"),
        ("POST", "/v1/judge"),
        ("GET", "/v1/queries"),
        ("GET", "/v1/report"),
        ("GET", "/metrics"),
    ],
)
def test_every_route_is_guarded_and_refusals_are_counted(daemon, method, path):
    def counted(reason):
        return daemon.total("ragmon_rejected_total", source="http", reason=reason)

    pages, hosts = counted("foreign_page"), counted("foreign_host")
    assert daemon.request(method, path, b"{}", EVIL).status == 403
    assert daemon.request(method, path, b"{}", {"host": "rebind.evil.example"}).status == 403
    assert (counted("foreign_page"), counted("foreign_host")) == (pages + 1, hosts + 1)


def test_with_everybody_accepted_any_name_is_but_no_foreign_page(tmp_path):
    with running(tmp_path / "data", auth__allow_anonymous=True) as site:
        assert site.request("GET", "/v1/report", headers={"host": "ragmon.svc"}).status == 200
        assert site.request("POST", "/v1/queries", b"{}", EVIL).status == 403
