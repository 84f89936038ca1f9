"""Asking a daemon, politely and otherwise."""

import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import requests

from tests.support import metrics

NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"


class Answer(NamedTuple):
    status: int
    headers: requests.structures.CaseInsensitiveDict[str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Site:
    """A daemon by its URL."""

    timeout_s = 30.0

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._token = token

    def with_token(self, token: str) -> "Site":
        return Site(self.url, token)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        got = requests.request(
            method,
            self.url + path,
            data=body,
            headers=sent | (headers or {}),
            timeout=self.timeout_s,
        )
        return Answer(got.status_code, got.headers, got.content)

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """Send bytes as they are, a list as NDJSON, and anything else as JSON.

        Header names are written with underscores.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, list):
            named.setdefault("content-type", NDJSON)
            body = msgspec.json.Encoder().encode_lines(body)
        elif not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        return self.request("POST", path, body, named)

    def page(self, **headers: str) -> str:
        """The text of /metrics."""
        answer = self.get("/metrics", **headers)
        assert answer.status == 200, answer
        return answer.text

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples with these labels."""
        return metrics.total(self.page(), name, **labels)

    def wire(self, timeout_s: float = 10.0) -> socket.socket:
        """A bare connection."""
        parts = urlsplit(self.url)
        return socket.create_connection((parts.hostname, parts.port), timeout=timeout_s)

    def raw(self, *pieces: bytes, timeout_s: float = 10.0) -> bytes:
        """Send pieces as they are; returns everything until the server closes."""
        with self.wire(timeout_s) as wire:
            for piece in pieces:
                wire.sendall(piece)
            return everything(wire)


def everything(wire: socket.socket) -> bytes:
    """What the other side sends until it closes."""
    got = b""
    while True:
        try:
            part = wire.recv(65_536)
        except ConnectionResetError:
            return got
        if not part:
            return got
        got += part
