"""Guard against requests that a browser sends on behalf of a foreign web page.

A page of any site can make a visitor's browser send requests to ``http://127.0.0.1:8321``, and by
DNS rebinding can read the answers under a name of its own. Browsers say where a request comes from
(``Origin``, ``Sec-Fetch-Site``) and which name they asked for (``Host``); both are looked at before
any route. Programs send neither ``Origin`` nor ``Sec-Fetch-Site`` and are not affected.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from ragmon.asgi import Problem, Scope

_FOREIGN_SITES = (b"cross-site", b"same-site")  # the same site has other ports and names, too
_PROBES = ("/livez", "/readyz")  # say nothing, and are asked by any name


class BrowserGuard:
    """Refuses what a foreign page makes a browser send."""

    def __init__(self, external_url: str, names: Iterable[str] | None) -> None:
        """Make a guard.

        Args:
            external_url: where people reach ragmon, or empty; its pages are no foreign ones.
            names: host names that may be asked for beside loopback's; None admits any, for a
                ragmon that asks for tokens or was told to accept everybody.
        """
        external = urlsplit(external_url)
        self._own_origin = f"{external.scheme}://{external.netloc}".lower() if external_url else ""
        self._names: set[str] | None = None
        if names is not None:
            self._names = {*map(str.lower, names), *filter(None, [external.hostname])}

    def check(self, scope: Scope) -> None:
        """Look at the headers of one request.

        Raises:
            Problem: 403, from a foreign page or for a foreign name.
        """
        host = origin = site = mode = b""
        for key, value in scope["headers"]:
            if key == b"host":
                host = value
            elif key == b"origin":
                origin = value
            elif key == b"sec-fetch-site":
                site = value
            elif key == b"sec-fetch-mode":
                mode = value
        if origin and not self._is_own(origin, host):
            raise _foreign_page(origin)
        if site in _FOREIGN_SITES and not _is_followed_link(scope, mode):
            raise _foreign_page(site)
        if self._names is not None and scope["path"] not in _PROBES:
            self._check_name(host.decode("latin-1"))

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        text = origin.decode("latin-1").lower()
        own = text.partition("://")[2] == host.decode("latin-1").lower()
        return own or text == self._own_origin

    def _check_name(self, host: str) -> None:
        name = _name_of(host)
        assert self._names is not None
        if name in self._names or name.endswith(".localhost") or is_loopback(name):
            return
        raise Problem(
            403,
            f"Host {host[:200]!r} is not a loopback name; without tokens only those are answered: "
            "configure auth.tokens, or set external_url to the name that people use",
            reason="foreign_host",
        )


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback(name: str) -> bool:
    """True for a host name or address that only this machine reaches."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_followed_link(scope: Scope, mode: bytes) -> bool:
    """A person who follows a link from a chat or a dashboard only reads."""
    return mode == b"navigate" and scope["method"] in ("GET", "HEAD")


def _foreign_page(origin: bytes) -> Problem:
    return Problem(
        403,
        f"sent by a page of another site ({origin[:200].decode('latin-1')}); "
        "set external_url if it is ragmon's own address behind a proxy",
        reason="foreign_page",
    )
