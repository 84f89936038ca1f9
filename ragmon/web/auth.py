"""Bearer tokens with scopes; only their hashes are kept.

A browser cannot send a bearer token, so it may send the token as the password of HTTP Basic, with
any user name, and only to read: browsers repeat such a password by themselves, also for a request
that another site made up, which must not change anything.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from msgspec import Struct

from ragmon.asgi import Problem, Scope, header

_BEARER = 'Bearer realm="ragmon"'
_BASIC = 'Basic realm="ragmon: any user name, and a token as password", charset="UTF-8"'
_SAFE = ("GET", "HEAD")


class Grant(Struct, frozen=True):
    """Permissions of one token."""

    name: str
    sha256: bytes
    scopes: frozenset[str]


def digest(token: str) -> bytes:
    """SHA-256 of a token."""
    return hashlib.sha256(token.encode()).digest()


class Authorizer:
    """Lets a request pass, or not; without grants everything passes."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = tuple(grants)

    def __call__(self, scope: Scope, needed: str) -> None:
        """Check a request for a scope.

        Raises:
            Problem: 401 without a known token, 403 when it lacks the scope.
        """
        if not self._grants:
            return
        token = _token(scope)
        if not token:
            raise _unauthorized(scope, "send a token as `Authorization: Bearer …`")
        grant = self._find(digest(token))
        if grant is None:
            raise _unauthorized(scope, "unknown token")
        if needed not in grant.scopes and "admin" not in grant.scopes:
            detail = f"token {grant.name!r} lacks scope {needed!r}"
            raise Problem(403, detail, reason="forbidden")

    def _find(self, sha256: bytes) -> Grant | None:
        match = None
        for grant in self._grants:  # all of them, so that the time taken reveals nothing
            if hmac.compare_digest(grant.sha256, sha256):
                match = grant
        return match


def _token(scope: Scope) -> str:
    """The token that a request brings, or nothing."""
    kind, _, credentials = header(scope, b"authorization").partition(" ")
    if kind.lower() == "bearer":
        return credentials.strip()
    if kind.lower() == "basic" and _reads(scope):
        return _password(credentials.strip())
    return ""


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError:  # neither base64 nor UTF-8
        return ""


def _reads(scope: Scope) -> bool:
    return scope.get("method") in _SAFE


def _unauthorized(scope: Scope, detail: str) -> Problem:
    challenge = f"{_BASIC}, {_BEARER}" if _reads(scope) else _BEARER
    headers = {"www-authenticate": challenge}
    return Problem(401, detail, reason="unauthorized", headers=headers)
