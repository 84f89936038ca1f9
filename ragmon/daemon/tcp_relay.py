"""A port of a standby whose connections go to the active ragmon, as bytes: OTLP over gRPC."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from ragmon.daemon.upstream import CONNECT_S
from ragmon.errors import SettingsError

_PIECE = 1 << 16
_IDLE_S = 300.0  # exporters send more often; one that does not connects again


class TcpRelay:
    """Listens until it is closed; for one event loop."""

    def __init__(self, target: Callable[[], str], most: int, *, idle_s: float = _IDLE_S) -> None:
        """Listen to nothing yet.

        Args:
            target: HOST:PORT of the active one at this moment; empty: nobody is.
            most: connections at a time; those beyond are closed at once.
            idle_s: seconds without a byte either way, after which a connection is closed.
        """
        self._target = target
        self._most = most
        self._idle_s = idle_s
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, address: str) -> str:
        """Begin; returns the address with the port that was chosen.

        Raises:
            SettingsError: it cannot listen there.
        """
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(
                self._accept, host.strip("[]"), int(port), limit=_PIECE
            )
        except OSError as error:
            raise SettingsError(
                f"otlp.grpc: cannot listen on {address}: {error.strerror or error}"
            ) from error
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End, with every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= self._most:
                await self._relay(reader, writer)
            writer.close()  # once what the active one said is written
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target().rpartition(":")
        if not host:
            return
        with contextlib.suppress(OSError):
            async with asyncio.timeout(CONNECT_S):
                there, back = await asyncio.open_connection(
                    host.strip("[]"), int(port), limit=_PIECE
                )
            pumps = [_Pump(reader, back), _Pump(there, writer)]
            ways = [asyncio.ensure_future(pump.run()) for pump in pumps]
            try:
                await self._end_of(ways, pumps)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                back.transport.abort()

    async def _end_of(self, ways: Sequence[asyncio.Future[None]], pumps: Sequence["_Pump"]) -> None:
        """Wait until one side ends, or both have been silent for too long."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._idle_s
        while due > loop.time():
            timeout = due - loop.time()
            done, _ = await asyncio.wait(ways, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            due = max(pump.moved_at for pump in pumps) + self._idle_s


class _Pump:
    """Bytes from one side to the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.moved_at = asyncio.get_running_loop().time()
        self._reader = reader
        self._writer = writer

    async def run(self) -> None:
        """Go on until a side ends."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while piece := await self._reader.read(_PIECE):
                self.moved_at = loop.time()
                self._writer.write(piece)
                await self._writer.drain()
