"""Requests to one bucket, signed, and repeated where that may help."""

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import requests
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.s3 import S3Error
from ragmon.s3.credentials import CredentialChain, Credentials
from ragmon.s3.signing import S3Auth, encoded
from ragmon.terminal import one_line

_MOST_DETAIL = 200
_RIGHTS = "GetObject, PutObject, DeleteObject, AbortMultipartUpload and ListBucket"


class S3Bucket(Struct, frozen=True, kw_only=True):
    """The way to a bucket."""

    name: str
    endpoint: str = ""  # of another server than AWS; empty: AWS
    region: str = "us-east-1"
    path_style: bool = True  # of the addresses at an endpoint; AWS has the bucket in the host
    ca_file: Path | None = None  # that signed the server's certificate; None: as the system says
    credentials: Callable[[], Credentials] | None = None  # None: as AWS's programs find them

    @property
    def base(self) -> str:
        """The address that keys are added to."""
        endpoint = self.endpoint.rstrip("/")
        if endpoint and self.path_style:
            return f"{endpoint}/{self.name}"
        if endpoint:
            parts = urlsplit(endpoint)
            return f"{parts.scheme}://{self.name}.{parts.netloc}{parts.path}"
        if "." in self.name:  # no certificate covers it as the name of a host
            return f"https://s3.{self.region}.amazonaws.com/{self.name}"
        return f"https://{self.name}.s3.{self.region}.amazonaws.com"


class S3Limits(Struct, frozen=True, kw_only=True):
    """Limits of one request."""

    tries: int = 5
    first_pause_s: float = 1.0  # doubles
    longest_pause_s: float = 30.0
    timeout_s: tuple[float, float] = (10.0, 120.0)  # to connect, and between two bytes


class S3Client:
    """One bucket; for any thread."""

    def __init__(
        self,
        bucket: S3Bucket,
        clock: Clock,
        limits: S3Limits = S3Limits(),  # noqa: B008 - frozen
        *,
        place: str = "",
        session: requests.Session | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            bucket: to ask.
            clock: for signatures, and to wait between tries.
            limits: with requests that do not say their own.
            place: its name in messages; empty: the bucket's.
            session: to send by; none: a new one.
        """
        self.base = bucket.base
        self.place = place or f"s3://{bucket.name}"
        self._clock = clock
        self._limits = limits
        self._session = session or requests.Session()
        # With each request: REQUESTS_CA_BUNDLE would take the place of the session's.
        self._verify = None if bucket.ca_file is None else str(bucket.ca_file)
        keys = bucket.credentials or CredentialChain(os.environ, bucket.region, clock.now)
        self._session.auth = S3Auth(bucket.region, clock.now, keys)

    def ask(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        limits: S3Limits | None = None,
    ) -> requests.Response:
        """One request, repeated where that may help.

        Raises:
            S3Error: the server refused it, or did not answer.
        """
        asking = limits or self._limits
        asked = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in
                         sorted((query or {}).items()))  # fmt: skip
        url = f"{self.base}/{encoded(key, keep='/')}" + (f"?{asked}" if asked else "")
        sent = dict(headers or {})
        if body:
            md5 = hashlib.md5(body, usedforsecurity=False).digest()
            sent["Content-MD5"] = b64encode(md5).decode()
        for attempt in range(1, asking.tries + 1):
            try:
                answer = self._session.request(
                    method, url, data=body, headers=sent, stream=stream,
                    timeout=asking.timeout_s, allow_redirects=False, verify=self._verify,
                )  # fmt: skip
            except requests.RequestException as error:
                if attempt == asking.tries:
                    raise self.unreachable(error) from error
                self.pause(attempt, asking)
                continue
            if answer.status_code < 300:
                return answer
            is_busy = answer.status_code >= 500 or answer.status_code == 429
            if attempt == asking.tries or not is_busy:
                raise self._refusal(method, key, answer)
            self.pause(attempt, asking, answer.headers.get("Retry-After", ""))
            answer.close()
        raise AssertionError("the last try returns or raises")

    def listed(self, asked: Mapping[str, str]) -> Iterator[ElementTree.Element]:
        """The entries of a list, page by page."""
        query = {"list-type": "2", **asked}
        while True:
            answer = self.xml(self.ask("GET", "", query))
            yield from answer.iterfind("{*}Contents")
            token = answer.findtext("{*}NextContinuationToken")
            if answer.findtext("{*}IsTruncated") != "true" or not token:
                return
            query["continuation-token"] = token

    def pause(self, attempt: int, limits: S3Limits | None = None, asked: str = "") -> None:
        """Wait after a try that failed, for as long as the server asks.

        Args:
            attempt: its number, from 1.
            limits: of the request; none: the client's.
            asked: seconds, as the server wrote them; empty: it asked for none.
        """
        waiting = limits or self._limits
        seconds = waiting.first_pause_s * 2.0 ** (attempt - 1)
        if asked.isdecimal():
            seconds = float(asked)
        self._clock.sleep(min(seconds, waiting.longest_pause_s))

    def xml(self, answer: requests.Response) -> ElementTree.Element:
        """The document of an answer.

        Raises:
            S3Error: it is none.
        """
        try:
            return ElementTree.fromstring(answer.content)  # noqa: S314 - of the chosen server
        except ElementTree.ParseError as error:
            raise S3Error(
                f"{self.place}: the answer is no XML",
                hint="Check the endpoint: is it an S3 server?",
                status=answer.status_code,
            ) from error

    def unreachable(self, error: requests.RequestException) -> S3Error:
        """The error of a server that does not answer."""
        if isinstance(error, requests.exceptions.SSLError):
            return S3Error(
                f"{self.place}: the certificate of {self.base} is not accepted",
                hint="Check the name in the endpoint, and the file of the authority that signed it",
            )
        return S3Error(
            f"{self.place} does not answer ({type(error).__name__}) at {self.base}",
            hint="Check the endpoint, the region and the network",
        )

    def _refusal(self, method: str, key: str, answer: requests.Response) -> S3Error:
        code, message = "", answer.reason or ""
        try:
            document = ElementTree.fromstring(answer.content)  # noqa: S314 - see above
            code, message = document.findtext("{*}Code", ""), detail(document)
        except (ElementTree.ParseError, requests.RequestException):
            pass
        return S3Error(
            f"{self.place} refused {method} {key or 'of the list'} with {answer.status_code}:"
            f" {one_line(message)[:_MOST_DETAIL]}",
            hint=f"Check bucket, region, endpoint, and the rights of the key: it needs {_RIGHTS}",
            status=answer.status_code,
            code=code,
        )


def detail(error: ElementTree.Element) -> str:
    """Code and message of an error of S3."""
    return f"{error.findtext('{*}Code', '')} {error.findtext('{*}Message', '')}".strip()


def from_environment(configured: str, *variables: str) -> str:
    """A setting, or the first of these variables that is set; empty: none is."""
    values = (configured, *(os.environ.get(name, "") for name in variables))
    return next((value for value in values if value), "")


def endpoint_of(configured: str) -> str:
    """The endpoint of the settings, or of AWS's variables."""
    return from_environment(configured, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def region_of(configured: str) -> str:
    """The region of the settings, or of AWS's variables."""
    return from_environment(configured, "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
