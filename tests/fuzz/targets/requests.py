"""Every GET with any path, parameters and headers, and the bodies of admin requests.

They go through the ASGI application of a daemon that holds queries, without sockets.
"""

import asyncio
import functools
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from ragmon.asgi import App
from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.sources import IngestOutcome, Submission
from tests.fuzz import json_text as text
from tests.fuzz.source import Source
from tests.fuzz.worlds import NOW
from tests.support.load import record

_PATHS = (
    "/", "/metrics", "/livez", "/readyz", "/v1/report", "/v1/queries", "/v1/queries/q-1",
    "/v1/alerts", "/v1/alerts/x", "/v1/notifications", "/v1/silences", "/v1/baselines",
    "/v1/baselines/x", "/v1/judge", "/openapi.json", "/v1/traces", "/nothing",
)  # fmt: skip
_BODIES = (
    ("POST", "/v1/silences"), ("DELETE", "/v1/silences/x"), ("PUT", "/v1/baselines/x"),
    ("POST", "/v1/baselines/x/promote"), ("DELETE", "/v1/baselines/x"), ("POST", "/v1/judge"),
)  # fmt: skip
_NAMES = (
    "window", "pipeline", "end", "failing", "since", "limit", "state", "version", "last", "x", "",
)  # fmt: skip
_VALUES = (
    "", "5m", "24h", "7d", "1h", "90d", "9999999999d", "1e9", "-1", "0", "1", "50", "1000", "1001",
    "nan", "inf", "-inf", "1e400", "zero_result", "zero_result,error", "unfaithful", "x,y", "open",
    "resolved", "all", "p0", "default", "0001-01-01T00:00:00", "9999-12-31T23:59:59Z",
    "253402300799",
    "253402300800", "1795000000", "2026-11-22T03:00:00+05:30", "2026-11-22T03:00:00-23:59",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "２", "\0", "é", "9" * 400, "1_000",
    "%00", "0x10", "+5m", " 5m", "5 m", "1.5h", "m", "2026-W47", "20261122T030000", "1e-400", "²",
)  # fmt: skip
_HEADERS = (
    (b"accept", b"application/openmetrics-text; version=1.0.0"), (b"accept", b"*/*;q=x"),
    (b"accept", b"\xff"), (b"origin", b"https://example.com"), (b"host", b"example.com"),
    (b"sec-fetch-site", b"cross-site"), (b"authorization", b"Bearer \xff"),
    (b"authorization", b"Basic x"), (b"content-type", b"application/json"),
    (b"content-encoding", b"gzip"), (b"content-encoding", b"x"),
)  # fmt: skip
_SILENCE = text.fields(
    {
        "matchers": text.listing(
            text.fields(
                {
                    "name": text.text,
                    "value": text.literal('"(a+)+$"', '".*"', '"("', '"x"', '"\\ud83d"'),
                    "regex": text.literal("true", "false"),
                }
            )
        ),
        "duration": text.literal('"1h"', '"366d"', '"-1h"', '"1e9d"', '"x"', "1"),
        "starts_at": text.number,
        "ends_at": text.number,
        "created_by": text.text,
        "comment": text.text,
        "from": text.text,
        "window": text.text,
        "run": text.value,
        "since": text.text,
        "limit": text.number,
        "dry_run": text.literal("true", "false"),
    }
)
WORDS = [each.encode("utf-8", "replace") for each in (*_NAMES, *_VALUES) if each]


def seeds() -> list[bytes]:
    """Choices of paths, parameters and headers."""
    paths = [bytes([0, at, 2, 0, 1, 5, 2]) for at in range(len(_PATHS))]
    return paths + [bytes((step * at + 2) % 256 for at in range(30))
                    for step in (3, 7, 29, 53, 101)]  # fmt: skip


def run(data: bytes) -> None:
    """No 500; a refusal is a problem with a detail, an answer in JSON is JSON."""
    source = Source(data)
    method, path, body = "GET", source.choose(_PATHS), b""
    if source.chance(48):
        method, path = source.choose(_BODIES)
        body = text.encoded(text.broken(source, _SILENCE(source)))
    if source.chance(32):
        path += "/" + quote(source.text(), safe="/%", errors="surrogateescape")
    parameters = source.several(4, lambda: f"{source.choose(_NAMES)}={_value(source)}")
    headers = [(b"host", b"localhost"), *source.several(2, lambda: source.choose(_HEADERS))]
    scope = {
        "type": "http", "method": method, "path": unquote(path),
        "query_string": "&".join(parameters).encode(),
        "raw_path": path.encode(), "headers": headers, "root_path": "",
        "scheme": "http", "http_version": "1.1", "server": ("localhost", 80), "client": ("x", 1),
    }  # fmt: skip
    status, sent_headers, answer = _world().exchange(scope, body)
    assert status < 500 or status == 503, (status, answer[:300])
    media = sent_headers.get(b"content-type", b"")
    if b"json" in media:
        content = msgspec.json.decode(answer)
        assert status < 400 or content["detail"], content


def _value(source: Source) -> str:
    if source.chance(64):
        return quote(source.text(), errors="surrogateescape")
    return quote(source.choose(_VALUES), safe="+%")


class _World:
    """A daemon with its writer, but without its server, and a loop that drives its routes."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp())
        flags = {"port": 0, "data_dir": str(folder), "judge.grounding.enabled": False,
                 "external_url": "", "log.level": "error"}  # fmt: skip
        # Its time stands still: /metrics waits five times as long as its last rendering took, and
        # what is answered must depend on nothing but the input.
        self._daemon = Daemon(load(None, flags, {}).settings, ManualClock(NOW))
        engine = self._daemon._engine
        engine.writer.start()
        self._daemon._access.audit.loop.start()  # an answer waits for its entry
        engine.thread.ask(engine.restore)
        self._fill()
        self._daemon._monitor.begin()
        app: Any = self._daemon._server.config.app
        self._app: App = app
        self._loop = asyncio.new_event_loop()

    def _fill(self) -> None:
        from ragmon.decode import Decoder
        from ragmon.event_time import Bounds
        from ragmon.records import QueryRecord

        decode, bounds = Decoder(QueryRecord), Bounds(0.0, 4 * NOW)
        rows = [decode(msgspec.json.encode(record(f"q-{at}")), NOW, bounds) for at in range(300)]
        done = threading.Event()

        def reply(outcome: IngestOutcome) -> None:
            assert outcome.accepted == len(rows)
            done.set()

        self._daemon._engine.writer.submit(Submission("http", 1, reply, records=rows))
        assert done.wait(20)

    def close(self) -> None:
        """Release what it holds."""
        self._daemon._access.audit.stop()
        self._daemon._engine.writer.stop(5.0)
        self._daemon._engine.store.close()
        self._daemon._socket.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def exchange(self, scope: dict[str, Any], body: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
        """One request and its answer."""
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        self._loop.run_until_complete(asyncio.wait_for(self._app(scope, receive, send), 20))
        answer = b"".join(each.get("body", b"") for each in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), answer


def close() -> None:
    """End the daemon."""
    if _world.cache_info().currsize:
        _world().close()
        _world.cache_clear()


@functools.cache
def _world() -> _World:
    return _World()
