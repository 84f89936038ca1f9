"""Connection to a running ragmon by the standard library alone, so that commands start fast.

``requests`` takes a tenth of a second to import. It is used where an environment variable names a
proxy, which the standard library does not speak to by itself.
"""

import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from ragmon.errors import RemoteError
from ragmon.timed_http import TimedResponse

EXAMPLE_URL = "http://127.0.0.1:8321"
CONNECT_S, ANSWER_S = 5.0, 60.0

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection closed"),  # also a server that says nothing
    (socket.gaierror, "no host of that name"),
    (TimeoutError, "timed out"),
    (http.client.HTTPException, "its answer is not HTTP"),
)
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Trust(NamedTuple):
    """Certificates of the command line."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


_DEFAULTS = Trust()


class Answer(NamedTuple):
    """Answer to one request."""

    status: int
    reason: str
    content: bytes
    date: str = ""  # of the server's clock, as HTTP writes it

    @property
    def ok(self) -> bool:
        """True for a success; a redirect is none, since it is not followed."""
        return 200 <= self.status < 300


class Connection:
    """Requests to any ragmon, each on a connection of its own."""

    def __init__(self, headers: Mapping[str, str], trust: Trust = _DEFAULTS) -> None:
        self._headers = {"User-Agent": "ragmon", "Accept": "*/*", **headers}
        self._trust = trust

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Answer to one request; a redirect is not followed.

        Args:
            method: of HTTP.
            url: with its path.
            params: of the query.
            body: JSON.

        Raises:
            RemoteError: there is none, or the URL is none.
        """
        url += f"?{urlencode(params)}" if params else ""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        host = _host(url)
        if _has_proxy():
            return self._by_proxy(method, url, headers, body)
        try:
            with contextlib.closing(self._open(url)) as opened:
                opened.connect()
                opened.sock.settimeout(ANSWER_S)
                opened.request(method, _target(url), body, headers)
                answer = opened.getresponse()
                date = answer.headers.get("Date", "")
                return Answer(answer.status, answer.reason, answer.read(), date)
        except ssl.SSLError as error:
            raise _no_tls(host, error) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise _no_answer(host, error) from error

    def _open(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        opened: http.client.HTTPConnection
        if parts.scheme == "https":
            opened = http.client.HTTPSConnection(
                str(parts.hostname), parts.port, timeout=CONNECT_S, context=self._context()
            )
        else:
            opened = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=CONNECT_S)
        opened.response_class = TimedResponse
        return opened

    def _context(self) -> ssl.SSLContext:
        bundle = self._trust.ca_file or next(filter(None, map(os.environ.get, _BUNDLES)), None)
        if bundle is not None:
            folder = Path(bundle).is_dir()
            place = {"capath" if folder else "cafile": str(bundle)}
            context = ssl.create_default_context(**place)  # type: ignore[arg-type]
        else:
            import certifi  # noqa: PLC0415 - only here; images without authorities need it

            context = ssl.create_default_context()
            context.load_verify_locations(certifi.where())
        if self._trust.cert_file is not None:
            context.load_cert_chain(self._trust.cert_file, self._trust.key_file)
        return context

    def _by_proxy(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        import requests  # noqa: PLC0415 - see the docstring of the module

        from ragmon.http_client import timed_session  # noqa: PLC0415

        ca_file, cert_file, key_file = self._trust
        cert = None if cert_file is None else (str(cert_file), str(key_file))
        try:
            with timed_session() as session:
                answer = session.request(
                    method,
                    url,
                    data=body,
                    headers=dict(headers),
                    timeout=(CONNECT_S, ANSWER_S),
                    allow_redirects=False,
                    verify=str(ca_file) if ca_file else True,
                    cert=cert,
                )
        except requests.exceptions.SSLError as error:
            raise _no_tls(_host(url), error) from error
        except requests.RequestException as error:
            raise _no_answer(_host(url), error) from error
        date = answer.headers.get("Date", "")
        return Answer(answer.status_code, answer.reason, answer.content, date)


def _has_proxy() -> bool:
    """True where a variable names a proxy; ``requests`` knows when it applies."""
    return any(
        value and name.lower() in ("http_proxy", "https_proxy", "all_proxy")
        for name, value in os.environ.items()
    )


def is_url(text: str) -> bool:
    """True for an address of HTTP with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _host(url: str) -> str:
    """Address of the server, for messages.

    Raises:
        RemoteError: the URL is none.
    """
    if not is_url(url):
        shown = url.partition("/v1/")[0]
        raise RemoteError(
            f"{shown!r} is not a URL", status=400, hint=f"Write for example {EXAMPLE_URL}"
        )
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _no_tls(host: str, error: Exception) -> RemoteError:
    return RemoteError(
        f"no TLS with {host}: {error.args[-1] if error.args else error}"[:500],
        hint="Pass its authority with --ca-file; if it asks for one, your own certificate too",
    )


def reason_of(error: Exception) -> str:
    """The reason for which a server could not be asked, in words: of the first error behind it."""
    reason: BaseException | None = error
    while reason is not None:
        for kind, words in _REASONS:
            if isinstance(reason, kind):
                return words
        reason = reason.__cause__ or reason.__context__
    return (getattr(error, "strerror", None) or type(error).__name__).lower()


def _no_answer(host: str, error: Exception) -> RemoteError:
    return RemoteError(
        f"no answer from {host} ({reason_of(error)})",
        hint="Start `ragmon serve`, or pass another address with --url",
    )
