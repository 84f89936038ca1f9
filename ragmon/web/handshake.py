"""TLS of connections that count within the limit from their first packet.

A server that is given the context itself shows a connection to its protocol once the handshake is
done: those that never begin one would take memory and descriptors beside every limit.
"""

import asyncio
import ssl
from typing import Any, cast

from ragmon.asgi import BodyLimits
from ragmon.web.protocol import SPARE, SPARE_S, BoundedProtocol

_LONGEST_S = 10.0  # until a handshake begins, and until it ends, however long requests may take


class HandshakeProtocol(asyncio.Protocol):
    """One connection until its handshake is done, and another protocol takes it over.

    What TLS needs, some 50 kB, is made when the first bytes are there.
    """

    context: ssl.SSLContext
    following: type[BoundedProtocol]

    def __init__(self, **arguments: Any) -> None:
        """Make it.

        Args:
            arguments: what the server gives a connection, for the protocol that follows.
        """
        self._arguments = arguments
        self._connections: set[Any] = arguments["server_state"].connections
        self._limits: BodyLimits = self.following.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []  # for TLS; at the end of the handshake for what follows
        self._handshake: asyncio.Task[None] | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._seconds = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a handshake is due."""
        self._transport = transport
        too_many = len(self._connections) + 1 - self._limits.connections
        if too_many > SPARE:
            self.following.refused("connections")
            transport.abort()  # nothing can be told before a handshake
            return
        self._connections.add(self)
        longest_s = _LONGEST_S if too_many <= 0 else SPARE_S
        self._seconds = min(self._limits.read_timeout_s, longest_s)
        self._timeout = self._loop.call_later(self._seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Begin the handshake, or keep what came with its end."""
        self._received.append(data)
        if self._handshake is None and self._transport is not None:
            self._stop_timeout()
            self._handshake = self._loop.create_task(self._shake(self._transport))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End before the handshake."""
        self._stop_timeout()
        self._connections.discard(self)

    def shutdown(self) -> None:
        """End, as the server ends."""
        if self._transport is not None:
            self._transport.abort()

    async def _shake(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            return
        try:
            self._loop.call_soon(self._pass_on, transport)  # runs before TLS begins to look
            secure = await self._loop.start_tls(
                transport,
                self,
                self.context,
                server_side=True,
                ssl_handshake_timeout=self._seconds,
            )
        except ConnectionResetError:
            return  # the client went away
        except OSError:
            self.following.refused("tls_handshake")
            return
        finally:
            self._connections.discard(self)
        if secure is not None and not secure.is_closing():
            self._hand_over(secure)

    def _pass_on(self, transport: asyncio.Transport) -> None:
        """Give TLS what came before it was there."""
        tls = cast("asyncio.BufferedProtocol", transport.get_protocol())
        data = b"".join(self._received)
        self._received.clear()
        while data:
            part = memoryview(tls.get_buffer(len(data)))[: len(data)]
            part[:] = data[: len(part)]
            tls.buffer_updated(len(part))
            data = data[len(part) :]

    def _hand_over(self, secure: asyncio.Transport) -> None:
        protocol = self.following(**self._arguments)
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._received:
            protocol.data_received(b"".join(self._received))

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None


def after_handshake(
    context: ssl.SSLContext, following: type[BoundedProtocol]
) -> type[HandshakeProtocol]:
    """The protocol class for ``uvicorn.Config(http=…)`` of a server that speaks TLS.

    Args:
        context: of the server.
        following: protocol of connections whose handshake is done; its limits hold before, too.
    """
    settled = {"context": context, "following": following}
    return type("SettledHandshake", (HandshakeProtocol,), settled)
