"""The connection of the commands: what it sends, and what it makes of no answer."""

import http.client
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ragmon.cli.connection import Connection, reason_of
from ragmon.errors import RemoteError


class Echo(BaseHTTPRequestHandler):
    """Answers with what was asked."""

    def do_GET(self):
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        length = int(self.headers.get("Content-Length") or 0)
        asked = {
            "path": self.path,
            "method": self.command,
            "body": self.rfile.read(length).decode(),
            "headers": {name.lower(): value for name, value in self.headers.items()},
        }
        content = json.dumps(asked).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def echo():
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_method_path_parameters_body_and_token_arrive(echo):
    opened = Connection({"Authorization": "Bearer t"})
    answer = opened.request("POST", f"{echo}/v1/x", params={"a": "b c&d"}, body=b'{"e": 1}')
    assert answer.ok
    asked = json.loads(answer.content)
    assert (asked["method"], asked["path"]) == ("POST", "/v1/x?a=b+c%26d")
    assert asked["body"] == '{"e": 1}'
    assert asked["headers"]["authorization"] == "Bearer t"
    assert asked["headers"]["content-type"] == "application/json"


def test_a_redirect_is_not_followed(echo):
    answer = Connection({}).request("GET", f"{echo}/elsewhere")
    assert not answer.ok
    assert answer.status == 302


def test_a_proxy_of_the_environment_is_used(echo, monkeypatch):
    monkeypatch.setenv("http_proxy", echo)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    answer = Connection({"Authorization": "Bearer t"}).request("GET", "http://ragmon.test/v1/x")
    asked = json.loads(answer.content)
    assert asked["path"] == "http://ragmon.test/v1/x"
    assert asked["headers"]["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "url",
    ["ragmon:8321", "ftp://host/x", "http://", "http://host:port/x", "http://[::1/x", ""],
    ids=repr,
)
def test_what_is_no_url_is_said_to_be_none(url):
    with pytest.raises(RemoteError, match="is not a URL") as error:
        Connection({}).request("GET", url)
    assert error.value.status == 400  # the caller's mistake, not an absence


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9", "connection refused"),
        ("http://nowhere.invalid", "no host of that name"),
    ],
)
def test_who_does_not_answer_is_named_with_the_reason_in_words(url, reason):
    with pytest.raises(RemoteError, match=rf"no answer from {url} \({reason}\)") as error:
        Connection({}).request("GET", f"{url}/v1/x")
    assert error.value.status == 0


def test_an_answer_that_is_no_http_is_none():
    with (
        pytest.raises(RemoteError, match="its answer is not HTTP"),
        _speaker(b"hello\r\n\r\n") as url,
    ):
        Connection({}).request("GET", url)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError("x"), "timed out"),
        (http.client.RemoteDisconnected("x"), "connection closed"),
        (OSError(113, "No route to host"), "no route to host"),
        (ValueError("x"), "valueerror"),
    ],
    ids=repr,
)
def test_other_reasons(error, reason):
    assert reason_of(error) == reason


def test_a_server_without_tls_is_no_server_with_it(echo):
    url = echo.replace("http:", "https:")
    with pytest.raises(RemoteError, match=f"no TLS with {url}") as error:
        Connection({}).request("GET", f"{url}/v1/x")
    assert isinstance(error.value.__cause__, ssl.SSLError)


class _speaker:
    """A server that says one thing."""

    def __init__(self, words: bytes) -> None:
        import socket

        self._words = words
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def __exit__(self, *_):
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        accepted, _ = self._server.accept()
        with accepted:
            accepted.recv(10_000)
            accepted.sendall(self._words)
