"""Addresses at which a standby finds the active ragmon, as the lease of the store holds them."""

import ipaddress
import socket
from urllib.parse import urlsplit

from msgspec import Struct

from ragmon.config import Settings

_HTTP, _GRPC = ("http://", "https://"), "grpc://"
_MOST = 600  # characters, of what another process wrote


class Addresses(Struct, frozen=True):
    """Of one process; empty where it has none."""

    url: str = ""
    grpc: str = ""  # HOST:PORT

    def as_text(self) -> str:
        """As the lease holds them."""
        return " ".join(filter(None, [self.url, self.grpc and _GRPC + self.grpc]))


def read_addresses(text: str) -> Addresses:
    """Addresses that another process wrote; empty where they are none."""
    words = text.split() if len(text) <= _MOST else []
    url = next((word for word in words if word.startswith(_HTTP) and urlsplit(word).hostname), "")
    grpc = next((word for word in words if word.startswith(_GRPC)), "")
    return Addresses(url, grpc.removeprefix(_GRPC))


def own_addresses(settings: Settings, url: str, grpc_port: int | None) -> Addresses:
    """Addresses for other machines to reach this process at.

    Args:
        settings: of the daemon.
        url: at which it listens.
        grpc_port: on which it listens for OTLP over gRPC; None: nowhere.
    """
    place = urlsplit(url)
    host = _bracketed(settings.replica.address or _reachable(place.hostname or ""))
    grpc = ""
    if grpc_port is not None:
        named = _reachable(settings.otlp.grpc.rpartition(":")[0].strip("[]"))
        grpc_host = _bracketed(settings.replica.address or named)
        grpc = f"{grpc_host}:{grpc_port}"
    return Addresses(f"{place.scheme}://{host}:{place.port}", grpc)


def _reachable(host: str) -> str:
    """A host to connect to, for one to listen on."""
    try:
        is_any = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_any = not host
    return socket.gethostname() if is_any else host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
