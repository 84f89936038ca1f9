"""Bearer tokens with scopes, expiry, rates and pipelines; only their hashes are kept.

A browser cannot send a bearer token, so it may send the token as the password of HTTP Basic, with
any user name, and only to read: browsers repeat such a password by themselves, also for a request
that another site made up, which must not change anything. People who sign in have a session instead
(``ragmon.web.sessions``), which stands for the token that was given: while that is known and valid,
on requests that read, and on forms that one of our own pages sent.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragmon.access import ANONYMOUS, Permit, Pipelines, TokenBucket, whole_seconds
from ragmon.asgi import Problem, Scope, header
from ragmon.clock import Clock
from ragmon.durations import minute_text
from ragmon.web.sessions import Sessions, form_token
from ragmon.web.visitors import Visitor

_BEARER = 'Bearer realm="ragmon"'
_BASIC = 'Basic realm="ragmon: any user name, and a token as password", charset="UTF-8"'
_SAFE = ("GET", "HEAD")
PROVEN = "ragmon.proven_form"
"""Key of a request's scope: it is a form that one of our own pages sent, so a session counts."""

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
        self.permit: Permit = Permit(
            grant.name, pipelines, records, is_admin="admin" in grant.scopes
        )


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
        sessions: Sessions | None = None,
    ) -> None:
        """Make it.

        Args:
            grants: permissions of every token.
            clock: of the daemon.
            failed: called with every request that is refused.
            sessions: of people who signed in; None: with the usual lifetime.
        """
        self._clock = clock
        self._failed = failed
        self.sessions = sessions or Sessions(clock)
        self._own_secret = secrets.token_urlsafe()  # of forms, where nobody signs in
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
        holder = self._holder_of(scope)
        self._check_valid(scope, holder)
        if needed not in holder.grant.scopes and not holder.permit.is_admin:
            raise self._lacking(scope, holder.grant.name, f"lacks scope {needed!r}")
        holder.used_at = self._clock.now()
        self._check_rates(holder, needed)
        return holder.permit

    @property
    def asks_for_tokens(self) -> bool:
        """True where tokens are configured."""
        return bool(self._holders)

    def is_signed_in(self, scope: Scope) -> bool:
        """True for a request with a session whose token may still be used."""
        session = self.sessions.find(scope)
        holder = None if session is None else self._find(session.token_sha256)
        return holder is not None and not self._has_expired(holder.grant)

    def sign_in(self, scope: Scope, token: str) -> tuple[Permit, str]:
        """Begin a session; returns the rights of the token and the id of the session.

        Raises:
            Problem: 401 for a token that is unknown or has expired, 403 for one that reads nothing.
        """
        sha256 = digest(token)
        holder = self._find(sha256)
        if holder is None:
            raise self._refusal(scope, "", _unauthorized(scope, "unknown token", "wrong_token"))
        self._check_valid(scope, holder)
        if not {"read", "admin"} & holder.grant.scopes:
            raise self._lacking(scope, holder.grant.name, "may send, not read; use one with `read`")
        holder.used_at = self._clock.now()
        return holder.permit, self.sessions.begin(sha256)

    def form_secret(self, scope: Scope, *, is_login: bool = False) -> str:
        """The secret by which forms of a request's sender are known; empty: none are taken."""
        if is_login:
            return self.sessions.login_secret(scope)
        return self.sessions.name(scope) if self._holders else self._own_secret

    def visitor(self, scope: Scope, permit: Permit) -> Visitor:
        """Whoever looks at a page; with a bearer token or a password no form can be sent."""
        if not self._holders:
            return Visitor("", permit.is_admin, True, form_token(self._own_secret))
        session = self.sessions.find(scope)
        holder = None if session is None else self._find(session.token_sha256)
        if _token(scope) or holder is None:
            return Visitor()
        may_label = permit.is_admin or "ingest" in holder.grant.scopes
        token = form_token(self.sessions.name(scope))
        return Visitor(permit.name, permit.is_admin, may_label, token)

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

    def _holder_of(self, scope: Scope) -> _Holder:
        """The token that a request brings, or that its session stands for.

        Raises:
            Problem: 401.
        """
        if token := _token(scope):
            holder = self._find(digest(token))
            detail = "unknown token"
        else:
            counts = _reads(scope) or scope.get(PROVEN, False)
            session = self.sessions.find(scope) if counts else None
            holder = None if session is None else self._find(session.token_sha256)
            detail = "send a token as `Authorization: Bearer …`, or sign in at /login"
        if holder is None:
            raise self._refusal(scope, "", _unauthorized(scope, detail))
        return holder

    def _check_valid(self, scope: Scope, holder: _Holder) -> None:
        if self._has_expired(holder.grant):
            assert holder.grant.expires is not None
            problem = _expired(scope, holder.grant.name, holder.grant.expires)
            raise self._refusal(scope, holder.grant.name, problem)

    def _has_expired(self, grant: Grant) -> bool:
        return grant.expires is not None and self._clock.now() >= grant.expires

    def _lacking(self, scope: Scope, name: str, what: str) -> Problem:
        return self._refusal(
            scope, name, Problem(403, f"token {name!r} {what}", reason="forbidden")
        )

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
