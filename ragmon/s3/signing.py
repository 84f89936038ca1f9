"""Requests to S3 signed by AWS Signature Version 4.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, unquote, urlsplit

from requests import PreparedRequest
from requests.auth import AuthBase

from ragmon.s3.credentials import Credentials

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"
_UNSIGNED = frozenset({"accept", "accept-encoding", "connection", "content-length", "user-agent"})


class S3Auth(AuthBase):
    """Signs each request as it is sent, with the credentials of that moment."""

    def __init__(
        self, region: str, now: Callable[[], float], credentials: Callable[[], Credentials]
    ) -> None:
        self._region = region
        self._credentials = credentials
        self._now = now

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the headers of the signature."""
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        headers = request.headers
        headers["Host"] = urlsplit(request.url or "").netloc
        headers["x-amz-content-sha256"] = hashlib.sha256(content).hexdigest()
        headers["x-amz-date"] = _stamp(self._now())
        key = self._credentials()
        if key.session_token:
            headers["x-amz-security-token"] = key.session_token
        headers["Authorization"] = authorization(
            request.method or "GET", request.url or "", headers, key, self._region
        )
        return request


def authorization(
    method: str, url: str, headers: Mapping[str, str], key: Credentials, region: str
) -> str:
    """The value of the header ``Authorization``.

    Args:
        method: of the request.
        url: with its query.
        headers: to sign, with host, x-amz-date and x-amz-content-sha256.
        key: to sign with.
        region: of the bucket.
    """
    signed = {
        name.lower(): " ".join(str(value).split())
        for name, value in headers.items()
        if name.lower() not in _UNSIGNED
    }
    names = ";".join(sorted(signed))
    parts = urlsplit(url)
    canonical = "\n".join(
        (
            method,
            encoded(unquote(parts.path) or "/", keep="/"),
            _canonical_query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            signed["x-amz-content-sha256"],
        )
    )
    stamp = signed["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    secret = f"AWS4{key.secret_key}".encode()
    for part in (stamp[:8], region, "s3", "aws4_request"):
        secret = _hmac(secret, part)
    signature = _hmac(secret, f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}").hex()
    return (
        f"{_ALGORITHM} Credential={key.access_key}/{scope},SignedHeaders={names},"
        f"Signature={signature}"
    )


def encoded(text: str, keep: str = "") -> str:
    """Percent-encoded as S3 does it for signatures."""
    return quote(text, safe=_UNRESERVED + keep)


def _canonical_query(query: str) -> str:
    pairs = (item.partition("=") for item in query.split("&") if item)
    return "&".join(
        sorted(f"{encoded(unquote(name))}={encoded(unquote(value))}" for name, _, value in pairs)
    )


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y%m%dT%H%M%SZ")
