"""HTTP client for alert receivers: bounded time and size, no redirects, no secret in an error."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import requests
import urllib3
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from ragmon.clock import Clock
from ragmon.errors import SettingsError, SinkError
from ragmon.timed_http import TimedResponse

_RETRYABLE = frozenset({408, 425, 429})
_MOST_BYTES = 64 << 10
_PART_BYTES = 8 << 10
_MOST_DETAIL = 200
_CONNECT_S = 5.0
_FAILED = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError)
_DAY_S = 86_400.0
_SECRET_LENGTH = 8  # a shorter part of a path is a word


def check_url(value: str) -> str:
    """A URL that can be posted to.

    Raises:
        ValueError: it is none, or holds credentials.
    """
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write a URL such as https://example.org/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("no credentials in a URL: use username and password_file")
    return value


Url = Annotated[str, AfterValidator(check_url)]


class HttpOptions(BaseModel):
    """Options of every sink that posts."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """Seconds within which a whole response must arrive."""
    ca_file: Path | None = None
    """PEM file of certificates to trust instead of those of the system and of
    REQUESTS_CA_BUNDLE."""


class Access(HttpOptions):
    """Options of a receiver that may need authentication: basic, or a bearer token."""

    username: str | None = None
    """User name for basic authentication."""
    password: SecretStr | None = None
    """Password for basic authentication. A secret: prefer password_file or password_env."""
    password_file: Path | None = None
    """File that holds the password."""
    password_env: str | None = None
    """Environment variable that holds the password."""
    token: SecretStr | None = None
    """Bearer token. A secret: prefer token_file or token_env."""
    token_file: Path | None = None
    """File that holds the token."""
    token_env: str | None = None
    """Environment variable that holds the token."""

    @model_validator(mode="after")
    def _one_way(self) -> "Access":
        password = check_secret(self, "password", required=self.username is not None)
        token = check_secret(self, "token", required=False)
        if (password and self.username is None) or (password and token):
            raise ValueError("give username and password, or a token")
        return self


class SecretUrlOptions(HttpOptions):
    """Options of a receiver whose address is the secret: whoever has it can post."""

    webhook_url: SecretStr | None = None
    """URL that the receiver gave out. A secret: prefer webhook_url_file or webhook_url_env."""
    webhook_url_file: Path | None = None
    """File that holds the URL; it is read again before each message."""
    webhook_url_env: str | None = None
    """Environment variable that holds the URL."""

    @model_validator(mode="after")
    def _one_url(self) -> "SecretUrlOptions":
        check_secret(self, "webhook_url", required=True)
        if self.webhook_url is not None:
            check_url(self.webhook_url.get_secret_value())
        return self

    def url(self) -> str:
        """The address as it is now.

        Raises:
            SettingsError: its file or variable is missing or empty, or holds no URL.
        """
        try:
            return check_url(secret(self, "webhook_url"))
        except ValueError as error:
            raise SettingsError(f"webhook_url: {error}") from None


def check_secret(options: BaseModel, name: str, *, required: bool) -> bool:
    """True if a secret is configured.

    Raises:
        ValueError: it is configured twice, or missing although required.
    """
    ways = [way for way in _ways(name) if getattr(options, way) is not None]
    if len(ways) > 1 or (required and not ways):
        raise ValueError(f"give {'exactly' if required else 'at most'} one of " + _listed(name))
    return bool(ways)


def secret(options: BaseModel, name: str) -> str:
    """A secret; read anew each time, so that one that is replaced needs no restart.

    Raises:
        SettingsError: its file or variable is missing or empty.
    """
    itself, file, variable = (getattr(options, way) for way in _ways(name))
    if itself is not None:
        value: str = itself.get_secret_value()
        return value.strip()
    if variable is not None:
        value = os.environ.get(variable, "").strip()
        if not value:
            raise SettingsError(f"{name}_env: the variable {variable} is not set")
        return value
    try:
        value = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(f"{name}_file: cannot read {file}: {reason}") from None
    if not value:
        raise SettingsError(f"{name}_file: {file} is empty")
    return value


def check_secrets(options: BaseModel) -> None:
    """Read every configured secret once, so that a missing one stops the start.

    Raises:
        SettingsError: one cannot.
    """
    fields = type(options).model_fields
    for name in fields:
        if f"{name}_env" in fields and check_secret(options, name, required=False):
            secret(options, name)


def timed_session() -> requests.Session:
    """A session whose timeout is that of the whole answer, of headers and body together.

    Otherwise it would begin anew with every byte, and a server that drips could hold a thread for
    as long as it likes.
    """
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _TimedAdapter())
    return session


class _TimedHttp(HTTPConnection):
    response_class = TimedResponse


class _TimedHttps(HTTPSConnection):
    response_class = TimedResponse


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _TimedHttp


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _TimedHttps


class _TimedAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
        return manager


class Poster:
    """One receiver's connection; for one thread."""

    def __init__(self, options: HttpOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._session = timed_session()
        self._session.headers.update({"User-Agent": "ragmon", "Accept-Encoding": "identity"})
        self._verify: str | None = None  # None: as the environment says
        if options.ca_file is not None:
            if not options.ca_file.is_file():
                raise SettingsError(f"ca_file: {options.ca_file} is not a file")
            self._verify = str(options.ca_file)

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        hide: Sequence[str] = (),
        *,
        method: str = "POST",
    ) -> bytes:
        """Send JSON, or what the headers say, and return the start of the answer once accepted.

        Args:
            url: where to.
            body: what.
            headers: besides the content type.
            hide: secrets that an answer might repeat.
            method: of HTTP.

        Raises:
            SinkError: it was not accepted; neither the URL's path nor a secret is in the message.
            SettingsError: a secret cannot be read.
        """
        auth = _Credentials(self._options)
        host = urlsplit(url).netloc
        until = self._clock.monotonic() + self._options.timeout_s
        try:
            with self._session.request(
                method,
                url,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                timeout=(min(_CONNECT_S, self._options.timeout_s), self._options.timeout_s),
                allow_redirects=False,  # would turn into GET, and take secrets elsewhere
                auth=auth,
                stream=True,
                verify=self._verify,  # here, where no environment variable overrules it
            ) as answer:
                body_start = self._read(answer, until)
        except (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError):
            took = f"{self._options.timeout_s:g} s"
            raise SinkError(f"{host} did not answer within {took}", retryable=True) from None
        except _FAILED as error:  # its text holds the URL
            why = type(error).__name__
            raise SinkError(f"no connection to {host} ({why})", retryable=True) from None
        if not 200 <= answer.status_code < 300:
            hidden = (url, *_parts(url), auth.secret, *hide)
            detail = _without(body_start.decode("utf-8", "replace"), hidden)
            raise _refusal(host, answer, detail, self._clock.now())
        return body_start

    def _read(self, answer: requests.Response, until: float) -> bytes:
        """The beginning of the answer's text, which is only for the log: the status counts.

        A server that drips cannot hold us beyond the timeout.
        """
        start = b""
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
            while len(start) < _MOST_BYTES and self._clock.monotonic() < until:
                part = answer.raw.read1(_PART_BYTES)
                if not part:
                    break
                start += part
        return start


