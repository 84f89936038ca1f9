"""What an answer means, when to try again, and where the server is reached."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.client.address import address
from ragmon.client.backoff import Backoff
from ragmon.client.batch import Batch, RecordKind, cut
from ragmon.client.options import Options
from ragmon.client.responses import SendOutcome, ServerResponse, read, retry_after_s
from ragmon.clock import ManualClock

RECEIPT = b'{"accepted":1,"duplicates":0,"rejected":[],"news":1}'


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(
            ServerResponse(status=200, body=RECEIPT), SendOutcome.DELIVERED, id="a receipt"
        ),
        pytest.param(
            ServerResponse(status=202, body=RECEIPT), SendOutcome.DELIVERED, id="any 2xx receipt"
        ),
        pytest.param(
            ServerResponse(status=200, body=b"<html>"), SendOutcome.BLOCKED, id="a login page"
        ),
        pytest.param(ServerResponse(status=200, body=b"\xff"), SendOutcome.BLOCKED, id="bytes"),
        pytest.param(ServerResponse(status=422, body=RECEIPT), SendOutcome.REFUSED, id="none good"),
        pytest.param(ServerResponse(status=400), SendOutcome.REFUSED, id="not understood"),
        pytest.param(ServerResponse(status=413), SendOutcome.SPLIT, id="too large"),
        pytest.param(ServerResponse(status=429), SendOutcome.RETRY, id="too many"),
        pytest.param(ServerResponse(status=408), SendOutcome.RETRY, id="too slow"),
        pytest.param(ServerResponse(status=500), SendOutcome.RETRY, id="a fault"),
        pytest.param(ServerResponse(status=503), SendOutcome.RETRY, id="overloaded"),
        pytest.param(ServerResponse(error="TimeoutError: "), SendOutcome.RETRY, id="no answer"),
        pytest.param(ServerResponse(status=401), SendOutcome.BLOCKED, id="a wrong token"),
        pytest.param(
            ServerResponse(status=403), SendOutcome.BLOCKED, id="a token without the scope"
        ),
        pytest.param(
            ServerResponse(status=302), SendOutcome.BLOCKED, id="a redirect is not followed"
        ),
        pytest.param(ServerResponse(status=404), SendOutcome.BLOCKED, id="a wrong URL"),
    ],
)
def test_what_an_answer_means(answer, outcome):
    assert read(answer, 0.0).outcome is outcome


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param(None, None, id="absent"),
        pytest.param("3", 3.0, id="seconds"),
        pytest.param(" 3 ", 3.0, id="spaces"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("86400", 300.0, id="a day is not believed"),
        pytest.param("9" * 5000, 300.0, id="nor is a number without end"),
        pytest.param("Thu, 01 Jan 1970 00:01:40 GMT", 90.0, id="a date"),
        pytest.param("Thu, 01 Jan 1970 00:00:05 GMT", 0.0, id="a date gone by"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", 300.0, id="a date far off"),
        pytest.param("soon", None, id="neither"),
        pytest.param("-5", None, id="negative"),
        pytest.param("1.5", None, id="a fraction is not in the standard"),
        pytest.param("", None, id="empty"),
    ],
)
def test_retry_after(header, seconds):
    assert retry_after_s(header, now=10.0) == seconds


@given(st.text())
def test_retry_after_never_raises(header):
    seconds = retry_after_s(header, now=0.0)
    assert seconds is None or 0.0 <= seconds <= 300.0


@pytest.mark.parametrize(
    ("draw", "waits"),
    [
        pytest.param(0.0, [0.5, 1.0, 2.0, 4.0, 4.0], id="shortest"),
        pytest.param(1.0, [1.0, 2.0, 4.0, 8.0, 8.0], id="longest"),
    ],
)
def test_the_pause_doubles_up_to_its_cap_within_the_jitter(draw, waits):
    backoff = Backoff(Options(backoff_base_s=1.0, backoff_cap_s=8.0), ManualClock(), lambda: draw)
    got = []
    for _ in waits:
        backoff.failed(None)
        got.append(backoff.wait_s())
    assert got == waits


@given(draw=st.floats(0, 1), asked=st.floats(0.01, 300.0))
def test_the_server_is_never_asked_before_it_said(draw, asked):
    backoff = Backoff(Options(), ManualClock(), lambda: draw)
    backoff.failed(asked)
    backoff.retry_now()
    assert asked <= backoff.wait_s() <= 1.25 * asked


def test_hurrying_forgets_our_own_pause():
    backoff = Backoff(Options(), ManualClock(), lambda: 1.0)
    backoff.failed(None)
    assert backoff.wait_s() > 0.0
    backoff.retry_now()
    assert backoff.wait_s() == 0.0
    assert backoff.failing


def test_success_forgets_every_pause_and_the_doubling():
    backoff = Backoff(Options(backoff_base_s=1.0), ManualClock(), lambda: 1.0)
    for _ in range(5):
        backoff.failed(20.0)
    backoff.succeeded()
    assert (backoff.wait_s(), backoff.failing) == (0.0, False)
    backoff.failed(None)
    assert backoff.wait_s() == 1.0


def test_a_blocked_server_is_asked_seldom():
    backoff = Backoff(Options(blocked_wait_s=60.0), ManualClock(), lambda: 0.5)
    backoff.blocked()
    assert backoff.wait_s() == 60.0


LOGIN = {"Proxy-Authorization": "Basic " + base64.b64encode(b"me:p@ss").decode()}


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        pytest.param("http://r", {}, (False, "r", 80, "", None, {}), id="plain"),
        pytest.param("https://r/", {}, (True, "r", 443, "", None, {}), id="TLS"),
        pytest.param("http://r:8321/a/", {}, (False, "r", 8321, "/a", None, {}), id="below a path"),
        pytest.param("http://[::1]:8321", {}, (False, "::1", 8321, "", None, {}), id="IPv6"),
        pytest.param(
            "http://bücher.example",
            {},
            (False, "xn--bcher-kva.example", 80, "", None, {}),
            id="IDN",
        ),
        pytest.param(
            "http://r:8321/a",
            {"HTTP_PROXY": "http://proxy:3128"},
            (False, "proxy", 3128, "http://r:8321/a", None, {}),
            id="a proxy forwards plain HTTP",
        ),
        pytest.param(
            "https://r/a",
            {"https_proxy": "http://me:p%40ss@proxy:3128"},
            (True, "proxy", 3128, "/a", ("r", 443), LOGIN),
            id="a proxy tunnels TLS",
        ),
        pytest.param(
            "http://r:8321",
            {"http_proxy": "proxy:3128", "NO_PROXY": "localhost, r"},
            (False, "r", 8321, "", None, {}),
            id="no_proxy",
        ),
        pytest.param(
            "http://r",
            {"https_proxy": "proxy"},
            (False, "r", 80, "", None, {}),
            id="another scheme",
        ),
    ],
)
def test_where_the_server_is_reached(url, environment, expected):
    got = address(url, environment)
    assert (got.tls, got.host, got.port, got.prefix, got.tunnel, got.proxy_headers) == expected


@pytest.mark.parametrize(
    "url", ["ragmon:8321", "ftp://r", "http://", "http://r:port", "http://" + "a" * 70 + ".b"]
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url):
    with pytest.raises(ValueError):
        address(url, {})


@given(sizes=st.lists(st.integers(0, 60), min_size=1), records=st.integers(1, 5))
def test_a_batch_is_as_large_as_allowed_and_never_empty(sizes, records):
    lines = [(number, b"x" * size) for number, size in enumerate(sizes)]
    count = cut(lines, records, max_bytes=40)
    taken = sum(size + 1 for size in sizes[:count])
    assert 1 <= count <= records
    assert taken <= 40 or count == 1
    full = count == min(records, len(sizes))
    assert full or taken + sizes[count] + 1 > 40


@given(st.lists(st.binary(), min_size=2))
def test_halves_hold_the_same_lines_in_order(bodies):
    batch = Batch(RecordKind.QUERY, list(enumerate(bodies)), spooled=True)
    first, second = batch.halves()
    assert [*first.lines, *second.lines] == batch.lines
    assert first.lines
    assert second.lines
    assert first.spooled
    assert second.spooled


@pytest.mark.parametrize("name", ["flush_interval_s", "max_batch_records", "gzip_over_bytes"])
def test_options_refuse_what_is_not_positive(name):
    with pytest.raises(ValueError, match=name):
        Options(**{name: 0})
