"""Bearer tokens with scopes; only their hashes are kept."""

import hashlib
import hmac
from collections.abc import Sequence

from msgspec import Struct

from ragmon.asgi import Problem, Scope, header

_CHALLENGE = {"www-authenticate": 'Bearer realm="ragmon"'}


class Grant(Struct, frozen=True):
    """What one token allows."""

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
        kind, _, token = header(scope, b"authorization").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            detail = "send a token as `Authorization: Bearer …`"
            raise Problem(401, detail, reason="unauthorized", headers=_CHALLENGE)
        grant = self._find(digest(token.strip()))
        if grant is None:
            raise Problem(401, "unknown token", reason="unauthorized", headers=_CHALLENGE)
        if needed not in grant.scopes and "admin" not in grant.scopes:
            detail = f"token {grant.name!r} lacks scope {needed!r}"
            raise Problem(403, detail, reason="forbidden")

    def _find(self, sha256: bytes) -> Grant | None:
        found = None
        for grant in self._grants:  # all of them, so that time says nothing
            if hmac.compare_digest(grant.sha256, sha256):
                found = grant
        return found
