"""A receiver of notifications on loopback: it notes what comes, and fails when told to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec


class Post(NamedTuple):
    """What came."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Reply(NamedTuple):
    """What goes back; ``hang`` answers nothing until the receiver ends."""

    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    body: bytes = b"ok"
    hang: bool = False


OK = Reply()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    accepted = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection has come."""
        self.accepted += 1
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """Who hung up has its reasons."""


class Receiver:
    """``answer`` may be replaced at any time; it is asked about every post."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.accepted: list[Post] = []
        self.answer: Callable[[Post], Reply] = lambda _: OK
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self.server = _Server(("127.0.0.1", 0), self._handler())
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"

    @property
    def connections(self) -> int:
        return self.server.accepted

    def reply(self, post: Post) -> Reply:
        with self._lock:
            self.posts.append(post)
            reply = self.answer(post)
            if 200 <= reply.status < 300 and not reply.hang:
                self.accepted.append(post)
            return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one write an answer
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the sender was killed in between
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = receiver.reply(Post(self.path, headers, body))
                if reply.hang:
                    receiver.ended.wait(30)
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            do_PUT = do_POST

            def do_GET(self) -> None:  # what a followed redirect would become
                receiver.reply(Post(self.path, {}, b"GET"))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, as long as the block runs."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ended.set()
        receiver.server.shutdown()
        thread.join(10)
        receiver.server.server_close()
