"""A RAG service on loopback: answers a question by what it was told, or fails."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Service(ThreadingHTTPServer):
    """``ranks`` says at which rank question n finds its document; None: never."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ranks: dict[int, int | None] = {}
        self.status = 200
        self.gate: threading.Event | None = None  # requests wait here when there is one
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/ask"

    def answer(self, query: str) -> dict[str, Any]:
        """What it says of ``question n``."""
        number = int(query.rpartition(" ")[2])
        ids = [f"x{at}" for at in range(5)]
        rank = self.ranks.get(number, 0)
        if rank is not None:
            ids.insert(rank, f"d{number}")
        text = "The interpreter releases the lock during input and output number"
        chunks = [{"id": each, "text": f"{text} {each}."} for each in ids]
        return {"answer": f"{text} d{number}.", "chunks": chunks, "citations": ids[:1]}


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["content-length"])))["query"]
        self.server.asked.append(query)
        if self.server.gate is not None:
            self.server.gate.wait(20)
        content = json.dumps(self.server.answer(query)).encode()
        with suppress(ConnectionError):  # who asked may be gone
            self.send_response(self.server.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def answering() -> Iterator[Service]:
    """A service of one's own."""
    service = Service()
    thread = threading.Thread(target=service.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        if service.gate is not None:
            service.gate.set()
        service.shutdown()
        thread.join()
        service.server_close()


def golden_lines(count: int) -> str:
    """A golden set for it, as JSON lines."""
    return "".join(
        json.dumps({"query": f"question {at}", "case_id": f"c{at}", "relevant_doc_ids": [f"d{at}"]})
        + "\n"
        for at in range(count)
    )