class _Credentials(AuthBase):
    """Credentials of the options. As an auth it also keeps requests from reading a .netrc."""

    def __init__(self, options: HttpOptions) -> None:
        self.secret = ""
        self._add: requests.auth.AuthBase | None = None
        if isinstance(options, Access) and options.username is not None:
            self.secret = secret(options, "password")
            self._add = requests.auth.HTTPBasicAuth(options.username.encode(), self.secret.encode())
        elif isinstance(options, Access) and check_secret(options, "token", required=False):
            self.secret = secret(options, "token")

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests."""
        if self._add is not None:
            return self._add(request)
        if self.secret:
            request.headers["Authorization"] = f"Bearer {self.secret}"
        return request


def retry_after_s(header: str, now: float) -> float:
    """Seconds that a Retry-After header asks for, as a number or a date; at most a day, 0: none."""
    with contextlib.suppress(ValueError):
        return _within_a_day(float(header))  # with a fraction too: servers of models send it
    with contextlib.suppress(ValueError):
        return _within_a_day(parsedate_to_datetime(header).timestamp() - now)
    return 0.0


def _within_a_day(seconds: float) -> float:
    return min(seconds, _DAY_S) if seconds > 0.0 else 0.0


def _refusal(host: str, answer: requests.Response, detail: str, now: float) -> SinkError:
    code = answer.status_code
    if 300 <= code < 400:
        hint = "Redirects are not followed: configure the address it leads to"
        return SinkError(f"{host} answered {code}", status=code, retryable=True, hint=hint)
    return SinkError(
        f"{host} answered {code}" + (f": {detail}" if detail else ""),
        status=code,
        retryable=code in _RETRYABLE or not 400 <= code < 500,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After", ""), now),
    )


def _without(text: str, secrets: Sequence[str]) -> str:
    """The answer on one line, with secrets masked."""
    for secret_text in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret_text, "***")
    return " ".join(text.split())[:_MOST_DETAIL]


def _parts(url: str) -> list[str]:
    """The parts of a URL's path and query that may be the receiver's secret."""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    long = [each for each in re.split("[/?&=]", path) if len(each) >= _SECRET_LENGTH]
    return [path, *long] if len(path) > 1 else []


def _ways(name: str) -> tuple[str, str, str]:
    return name, f"{name}_file", f"{name}_env"


def _listed(name: str) -> str:
    return ", ".join(_ways(name)[:-1]) + f" and {name}_env"
