"""One kept-open connection to the server."""

from __future__ import annotations

import gzip
import http.client
import os
import socket
import ssl
from contextlib import suppress
from typing import Protocol

from ragmon.client.address import Address
from ragmon.client.limits import VERSION
from ragmon.client.options import Options
from ragmon.client.responses import ServerResponse

_MAX_ANSWER = 1 << 20
_GZIP_LEVEL = 1
_STALE = (ConnectionResetError, BrokenPipeError)
"""Of a connection that the server had closed, or closes while we send."""


class Transport(Protocol):
    """Carries one request at a time."""

    def post(self, path: str, body: bytes, timeout_s: float | None = None) -> ServerResponse:
        """Send, and return the response; network errors are part of it and never raised."""
        ...

    def abort(self) -> None:
        """Make a request under way in another thread fail at once, and every later one."""

    def close(self) -> None:
        """Close the connection."""

    def forget(self) -> None:
        """After a fork, in the child: the connection is the parent's."""


class HttpTransport:
    """HTTP/1.1 over one connection; a redirect is not followed, as it would take the token along.

    Args:
        address: of the server.
        token: the bearer token; ``None`` for a server without authentication.
        options: the timeouts and ``gzip_over_bytes``.

    Raises:
        ValueError: the token cannot stand in a header.
    """

    def __init__(self, address: Address, token: str | None, options: Options) -> None:
        self._address = address
        self._options = options
        self._connection: http.client.HTTPConnection | None = None
        self._aborted = False
        self._headers = {
            "Content-Type": "application/x-ndjson",
            "User-Agent": f"ragmon-client/{VERSION}",
        }
        if token and token.strip():
            self._headers["Authorization"] = f"Bearer {_printable(token.strip())}"
        if address.tunnel is None:
            self._headers |= address.proxy_headers

    def post(self, path: str, body: bytes, timeout_s: float | None = None) -> ServerResponse:
        """Send one body.

        A connection that the server closed while it was idle is replaced at once, without
        waiting: the server counts a record once however often it arrives.

        Args:
            path: below the server's URL.
            body: NDJSON.
            timeout_s: for connecting and for each read, where shorter than the options say.
        """
        while not self._aborted:
            reused = self._connection is not None
            try:
                return self._exchange(path, body, timeout_s)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not (reused and isinstance(error, _STALE)):
                    return ServerResponse(error=f"{type(error).__name__}: {error}")
        return ServerResponse(error="aborted")

    def abort(self) -> None:
        """Shut the socket down, which wakes a thread blocked in reading it."""
        self._aborted = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):  # It was closed in between, which is as good.
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forget(self) -> None:
        """Close our copy of the parent's socket.

        Its file object is left alone: a thread that the child does not have may hold its lock.
        """
        connection, self._connection = self._connection, None
        if connection is not None and connection.sock is not None:
            fd = connection.sock.detach()
            if fd >= 0:
                os.close(fd)

    def _exchange(self, path: str, body: bytes, timeout_s: float | None) -> ServerResponse:
        headers = self._headers
        if self._options.gzip_over_bytes is not None and len(body) > self._options.gzip_over_bytes:
            body = gzip.compress(body, _GZIP_LEVEL)
            headers = {**headers, "Content-Encoding": "gzip"}
        connection = self._connected(timeout_s)
        with suppress(*_STALE):  # A server may refuse a body (413) before it has read it.
            connection.request("POST", self._address.prefix + path, body, headers)
        response = connection.getresponse()
        payload = response.read(_MAX_ANSWER)
        if response.length:  # read(n) does not tell a body cut short from a whole one.
            raise http.client.IncompleteRead(payload, response.length)
        if response.will_close or not response.isclosed():
            self.close()
        retry_after = response.getheader("Retry-After")
        return ServerResponse(status=response.status, body=payload, retry_after=retry_after)

    def _connected(self, timeout_s: float | None) -> http.client.HTTPConnection:
        """The connection, opened if need be, with the timeout for reading set."""
        options, limit = self._options, float("inf") if timeout_s is None else timeout_s
        if self._connection is None:
            self._connection = self._unconnected(min(options.connect_timeout_s, limit))
            self._connection.connect()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(min(options.read_timeout_s, limit))
        return self._connection

    def _trusted(self) -> ssl.SSLContext:
        """The certificates to trust; read anew for each connection, as they are renewed."""
        return ssl.create_default_context(cafile=self._options.ca_file)

    def _unconnected(self, timeout_s: float) -> http.client.HTTPConnection:
        address = self._address
        connection = (
            http.client.HTTPSConnection(
                address.host, address.port, timeout=timeout_s, context=self._trusted()
            )
            if address.tls
            else http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
        )
        if address.tunnel is not None:
            connection.set_tunnel(*address.tunnel, headers=address.proxy_headers)
        return connection


def _printable(token: str) -> str:
    if not (token.isascii() and token.isprintable()):
        raise ValueError("the token must be printable ASCII")
    return token
