"""Requests to the API of a tracing tool: bounded in time and size, without redirects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests
import urllib3
from requests.auth import AuthBase

from ragmon.clock import Clock
from ragmon.errors import RemoteError, SettingsError
from ragmon.http_client import HttpOptions, retry_after_s, timed_session
from ragmon.terminal import one_line

_MOST_BYTES = 32 << 20
_PART_BYTES = 64 << 10
_CONNECT_S = 5.0
_MOST_DETAIL = 200
_FAILED = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError)
_THROTTLED = 429
_UNAVAILABLE = 503
_REFUSED_KEYS = frozenset({401, 403})
_LEAST_PAUSE_S = 1.0
_PAUSE_S = 10.0  # where the tool does not say

Parameters = Mapping[str, str | int | Sequence[str]]


class ThrottledError(RemoteError):
    """The tool asks to be left alone for a while."""

    def __init__(self, message: str, *, status: int, retry_after_s: float) -> None:
        super().__init__(message, status=status)
        self.retry_after_s = retry_after_s


class TooLargeError(RemoteError):
    """An answer is longer than is read at once."""


class ToolClient:
    """One tool; for one thread."""

    def __init__(
        self, options: HttpOptions, url: str, clock: Clock, authorization: Callable[[], str]
    ) -> None:
        """Make it; nothing is connected yet.

        Args:
            options: limits and trust.
            url: base URL of the tool.
            clock: of retries.
            authorization: the header of that name, asked for each request; empty: none.
        """
        if options.ca_file is not None and not options.ca_file.is_file():
            raise SettingsError(f"ca_file: {options.ca_file} is not a file")
        self.requests: dict[str, int] = {"answered": 0, "throttled": 0, "failed": 0}
        self._options = options
        self._url = url.rstrip("/")
        self._clock = clock
        self._authorization = authorization
        self._session = timed_session()
        self._session.headers["User-Agent"] = "ragmon"

    def get(self, path: str, parameters: Parameters, kind: type[Any]) -> Any:
        """The answer to a GET, decoded.

        Args:
            path: below the base URL.
            parameters: of the query string; of a list each is sent by itself.
            kind: to decode JSON as.

        Raises:
            ThrottledError: the tool asks for a pause.
            TooLargeError: the answer is too long; ask for less.
            RemoteError: it did not answer, or refused.
            SettingsError: a secret cannot be read.
        """
        try:
            body = self._body(path, parameters)
            content = msgspec.json.decode(body, type=kind)
        except ThrottledError:
            self.requests["throttled"] += 1
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.requests["failed"] += 1
            raise RemoteError(
                f"{urlsplit(self._url).netloc}{path} answered something else: {error}",
                hint="Check the url of the source: it is that of the tool, without a path",
            ) from None
        except RemoteError:
            self.requests["failed"] += 1
            raise
        self.requests["answered"] += 1
        return content

    def _body(self, path: str, parameters: Parameters) -> bytes:
        host = urlsplit(self._url).netloc
        try:
            with self._session.get(
                self._url + path,
                params=dict(parameters),
                headers={"Accept": "application/json"},
                timeout=(min(_CONNECT_S, self._options.timeout_s), self._options.timeout_s),
                allow_redirects=False,  # would take the key elsewhere
                auth=_Authorization(self._authorization()),
                stream=True,
                verify=str(self._options.ca_file) if self._options.ca_file else None,
            ) as answer:
                body = _read(answer)
                if answer.status_code != requests.codes.ok:
                    raise self._refusal(f"{host}{path}", answer, body)
                return body
        except (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError):
            raise RemoteError(
                f"{host} did not answer within {self._options.timeout_s:g} s",
                hint="Raise timeout_s or lower page; it is tried again",
            ) from None
        except _FAILED as error:
            raise RemoteError(f"no connection to {host} ({type(error).__name__})") from None

    def _refusal(self, place: str, answer: requests.Response, body: bytes) -> RemoteError:
        status = answer.status_code
        asked_s = retry_after_s(answer.headers.get("Retry-After", ""), self._clock.now())
        if status == _THROTTLED or (status == _UNAVAILABLE and asked_s):
            return ThrottledError(
                f"{place} answered {status}",
                status=status,
                retry_after_s=max(_LEAST_PAUSE_S, asked_s or _PAUSE_S),
            )
        hint = "It is tried again"
        if status in _REFUSED_KEYS:
            hint = "Check the keys of the source; it is tried again"
        elif 300 <= status < 400:
            hint = "Redirects are not followed: configure the address it leads to"
        detail = one_line(body[:_MOST_DETAIL].decode("utf-8", "replace"))
        return RemoteError(f"{place} answered {status}: {detail}", status=status, hint=hint)


def _read(answer: requests.Response) -> bytes:
    parts = []
    size = 0
    for part in answer.iter_content(_PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise TooLargeError(
                f"an answer has more than {_MOST_BYTES >> 20} MiB", hint="Lower page"
            )
    return b"".join(parts)


class _Authorization(AuthBase):
    """A header; as an auth it also keeps requests from reading a .netrc."""

    def __init__(self, header: str) -> None:
        self._header = header

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests."""
        if self._header:
            request.headers["Authorization"] = self._header
        return request
