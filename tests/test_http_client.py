"""HTTP to receivers that refuse, hang, redirect or gossip."""

import contextlib
import socket
import ssl
import subprocess
import threading
import time

import pytest

from ragmon.clock import ManualClock, SystemClock
from ragmon.errors import SettingsError, SinkError
from ragmon.http_client import Access, HttpOptions, Poster, check_secrets, retry_after_s, secret
from tests.support.receiver import Reply, receiving
from tests.support.tools import program

NOW = 1_740_000_000.0
PATH = "/services/T0000001/B0000001/Sup3rS3cr3tValue"
KEY = "k3y-of-thirty-two-characters-0123"


@pytest.fixture
def receiver():
    with receiving() as held:
        yield held


def post(receiver, *, options=None, clock=None, path=PATH, hide=()):
    poster = Poster(options or HttpOptions(), clock or ManualClock(NOW))
    poster.post(receiver.url + path, b"{}", {}, hide)


def refused(receiver, **given) -> SinkError:
    with pytest.raises(SinkError) as error:
        post(receiver, **given)
    assert error.value.__cause__ is None  # its text would hold the URL
    return error.value


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_accepted(receiver, status):
    receiver.answer = lambda _: Reply(status, body=b"")
    post(receiver)
    assert receiver.posts[0].headers["content-type"] == "application/json"
    assert receiver.posts[0].headers["user-agent"] == "ragmon"


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, True) for status in (408, 425, 429, 500, 502, 503, 504, 507, 301, 307)),
        *((status, False) for status in (400, 401, 403, 404, 410, 413, 422)),
    ],
)
def test_what_may_be_tried_again(receiver, status, retryable):
    receiver.answer = lambda _: Reply(status, {"Location": "/elsewhere"}, b"what was wrong")
    error = refused(receiver)
    assert error.retryable is retryable
    assert f"{receiver.host} answered {status}" in str(error)


def test_redirects_are_not_followed(receiver):
    receiver.answer = lambda _: Reply(302, {"Location": f"{receiver.url}/elsewhere"})
    assert "Redirects are not followed" in str(refused(receiver))
    assert [each.path for each in receiver.posts] == [PATH]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 0.0),
        ("120", 120.0),
        ("1.5", 1.5),
        ("1e9", 86_400.0),
        ("nan", 0.0),
        ("Wed, 19 Feb 2025 21:20:30 GMT", 30.0),
        ("Wed, 19 Feb 2025 21:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
    ],
)
def test_retry_after(receiver, header, seconds):
    assert retry_after_s(header, NOW) == seconds
    receiver.answer = lambda _: Reply(429, {"Retry-After": header} if header else {})
    assert refused(receiver).retry_after_s == seconds


def test_who_does_not_answer_in_time_is_left(receiver):
    receiver.answer = lambda _: Reply(hang=True)
    error = refused(receiver, options=HttpOptions(timeout_s=0.2), clock=SystemClock())
    assert error.retryable
    assert str(error) == f"{receiver.host} did not answer within 0.2 s"


