"""A fake ragmon server, for the tests of an application.

    with FakeServer() as server, Monitor(server.url) as monitor:
        application.ask("Who pays?", monitor)
        monitor.flush()
        assert server.records["queries"][0]["answer"] == "The council."

It keeps the records it receives, and answers as ragmon does.
"""

from __future__ import annotations

import gzip
import socket
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ragmon.client.batch import RecordKind

if TYPE_CHECKING:
    from typing_extensions import Self


class FakeReply(Struct, frozen=True, kw_only=True):
    """One answer other than the ordinary one."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    cut: int = 0  # bytes that the length promises and the body lacks
    after: threading.Event | None = None  # the answer is held back until this is set
    keeps: bool = False  # whether the records count as received all the same


class Received(Struct, frozen=True):
    """One request."""

    path: str
    headers: dict[str, str]
    records: list[dict[str, Any]]


class FakeServer:
    """Answers on a loopback port as ragmon does, except for the given replies.

    Args:
        replies: for the first requests, in order; every later one is accepted.
        port: to listen on; 0 takes a free one.
        limit: size of a body beyond which the answer is 413.
    """

    def __init__(self, *replies: FakeReply, port: int = 0, limit: int | None = None) -> None:
        self.replies = deque(replies)
        self.requests: list[Received] = []
        self.records: dict[str, list[dict[str, Any]]] = {kind.value: [] for kind in RecordKind}
        """Accepted records by endpoint: queries, feedback, labels; queries once each."""
        self.limit = limit
        self.connections = 0
        self._open: set[socket.socket] = set()
        self.arrived = threading.Semaphore(0)
        """Released once for each request, before it is answered."""
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """URL for a ``Monitor``."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close every connection, as a server does with those that are idle."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def connected(self, connection: socket.socket) -> None:
        """Note a new connection."""
        with self._lock:
            self.connections += 1
            self._open.add(connection)

    def answer(self, request: Received) -> FakeReply:
        """Take one request and choose the reply."""
        with self._lock:
            self.requests.append(request)
            reply = self.replies.popleft() if self.replies else None
            endpoint = request.path.rpartition("/")[2]
            if reply is None and endpoint not in self.records:
                return FakeReply(status=404)
            if reply is None or reply.keeps:
                receipt = self._keep(endpoint, request.records)
                reply = reply or FakeReply(body=msgspec.json.encode(receipt))
        self.arrived.release()
        return reply

    def _keep(self, endpoint: str, records: list[dict[str, Any]]) -> dict[str, Any]:
        fresh = [
            record
            for record in records
            if endpoint != RecordKind.QUERY.value or record["query_id"] not in self._known
        ]
        self._known.update(record["query_id"] for record in records)
        self.records[endpoint] += fresh
        return {"accepted": len(fresh), "duplicates": len(records) - len(fresh), "rejected": []}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Log nothing: a client that disconnects is expected in tests."""


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connected(self.connection)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if server.limit is not None and length > server.limit:
                self._reply(FakeReply(status=413))
                return
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            records = [msgspec.json.decode(line) for line in body.splitlines()]
            self._reply(server.answer(Received(self.path, dict(self.headers), records)))

        def _reply(self, reply: FakeReply) -> None:
            if reply.after is not None:
                reply.after.wait()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = self.close_connection or reply.cut > 0

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
