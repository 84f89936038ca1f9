"""One HTTP request and its answer, limited in time and size."""

from typing import NamedTuple

import msgspec
import requests
import urllib3
from requests.auth import AuthBase

from ragmon.clock import Clock
from ragmon.http_client import timed_session
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.options import Options

_MOST_BYTES = 4 << 20
_PART_BYTES = 1 << 16
_BROKEN = (
    urllib3.exceptions.ProtocolError,
    urllib3.exceptions.SSLError,
    urllib3.exceptions.DecodeError,
    OSError,
)


class HttpResult(NamedTuple):
    """Status, Retry-After header and body of an answer."""

    status: int
    retry_after: str
    body: bytes


class Key(AuthBase):
    """Adds the API key; as a requests auth, so that requests does not read a .netrc."""

    def __init__(self, key: str, *, azure: bool) -> None:
        self._name, self._value = ("api-key", key) if azure else ("Authorization", f"Bearer {key}")
        self._has_key = bool(key)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests."""
        if self._has_key:
            request.headers[self._name] = self._value
        return request


def open_session(options: Options, key: str) -> requests.Session:
    """A session with the headers of every request."""
    session = timed_session()
    session.headers["User-Agent"] = "ragmon"
    session.headers.update({k: v.get_secret_value() for k, v in options.headers.items()})
    session.auth = Key(key, azure=options.api_version is not None)
    if options.api_version:
        session.params = {"api-version": options.api_version}
    return session


class HttpCall(NamedTuple):
    """A request to send; None as content sends none."""

    method: str
    url: str
    content: object
    timeout_s: float


def send(session: requests.Session, call: HttpCall, clock: Clock) -> HttpResult:
    """Send a JSON request and read the whole answer.

    Raises:
        JudgeError: timeout or network.
    """
    until = clock.monotonic() + call.timeout_s
    try:
        with session.request(
            call.method,
            call.url,
            data=None if call.content is None else msgspec.json.encode(call.content),
            headers={"Content-Type": "application/json"},
            timeout=call.timeout_s,
            allow_redirects=False,  # would turn into GET, and take the key elsewhere
            stream=True,
        ) as response:
            body = _read(response, until, clock)
            return HttpResult(response.status_code, response.headers.get("Retry-After", ""), body)
    except (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise JudgeError("timeout", f"no answer within {call.timeout_s:g} s") from error
    except (requests.RequestException, *_BROKEN) as error:
        raise JudgeError("network", type(error).__name__) from error


def _read(response: requests.Response, until: float, clock: Clock) -> bytes:
    """In parts as they come, so that a slow server cannot exceed the timeout."""
    parts: list[bytes] = []
    size = 0
    while part := response.raw.read1(_PART_BYTES, decode_content=True):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise JudgeError("network", f"the answer exceeds {_MOST_BYTES} bytes")
        if clock.monotonic() > until:
            raise JudgeError("timeout", "the answer did not end in time")
    return b"".join(parts)
