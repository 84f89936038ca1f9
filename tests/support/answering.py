"""A server on loopback that answers every request as a function says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str  # with the query
    body: bytes


class Answered(NamedTuple):
    """Its answer."""

    status: int = 200
    body: bytes = b"{}"


class AnsweringServer:
    """``answer`` may be replaced at any time."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.date = ""  # header; empty: the real one
        self.answer: Callable[[Asked], Answered] = lambda _: Answered()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("content-length", 0))
                asked = Asked(self.command, self.path, self.rfile.read(length))
                owner.asked.append(asked)
                status, body = owner.answer(asked)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_DELETE = do_GET

            def date_time_string(self, timestamp: float | None = None) -> str:
                return owner.date or super().date_time_string(timestamp)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


@contextmanager
def answering() -> Iterator[AnsweringServer]:
    """One that serves until the block ends."""
    served = AnsweringServer()
    thread = threading.Thread(target=served.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        thread.join()
        served.server.server_close()
