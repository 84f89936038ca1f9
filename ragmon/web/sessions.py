"""Sessions of people who signed in with a token, known by a cookie.

The cookie holds a random id and nothing of the token, so a copy of it opens neither the API for
programs nor anything after it has ended. Sessions are kept here alone, as hashes: to sign out ends
them at once, which a signed cookie could not promise, and a restart of ragmon ends all of them.
"""

import hashlib
import hmac
import secrets
from typing import NamedTuple

from ragmon.asgi import Scope, header
from ragmon.clock import Clock

SESSION_S = 12 * 3_600.0
LOGIN_S = 3_600.0
"""Time in which a login form has to be sent."""

_SESSION, _LOGIN = "ragmon-session", "ragmon-login"
_MOST_OF_TOKEN = 100  # sessions; the oldest end
_ID_BYTES = 32


class Session(NamedTuple):
    """One person's session."""

    token_sha256: bytes  # of the token that was given; once that is unknown, the session ends
    ends_at: float  # seconds of the monotonic clock


class Sessions:
    """Every session, and the cookies that name them."""

    def __init__(
        self, clock: Clock, lifetime_s: float = SESSION_S, *, is_secure: bool = False
    ) -> None:
        """Begin with none.

        Args:
            clock: of the daemon.
            lifetime_s: of a session.
            is_secure: people reach ragmon over HTTPS, though a proxy may ask it over HTTP.
        """
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._is_secure = is_secure
        self._sessions: dict[bytes, Session] = {}  # by the hash of the id, the oldest first

    def begin(self, token_sha256: bytes) -> str:
        """Begin a session; returns its id."""
        now = self._clock.monotonic()
        self._sessions = {key: one for key, one in self._sessions.items() if one.ends_at > now}
        same = [key for key, one in self._sessions.items() if one.token_sha256 == token_sha256]
        for key in same[: max(0, len(same) - _MOST_OF_TOKEN + 1)]:
            del self._sessions[key]
        name = secrets.token_urlsafe(_ID_BYTES)
        self._sessions[_key(name)] = Session(token_sha256, now + self._lifetime_s)
        return name

    def find(self, scope: Scope) -> Session | None:
        """The session that a request names; None without one, or once it has ended."""
        session = self._sessions.get(_key(self.name(scope)))
        return session if session and session.ends_at > self._clock.monotonic() else None

    def end(self, scope: Scope) -> None:
        """End the session that a request names."""
        self._sessions.pop(_key(self.name(scope)), None)

    def name(self, scope: Scope) -> str:
        """Id of the session that a request names; empty without."""
        return _cookie(scope, self._cookie_name(scope, _SESSION))

    def login_secret(self, scope: Scope) -> str:
        """The secret that was given to a browser with its login form; empty without."""
        return _cookie(scope, self._cookie_name(scope, _LOGIN))

    def cookie(self, scope: Scope, name: str) -> str:
        """``Set-Cookie`` of a session; of an empty id: that forgets it."""
        return self._set(scope, _SESSION, name, self._lifetime_s)

    def login_cookie(self, scope: Scope, secret: str) -> str:
        """``Set-Cookie`` of a login form's secret; of an empty one: that forgets it."""
        return self._set(scope, _LOGIN, secret, LOGIN_S)

    def is_over_https(self, scope: Scope) -> bool:
        """True where the cookie may be sent over HTTPS only."""
        return self._is_secure or scope.get("scheme") == "https"

    def _set(self, scope: Scope, kind: str, value: str, seconds: float) -> str:
        age = int(seconds) if value else 0
        secure = "; Secure" if self.is_over_https(scope) else ""
        name = self._cookie_name(scope, kind)
        return f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"

    def _cookie_name(self, scope: Scope, kind: str) -> str:
        """Name of a cookie, with the port: browsers share cookies between the ports of a host."""
        port = header(scope, b"host").rpartition("]")[2].partition(":")[2]
        name = f"{kind}_{port}" if port.isdecimal() else kind
        return f"__Host-{name}" if self.is_over_https(scope) else name


def form_token(secret: str) -> str:
    """The token of forms for a browser that has a secret; it does not tell the secret."""
    return hmac.new(secret.encode(), b"ragmon form", hashlib.sha256).hexdigest() if secret else ""


def _key(name: str) -> bytes:
    return hashlib.sha256(name.encode("latin-1", "replace")).digest()


def _cookie(scope: Scope, name: str) -> str:
    for key, value in scope["headers"]:
        if key != b"cookie":
            continue
        for pair in value.decode("latin-1").split(";"):
            known, _, text = pair.strip().partition("=")
            if known == name:
                return str(text)
    return ""
