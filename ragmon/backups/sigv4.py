"""Requests to S3 signed by AWS Signature Version 4.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import configparser
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from requests import PreparedRequest
from requests.auth import AuthBase

from ragmon.backups import BackupError

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"
_UNSIGNED = frozenset({"accept", "accept-encoding", "connection", "content-length", "user-agent"})


class Credentials(NamedTuple):
    """An access key, with a session token where it is a temporary one."""

    access_key: str
    secret_key: str
    session_token: str = ""


def credentials(environment: Mapping[str, str]) -> Credentials:
    """Credentials from the variables AWS_*, else from the shared credentials file.

    Raises:
        BackupError: there are none.
    """
    access_key = environment.get("AWS_ACCESS_KEY_ID", "")
    if access_key:
        return _whole(
            access_key,
            environment.get("AWS_SECRET_ACCESS_KEY", ""),
            environment.get("AWS_SESSION_TOKEN", ""),
            "the environment",
        )
    usual = Path(environment.get("HOME", "/"), ".aws", "credentials")
    path = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or usual)
    profile = environment.get("AWS_PROFILE") or "default"
    parser = configparser.RawConfigParser()
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
        section = parser[profile]
    except (OSError, configparser.Error, KeyError, UnicodeError) as error:
        raise BackupError(
            f"no credentials for S3: AWS_ACCESS_KEY_ID is not set, and {path} has no readable"
            f" profile {profile}",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or mount a credentials file",
        ) from error
    return _whole(
        section.get("aws_access_key_id", ""),
        section.get("aws_secret_access_key", ""),
        section.get("aws_session_token", ""),
        f"profile {profile} of {path}",
    )


def _whole(access_key: str, secret_key: str, session_token: str, where: str) -> Credentials:
    if not access_key or not secret_key:
        raise BackupError(
            f"the credentials for S3 in {where} lack the access key or the secret key",
            hint="Give both",
        )
    return Credentials(access_key, secret_key, session_token)


class S3Auth(AuthBase):
    """Signs each request as it is sent, with the credentials of that moment."""

    def __init__(self, region: str, now: Callable[[], float]) -> None:
        self._region = region
        self._now = now

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the headers of the signature."""
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        headers = request.headers
        headers["Host"] = urlsplit(request.url or "").netloc
        headers["x-amz-content-sha256"] = hashlib.sha256(content).hexdigest()
        headers["x-amz-date"] = _stamp(self._now())
        key = credentials(os.environ)
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
