"""The OTLP source over a real store, its thread driven by hand; spans to send to it."""

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ragmon.access import ANONYMOUS
from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.build import build_engine
from ragmon.daemon.ingest.engine import Engine
from ragmon.queries import describe
from ragmon.records import QueryRecord
from ragmon.sources.otlp.receiver.assembly import TraceTimeouts
from ragmon.sources.otlp.receiver.batch import MappingOptions
from ragmon.sources.otlp.receiver.source import Options, OtlpSource
from ragmon.sources.otlp.spans import Resource, Span
from tests.support.limits import body_limits

CAPTURES = Path(__file__).parent.parent / "data" / "otlp"
FOLDERS = sorted(each.parent.name for each in CAPTURES.glob("*/expected.json"))
NOW = 1_795_300_000.0  # after the last capture was made

_LIMITS = body_limits()


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class CountedOutcomes:
    """Counts, by (source, reason)."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}

    def accepted(self, source: str, count: int) -> None:
        self._add(source, "accepted", count)

    def duplicated(self, source: str, count: int) -> None:
        self._add(source, "duplicate", count)

    def unmapped(self, source, field, count):
        """Counted nowhere."""

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self._add(source, reason, count)

    def note_refusal(self, source, reason, at, text):
        """Kept nowhere."""

    def _add(self, source: str, what: str, count: int) -> None:
        if count:
            self.counts[source, what] = self.counts.get((source, what), 0) + count


class Rig:
    """Requests in, stored queries out."""

    def __init__(
        self, engine: Engine, clock: ManualClock, authorize: Any = None, redact: Any = None
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.counters = CountedOutcomes()
        self.source = OtlpSource(
            Options(
                limits=_LIMITS,
                records=10_000,
                mapping=MappingOptions(
                    retention_s=7 * 86_400.0,
                    max_skew_s=300.0,
                    timeout_s=10.0,
                    newest=lambda: engine.windows.watermark,
                ),
                timeouts=TraceTimeouts(),
                redact=redact,
            ),
            sink=engine.writer,
            counters=self.counters,
            authorize=authorize or (lambda scope, needed: ANONYMOUS),
            clock=clock,
            spans=engine.thread.bind(engine.shard.spans()),
        )
        self.source.worker.restore()

    def send(
        self,
        body: bytes,
        path: str = "/v1/traces",
        *,
        method: str = "POST",
        chunks: int = 1,
        query: bytes = b"",
        **headers: str,
    ) -> Answer:
        """One request; header names with underscores."""
        named = {"content_type": "application/x-protobuf", **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in named.items()
            ],
        }
        return asyncio.run(exchange(self.source, scope, _split(body, chunks)))

    def wait(self, seconds: float = 61.0) -> None:
        """Let time pass, and complete what is complete then."""
        self.source.worker.step()
        self.clock.sleep(seconds)
        assert self.source.worker.step()

    def query(self, query_id: str) -> dict[str, Any] | None:
        """A stored query, as the API shows it."""
        shard = self.engine.shard
        sequence = self.engine.thread.submit(lambda: shard.find(shard.hash(query_id))).result()
        if sequence is None:
            return None
        with self.engine.store.reader() as reader:
            stored = reader.record(sequence)
        if stored is None:
            return None
        detail: dict[str, Any] = msgspec.to_builtins(describe([stored], self.engine.pipeline)[0])
        return detail

    def record(self, query_id: str) -> QueryRecord | None:
        """A stored query, as a record."""
        described = self.query(query_id)
        return None if described is None else msgspec.convert(described["record"], QueryRecord)

    def stored(self) -> int:
        """How many queries there are."""
        return self.engine.thread.submit(lambda: self.engine.shard.next_sequence).result()

    def pending(self) -> int:
        """How many traces wait in the store."""
        return len(self.engine.thread.submit(self.engine.shard.spans().pending).result())


@contextmanager
def rig(
    directory: Path, authorize: Any = None, redact: Any = None, now: float = NOW
) -> Iterator[Rig]:
    """An engine and the source in front of it."""
    clock = ManualClock(now)
    directory.mkdir(parents=True, exist_ok=True)
    engine = build_engine(load(None, {"data_dir": str(directory)}).settings, clock)
    engine.writer.start()
    engine.thread.ask(engine.restore)
    try:
        yield Rig(engine, clock, authorize, redact)
    finally:
        engine.writer.stop(5.0)
        engine.store.close()


class Captured(NamedTuple):
    """One request as an exporter sent it."""

    body: bytes
    content_type: str
    content_encoding: str | None
    path: str = "/v1/traces"

    @property
    def plain(self) -> bytes:
        """Without compression."""
        return gzip.decompress(self.body) if self.content_encoding else self.body


def captured(folder: str) -> list[Captured]:
    """The requests of a capture, in the order of their arrival."""
    lines = (CAPTURES / folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        Captured(
            (CAPTURES / folder / row["file"]).read_bytes(),
            row["content_type"],
            row["content_encoding"],
            row["path"],
        )
        for row in rows
    ]


def truth(folder: str) -> dict[str, Any]:
    """What truly happened."""
    text = (CAPTURES / folder / "expected.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def replay(to: Rig, requests: Sequence[Captured]) -> None:
    """Send captured requests; all must be taken."""
    for each in requests:
        headers = {"content_type": each.content_type}
        if each.content_encoding:
            headers["content_encoding"] = each.content_encoding
        assert to.send(each.body, each.path, **headers).status == 200


TRACE = bytes(range(1, 17))


def span(
    number: int,
    parent: int = 0,
    attributes: dict[str, Any] | None = None,
    **given: Any,
) -> Span:
    """A span of the one trace; it starts at ``number`` ms and lasts 10 ms unless told."""
    start = int(NOW * 1e9) + number * 1_000_000
    fields: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": number.to_bytes(8, "big"),
        "parent_id": parent.to_bytes(8, "big") if parent else b"",
        "name": f"span {number}",
        "start_ns": start,
        "end_ns": start + 10_000_000,
        "attributes": attributes or {},
        "resource": Resource("shop", "1.2", "prod"),
    }
    return Span(**(fields | given))


def as_json(*spans: Span) -> bytes:
    """An OTLP/JSON request with these spans."""
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [_json_span(each) for each in spans]}]}]}
    ).encode()


def _json_span(each: Span) -> dict[str, Any]:
    return {
        "traceId": each.trace_id.hex(),
        "spanId": each.span_id.hex(),
        "parentSpanId": each.parent_id.hex(),
        "name": each.name,
        "startTimeUnixNano": str(each.start_ns),
        "endTimeUnixNano": str(each.end_ns),
        "status": {"code": each.status},
        "attributes": [{"key": k, "value": _json_value(v)} for k, v in each.attributes.items()],
        "links": [
            {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()} for link in each.links
        ],
    }


def _json_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_json_value(each) for each in value]}}
    return {"stringValue": str(value)}


def _split(body: bytes, chunks: int) -> list[bytes]:
    size = max(1, -(-len(body) // chunks))
    return [body[at : at + size] for at in range(0, len(body), size)] or [b""]


async def exchange(app: Any, scope: dict[str, Any], parts: list[bytes]) -> Answer:
    """One request to an ASGI application, and what came back."""
    sent: list[dict[str, Any]] = []
    waiting = list(parts)

    async def receive() -> dict[str, Any]:
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, sent[1]["body"])
