"""Network address of the server, or of the proxy that the environment names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Connection parameters of the server."""

    tls: bool
    host: str  # what is connected to: the server, or the proxy
    port: int
    prefix: str  # stands before the path; the whole URL when a proxy forwards plain HTTP
    tunnel: tuple[str, int] | None = None  # the server, behind a proxy that only carries bytes
    proxy_headers: Mapping[str, str] = MappingProxyType({})


def address(url: str, environment: Mapping[str, str]) -> Address:
    """Work out how to reach ``url``.

    Args:
        url: ``http://`` or ``https://``, with an optional port and path.
        environment: ``http_proxy``, ``https_proxy`` and ``no_proxy`` are honoured, in either case.

    Raises:
        ValueError: not such a URL.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415 - a tenth of the time that the import takes

    server = urlsplit(url.strip().rstrip("/"))
    if server.scheme not in _PORTS or not server.hostname:
        raise ValueError(f"expected http://host[:port] or https://…, got {url!r}")
    host, port, tls = _host(server), server.port or _PORTS[server.scheme], server.scheme == "https"
    proxy = _proxy(server, environment)
    if proxy is None:
        return Address(tls=tls, host=host, port=port, prefix=server.path)
    whole = f"http://{server.netloc.rpartition('@')[2]}{server.path}"
    return Address(
        tls=tls,
        host=_host(proxy),
        port=proxy.port or _PORTS["http"],
        prefix=server.path if tls else whole,
        tunnel=(host, port) if tls else None,
        proxy_headers=_proxy_headers(proxy),
    )


def _host(url: SplitResult) -> str:
    """The host as DNS knows it; raises ``ValueError`` (``UnicodeError``) for an impossible one."""
    host = url.hostname or ""
    return host if ":" in host else host.encode("idna").decode("ascii")


def _proxy(server: SplitResult, environment: Mapping[str, str]) -> SplitResult | None:
    known = {name.lower(): value for name, value in environment.items() if value}
    value = known.get(f"{server.scheme}_proxy")
    if not value:
        return None
    # Half of what importing the client would cost, and seldom needed.
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import proxy_bypass_environment  # type: ignore  # noqa: PGH003, PLC0415

    exempt = {"no": known.get("no_proxy", "")}
    if proxy_bypass_environment(server.netloc.rpartition("@")[2], exempt):
        return None
    return urlsplit(value if "://" in value else f"http://{value}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    from urllib.parse import unquote  # noqa: PLC0415

    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    import base64  # noqa: PLC0415

    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