def test_an_answer_that_drips_does_not_hold_us():
    """The status counts; the rest of the answer is only for the log."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            wire, _ = listening.accept()
            with wire:
                wire.recv(65_536)
                wire.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.02):
                    wire.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        poster = Poster(HttpOptions(timeout_s=0.3), SystemClock())
        with pytest.raises(SinkError, match="answered 503: xxx"):
            poster.post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}", {})
        ended.set()
        thread.join(10)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="a header without end"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="headers without end"),
        pytest.param(b"", id="a status line without end"),
    ],
)
def test_headers_that_drip_do_not_hold_us(start):
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            wire, _ = listening.accept()
            with wire:
                wire.recv(65_536)
                wire.sendall(start)
                with contextlib.suppress(OSError):
                    while not ended.wait(0.02):
                        wire.sendall(b"a: b\r\n" if start.endswith(b"\n") else b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        poster = Poster(HttpOptions(timeout_s=0.3), SystemClock())
        started = time.monotonic()
        with pytest.raises(SinkError, match=r"did not answer within 0\.3 s") as error:
            poster.post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}", {})
        assert time.monotonic() - started < 1.5
        assert error.value.retryable
        ended.set()
        thread.join(10)


def test_a_connection_is_used_again(receiver):
    poster = Poster(HttpOptions(timeout_s=5), SystemClock())
    for _ in range(3):
        poster.post(receiver.url, b"{}", {})
    assert len(receiver.posts) == 3
    assert receiver.connections == 1


# ---- certificates ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two self-signed certificates of 127.0.0.1, each with its key."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "foreign"):
        subprocess.run(
            [
                program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem",
                "-addext", "subjectAltName=IP:127.0.0.1",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("ca_file", "environment", "accepted"),
    [
        pytest.param(None, None, False, id="unknown to the system"),
        pytest.param("ours.pem", None, True, id="named by ca_file"),
        pytest.param("ours.pem", "foreign.pem", True, id="ca_file before the environment"),
        pytest.param("foreign.pem", "ours.pem", False, id="the environment adds nothing to it"),
        pytest.param(None, "ours.pem", True, id="named by the environment alone"),
    ],
)
@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_which_certificates_are_trusted(
    certificates, receiver, monkeypatch, variable, ca_file, environment, accepted
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "ours.pem", certificates / "ours.key")
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    if environment:
        monkeypatch.setenv(variable, str(certificates / environment))
    options = HttpOptions(ca_file=ca_file and certificates / ca_file)
    poster = Poster(options, SystemClock())
    url = receiver.url.replace("http:", "https:")
    if accepted:
        poster.post(url, b"{}", {})
        assert len(receiver.posts) == 1
    else:
        with pytest.raises(SinkError, match="SSLError"):
            poster.post(url, b"{}", {})
        assert receiver.posts == []


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(SinkError) as error:
            Poster(HttpOptions(), ManualClock(NOW)).post(f"http://{host}{PATH}", b"{}", {})
    assert error.value.retryable
    assert str(error.value) == f"no connection to {host} (ConnectionError)"


@pytest.mark.parametrize(
    "gossip",
    [
        f"Cannot POST {PATH}",
        f"no webhook {PATH.rpartition('/')[2]} here",
        f"the token {KEY} is not valid",
        f"signed with {KEY[::-1]}?",
    ],
)
def test_a_receiver_that_repeats_a_secret_is_not_quoted(receiver, gossip):
    receiver.answer = lambda _: Reply(403, body=gossip.encode())
    error = str(refused(receiver, options=Access(token=KEY), hide=[KEY[::-1]]))
    assert "***" in error
    for hidden in (PATH, "Sup3rS3cr3tValue", KEY, KEY[::-1]):
        assert hidden not in error


def test_a_long_answer_is_one_short_line(receiver):
    receiver.answer = lambda _: Reply(400, body=b"<html>\n" + b"very long " * 20_000)
    assert str(refused(receiver)).startswith(f"{receiver.host} answered 400: <html> very long")
    assert len(str(refused(receiver))) < 300


def test_a_netrc_adds_nothing(receiver, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    post(receiver)
    assert "authorization" not in receiver.posts[0].headers


def test_a_token_that_no_header_can_hold_is_an_error_that_does_not_show_it(receiver):
    error = refused(receiver, options=Access(token="t0ken-€-" + KEY))
    assert KEY not in str(error)


def test_certificates_must_be_there(tmp_path):
    with pytest.raises(SettingsError, match="ca_file"):
        Poster(HttpOptions(ca_file=tmp_path / "none.pem"), ManualClock(NOW))


# ---- secrets --------------------------------------------------------------------------------


def test_secrets_come_from_three_places(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("from-file\n", encoding="utf-8")
    monkeypatch.setenv("A_TOKEN", "from-variable")
    given = (Access(token="itself"), Access(token_file=file), Access(token_env="A_TOKEN"))
    assert [secret(each, "token") for each in given] == ["itself", "from-file", "from-variable"]
    file.write_text("replaced", encoding="utf-8")
    assert secret(given[1], "token") == "replaced"
    assert not any("itself" in text for text in (repr(given[0]), str(given[0])))


def test_every_secret_is_looked_for_before_it_is_needed(tmp_path):
    check_secrets(HttpOptions(ca_file=tmp_path / "none"))
    check_secrets(Access(ca_file=tmp_path / "none", token="itself"))
    with pytest.raises(SettingsError, match="password_file: cannot read"):
        check_secrets(Access(username="ann", password_file=tmp_path / "none"))


def test_secrets_that_are_not_there(tmp_path):
    (tmp_path / "empty").write_text(" \n", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for options, problem in (
        (Access(token_file=tmp_path / "none"), "No such file"),
        (Access(token_file=tmp_path / "empty"), "is empty"),
        (Access(token_file=tmp_path / "binary"), "not UTF-8"),
        (Access(token_env="NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE is not set"),
    ):
        with pytest.raises(SettingsError, match=problem):
            secret(options, "token")
