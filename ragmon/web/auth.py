"""Bearer tokens with scopes, expiry, rates and pipelines; only their hashes are kept.

A browser cannot send a bearer token, so it may send the token as the password of HTTP Basic, with
any user name, and only to read: browsers repeat such a password by themselves, also for a request
that another site made up, which must not change anything.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragmon.access import ANONYMOUS, Permit, Pipelines, TokenBucket, whole_seconds
from ragmon.asgi import Problem, Scope, header
from ragmon.clock import Clock
from ragmon.durations import minute_text

_BEARER = 'Bearer realm="ragmon"'
_BASIC = 'Basic realm="ragmon: any user name, and a token as password", charset="UTF-8"'
_SAFE = ("GET", "HEAD")

Failed = Callable[[Scope, str, str], None]
"""Called with a refused request, the name of its token if it is known, and the reason."""


class Grant(Struct, frozen=True, kw_only=True):
    """Permissions of one token."""

    name: str
    hashes: tuple[bytes, ...]  # SHA-256; several while a token is being replaced
    scopes: frozenset[str]
    expires: float | None = None  # unix seconds
    pipelines: tuple[str, ...] = ()  # globs; none: all
    requests_per_second: float | None = None
    records_per_second: float | None = None


def digest(token: str) -> bytes:
    """SHA-256 of a token."""
    return hashlib.sha256(token.encode()).digest()


class _Holder:
    """One token in use: its grant, its rates, and when it was last used."""

    def __init__(self, grant: Grant, before: "_Holder | None", clock: Clock) -> None:
        self.grant = grant
        self.used_at: float | None = None if before is None else before.used_at
        rates = (grant.requests_per_second, grant.records_per_second)
        kept = (None, None) if before is None else (before.requests, before.permit.records)
        self.requests: TokenBucket | None = _bucket(rates[0], kept[0], clock)
        records = _bucket(rates[1], kept[1], clock)
        pipelines = Pipelines(grant.pipelines) if grant.pipelines else None
        self.permit: Permit = Permit(grant.name, pipelines, records)


def _bucket(rate: float | None, before: TokenBucket | None, clock: Clock) -> TokenBucket | None:
    if rate is None:
        return None
    unchanged = before is not None and before.per_second == rate
    return before if unchanged else TokenBucket(rate, clock.monotonic)


class Authorizer:
    """Lets a request pass, or not; without grants everything passes."""

    def __init__(
        self,
        grants: Sequence[Grant],
        clock: Clock,
        failed: Failed = lambda _scope, _name, _reason: None,
    ) -> None:
        self._clock = clock
        self._failed = failed
        self._holders: tuple[_Holder, ...] = ()
        self.replace(grants)

    def replace(self, grants: Sequence[Grant]) -> None:
        """Take other grants from now on; rates and times of last use go on by name."""
        before = {holder.grant.name: holder for holder in self._holders}
        self._holders = tuple(
            _Holder(grant, before.get(grant.name), self._clock) for grant in grants
        )

    def __call__(self, scope: Scope, needed: str) -> Permit:
        """Check a request for a scope, and return its rights.

        Raises:
            Problem: 401 without a token that is known and valid, 403 when it lacks the scope, 429
                when it is used more often than it may be.
        """
        if not self._holders:
            return ANONYMOUS
        token = _token(scope)
        if not token:
            detail = "send a token as `Authorization: Bearer …`"
            raise self._refusal(scope, "", _unauthorized(scope, detail))
        holder = self._find(digest(token))
        if holder is None:
            raise self._refusal(scope, "", _unauthorized(scope, "unknown token"))
        grant = holder.grant
        now = self._clock.now()
        if grant.expires is not None and now >= grant.expires:
            raise self._refusal(scope, grant.name, _expired(scope, grant.name, grant.expires))
        if needed not in grant.scopes and "admin" not in grant.scopes:
            detail = f"token {grant.name!r} lacks scope {needed!r}"
            raise self._refusal(scope, grant.name, Problem(403, detail, reason="forbidden"))
        holder.used_at = now
        self._check_rates(holder, needed)
        return holder.permit

    def grants(self) -> list[tuple[Grant, float | None]]:
        """Every grant, and when it was last used (unix seconds; None: never)."""
        return [(holder.grant, holder.used_at) for holder in self._holders]

    def recall(self, used_at: Mapping[str, float]) -> None:
        """Take the times of last use, by name, from before a restart."""
        for holder in self._holders:
            if holder.used_at is None:
                holder.used_at = used_at.get(holder.grant.name)

    def expiries(self) -> dict[str, float]:
        """Unix seconds at which tokens expire, by name."""
        grants = (holder.grant for holder in self._holders)
        return {grant.name: grant.expires for grant in grants if grant.expires is not None}

    def _check_rates(self, holder: _Holder, needed: str) -> None:
        rates = {"requests": holder.requests}
        if needed == "ingest":
            rates["records"] = holder.permit.records
        for what, bucket in rates.items():
            if bucket is not None and (wait_s := bucket.wait_s()):
                raise _too_fast(holder.grant.name, what, bucket.per_second, wait_s)
        if holder.requests is not None:
            holder.requests.charge(1.0)

    def _refusal(self, scope: Scope, name: str, problem: Problem) -> Problem:
        self._failed(scope, name, problem.reason)
        return problem

    def _find(self, sha256: bytes) -> _Holder | None:
        match = None
        for holder in self._holders:  # all of them, so that the time taken reveals nothing
            for known in holder.grant.hashes:
                if hmac.compare_digest(known, sha256):
                    match = holder
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


def _unauthorized(scope: Scope, detail: str, reason: str = "unauthorized") -> Problem:
    challenge = f"{_BASIC}, {_BEARER}" if _reads(scope) else _BEARER
    headers = {"www-authenticate": challenge}
    return Problem(401, detail, reason=reason, headers=headers)


def _expired(scope: Scope, name: str, expires: float) -> Problem:
    day = minute_text(expires)
    detail = f"token {name!r} expired at {day}; ask the operator of ragmon for a new one"
    return _unauthorized(scope, detail, "token_expired")


def _too_fast(name: str, what: str, per_second: float, wait_s: float) -> Problem:
    wait = whole_seconds(wait_s)
    detail = (
        f"token {name!r} may send {per_second:g} {what} a second ({what}_per_second in its rate); "
        f"send again in {wait} s"
    )
    return Problem(429, detail, reason="rate_limited", headers={"retry-after": str(wait)})
