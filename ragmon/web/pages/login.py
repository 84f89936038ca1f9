"""Sign-in of people: a form that takes a token, and the end of the session."""

import re
import secrets
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ragmon.access import TokenBucket, whole_seconds
from ragmon.asgi import Problem, header
from ragmon.clock import Clock
from ragmon.web.api import Page
from ragmon.web.auth import Authorizer
from ragmon.web.browsers import is_loopback
from ragmon.web.endpoint import Endpoint
from ragmon.web.page_endpoints import LOGIN, LOGIN_PAGE, LOGOUT
from ragmon.web.pages.rendering import HEADERS, Renderer
from ragmon.web.sessions import form_token

_TRIES_PER_S = 0.5  # of wrong tokens from one address, after a burst of five
_TRIES_OF_ALL_PER_S = 5.0
_MOST_ADDRESSES = 10_000
_SAFE_PATH = re.compile(r"/(?!/)[!-\[\]-~]{0,2000}")  # ASCII without spaces and backslashes


class LoginAttempts:
    """Limits of wrong tokens, by address and in total."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address: dict[str, TokenBucket] = {}
        self._all = TokenBucket(_TRIES_OF_ALL_PER_S, clock.monotonic)

    def check(self, address: str) -> None:
        """Look whether an address may try again.

        Raises:
            Problem: 429.
        """
        own = self._by_address.get(address)
        wait_s = max(self._all.wait_s(), own.wait_s() if own else 0.0)
        if wait_s:
            wait = whole_seconds(wait_s)
            detail = f"too many wrong tokens; try again in {wait} s"
            headers = {"retry-after": str(wait)}
            raise Problem(429, detail, reason="login_throttled", headers=headers)

    def failed(self, address: str) -> None:
        """Count a wrong token."""
        if address not in self._by_address:
            if len(self._by_address) >= _MOST_ADDRESSES:
                del self._by_address[next(iter(self._by_address))]
            self._by_address[address] = TokenBucket(_TRIES_PER_S, self._clock.monotonic)
        for bucket in (self._by_address[address], self._all):
            bucket.charge(1.0)


class LoginSection:
    """Endpoints of sign-in and sign-out."""

    def __init__(
        self,
        access: Authorizer,
        clock: Clock,
        renderer: Renderer,
        external_url: str,
        refused: Callable[[str], None],
    ) -> None:
        """Make it.

        Args:
            access: knows the tokens and the sessions.
            clock: of the daemon.
            renderer: of the form.
            external_url: where people reach ragmon, or empty.
            refused: called with the reason of every sign-in that is refused.
        """
        self._access = access
        self._attempts = LoginAttempts(clock)
        self._renderer = renderer
        self._external_url = external_url
        self._refused = refused

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(LOGIN_PAGE, self.form), Page(LOGIN, self.begin), Page(LOGOUT, self.end))

    async def form(self, request: Request) -> Response:
        """The form; whoever is signed in goes on at once."""
        following = safe_path(request.query_params.get("next", "/"))
        if not self._access.asks_for_tokens or self._access.is_signed_in(request.scope):
            return go(following)
        return self._form(request, following, repeat=_may_lack_cookie(request))

    async def begin(self, request: Request) -> Response:
        """A session for whoever has a token, or the form again."""
        fields = request.state.form
        following = safe_path(fields.get("next", "/"))
        address = request.client.host if request.client else ""
        try:
            self._check_encrypted(request)
            self._attempts.check(address)
            permit, name = self._access.sign_in(request.scope, fields.get("token", "").strip())
        except Problem as problem:
            if problem.status == 401:
                self._attempts.failed(address)
            self._refused(problem.reason)
            return self._form(request, following, problem)
        request.state.permit = permit  # for the audit log
        sessions = self._access.sessions
        answer = go(following)
        answer.headers.append("set-cookie", sessions.cookie(request.scope, name))
        answer.headers.append("set-cookie", sessions.login_cookie(request.scope, ""))
        return answer

    async def end(self, request: Request) -> Response:
        """The end of the session, here and in the browser."""
        sessions = self._access.sessions
        sessions.end(request.scope)
        answer = go("/login")
        answer.headers.append("set-cookie", sessions.cookie(request.scope, ""))
        answer.headers["clear-site-data"] = '"cache"'
        return answer

    def _form(
        self,
        request: Request,
        following: str,
        problem: Problem | None = None,
        *,
        repeat: bool = False,
    ) -> Response:
        sessions = self._access.sessions
        secret = sessions.login_secret(request.scope) or secrets.token_urlsafe()
        answer = self._renderer.page(
            "login.html",
            problem.status if problem else 200,
            following=following,
            problem=problem,
            login_token=form_token(secret),
            again=login_path(following, again=True) if repeat else "",
        )
        answer.headers.append("set-cookie", sessions.login_cookie(request.scope, secret))
        for name, value in (problem.headers if problem else {}).items():
            if name == "retry-after":
                answer.headers[name] = value
        return answer

    def _check_encrypted(self, request: Request) -> None:
        """Refuse what the browser would not keep: a cookie for HTTPS, over HTTP.

        Raises:
            Problem: 403.
        """
        origin = urlsplit(header(request.scope, b"origin"))
        if not self._access.sessions.is_over_https(request.scope) or origin.scheme != "http":
            return
        if not is_loopback(origin.hostname or ""):
            detail = f"sign in over HTTPS: {self._external_url}"
            raise Problem(403, detail, reason="login_unencrypted")


class ProblemPages:
    """Pages for people in place of a problem's JSON."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def answer(self, request: Request, problem: Problem) -> Response | None:
        """The form to sign in, or a page that says what is wrong; None for a program."""
        endpoint: Endpoint | None = getattr(request.state, "endpoint", None)
        accepts = "text/html" in request.headers.get("accept", "")
        if endpoint is None or not endpoint.is_page or not accepts:
            return None
        if problem.status == 401 and not request.headers.get("authorization"):
            return go(login_path(_path_of(request)))
        return self._renderer.page(
            "problem.html", problem.status, problem=problem.body(), back=page_before(request)
        )


def login_path(following: str, *, again: bool = False) -> str:
    """Path of the login form, which goes on to another path."""
    asked = {"next": following} if following != "/" else {}
    query = urlencode(asked | ({"again": "1"} if again else {}), safe="/:")
    return f"/login?{query}" if query else "/login"


def safe_path(text: str) -> str:
    """A path of ragmon's own to go on to; the overview for everything else."""
    if not _SAFE_PATH.fullmatch(text) or text.partition("?")[0] in ("/login", "/logout"):
        return "/"
    return text


def _path_of(request: Request) -> str:
    """The page that was asked for; of a form, the page that it stood on."""
    if request.method not in ("GET", "HEAD"):
        return page_before(request)
    path = quote(request.scope["path"], safe="/:@!$&'()*+,;=~%")
    query = request.scope["query_string"].decode("latin-1")
    return safe_path(f"{path}?{query}" if query else path)


def page_before(request: Request) -> str:
    """The page of ours that a request was sent from."""
    before = urlsplit(request.headers.get("referer", ""))
    if before.netloc != request.headers.get("host", ""):
        return "/"
    return safe_path(f"{before.path}?{before.query}" if before.query else before.path)


def _may_lack_cookie(request: Request) -> bool:
    """True where a link elsewhere may have led here: then browsers keep the cookie back, once."""
    if request.query_params.get("again"):
        return False
    return header(request.scope, b"sec-fetch-site") in ("", "cross-site", "same-site")


def go(path: str) -> RedirectResponse:
    """On to another page, which is asked for with GET."""
    return RedirectResponse(path, 303, headers=HEADERS)
