"""Export of ragmon's verdicts as OTLP, so that they show beside the trace in the user's tool.

Each verdict is a short EVALUATOR span in the trace of its query, with a link to the span it is
about: readable by those who follow OpenInference and by those who follow the GenAI conventions.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import requests
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from pydantic import BaseModel, Field, SecretStr

from ragmon.http_client import timed_session
from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.sources.otlp.conventions.genai import EVALUATION
from ragmon.sources.otlp.traces.feedback import OURS
from ragmon.sources.otlp.wire.json_values import unhex

_BATCH = 512
_TURN_S = 2.0
_MOST_WAITING = 10_000
_TIMEOUT_S = (5.0, 10.0)  # to connect, to answer
_RETRYABLE = frozenset({429, 502, 503, 504})
_MOST_RETRY_AFTER_S = 30.0
_LOOP = LoopOptions(is_vital=False)  # its endpoint is somebody else's


class ExportOptions(BaseModel, frozen=True, extra="forbid"):
    """``otlp_export:``."""

    endpoint: str = Field(pattern="^https?://")
    """URL that receives the traces, for example http://localhost:6006/v1/traces."""
    headers: dict[str, SecretStr] = {}
    """Headers of every request, for example {authorization: Bearer …}."""


class ExportedVerdict(NamedTuple):
    """One verdict."""

    query_id: str  # ``trace`` or ``trace:span``
    judge: str
    name: str  # what was judged, for example faithfulness
    score: float
    explanation: str
    timestamp: float  # unix seconds
    span_id: str = ""  # the top span of the query


def to_request(judged: Sequence[ExportedVerdict]) -> ExportTraceServiceRequest:
    """The export; queries that did not come by OTLP have no trace and are left out."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.append(_pair("service.name", OURS))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = OURS
    for verdict in judged:
        trace, _, span = verdict.query_id.partition(":")
        trace_id, about = unhex(trace, 16), unhex(span or verdict.span_id, 8)
        if trace_id is not None:
            _fill(scope_spans.spans.add(), verdict, trace_id, about)
    return request


def _fill(span: Any, judged: ExportedVerdict, trace_id: bytes, about: bytes | None) -> None:
    """Ids are hashes of the content: exported twice, it is the same span."""
    name = f"{judged.query_id}:{judged.judge}:{judged.name}:{judged.timestamp}"
    span.trace_id = trace_id
    span.span_id = hashlib.blake2b(name.encode(), digest_size=8).digest()
    span.name = f"ragmon {judged.name}"
    span.start_time_unix_nano = span.end_time_unix_nano = int(judged.timestamp * 1e9)
    if about is not None:
        span.parent_span_id = about
        span.links.add(trace_id=trace_id, span_id=about)
    annotation: dict[str, str | float] = {
        "name": judged.name,
        "score": judged.score,
        "explanation": judged.explanation,
        "annotator_kind": "LLM" if judged.judge == "llm" else "CODE",
        "identifier": judged.judge,
    }
    span.attributes.append(_pair("openinference.span.kind", "EVALUATOR"))
    for key, value in annotation.items():
        span.attributes.append(_pair(f"trace.annotations.0.annotation.{key}", value))
    event = span.events.add(name=EVALUATION, time_unix_nano=span.end_time_unix_nano)
    for key, value in (
        ("name", judged.name),
        ("score.value", judged.score),
        ("explanation", judged.explanation),
    ):
        event.attributes.append(_pair(f"gen_ai.evaluation.{key}", value))


def _pair(key: str, value: str | float) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    return KeyValue(key=key, value=AnyValue(double_value=value))


class Exporter(LoopOwner):
    """A bounded queue and the thread that empties it; what does not fit is dropped and counted."""

    def __init__(self, options: ExportOptions) -> None:
        self.dropped = 0
        self.sent = 0
        self._endpoint = options.endpoint
        self._session = timed_session()
        self._session.headers["content-type"] = "application/x-protobuf"
        for name, value in options.headers.items():
            self._session.headers[name] = value.get_secret_value()
        self._waiting: deque[ExportedVerdict] = deque()
        self._log = structlog.get_logger("otlp_export")
        self.loop = Loop("otlp-export", self.step, self._log, options=_LOOP)

    def stop(self) -> None:
        """Send what waits once more, then end."""
        self.loop.stop()
        self.step()

    def submit(self, judged: ExportedVerdict) -> None:
        """Queue a verdict; from any thread."""
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
        else:
            self._waiting.append(judged)

    def step(self) -> float:
        """Send one batch; returns the seconds to wait before the next."""
        batch = [self._waiting[at] for at in range(min(_BATCH, len(self._waiting)))]
        if not batch:
            return _TURN_S
        request = to_request(batch)
        spans = len(request.resource_spans[0].scope_spans[0].spans)
        if not spans:
            return self._done(batch)
        try:
            with self._session.post(
                self._endpoint,
                data=request.SerializeToString(),
                timeout=_TIMEOUT_S,
                allow_redirects=False,  # would turn into GET, and take the headers elsewhere
                stream=True,  # the body of the answer is not read
            ) as answer:
                status, asked = answer.status_code, answer.headers.get("retry-after", "")
        except requests.RequestException as error:
            self._log.warning("verdict_export_failed", error=type(error).__name__)
            return _TURN_S
        if status in _RETRYABLE:
            return min(float(asked), _MOST_RETRY_AFTER_S) if asked.isdecimal() else _TURN_S
        if 200 <= status < 300:
            self.sent += spans
        else:
            self.dropped += spans
            self._log.warning("export_refused", status=status)
        return self._done(batch)

    def _done(self, batch: Sequence[ExportedVerdict]) -> float:
        for _ in batch:
            self._waiting.popleft()
        return 0.0 if self._waiting else _TURN_S
