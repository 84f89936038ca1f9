"""Observations and scores of a Langfuse project by its public API, each once.

Its newest endpoints are asked first (observations v2, scores v3); a server that does not have them
is asked by those that it has. An observation becomes the span that Langfuse's SDK would send.
"""

import base64
import uuid
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct
from pydantic import Field, SecretStr, model_validator

from ragmon.errors import RemoteError
from ragmon.http_client import Url, check_secret, check_secrets, secret
from ragmon.sources import SourceContext
from ragmon.sources.tracing_tools.client import Parameters, ToolClient
from ragmon.sources.tracing_tools.options import ToolOptions
from ragmon.sources.tracing_tools.source import ScorePage, SpanPage, ToolSource
from ragmon.sources.tracing_tools.spans_json import (
    grouped,
    iso_time,
    otlp_time,
    pairs,
    readable,
)
from ragmon.sources.tracing_tools.sweeps import Window

_OBSERVATIONS = ("/api/public/v2/observations", "/api/public/observations")
_SCORES = ("/api/public/v3/scores", "/api/public/v2/scores")
_FIELDS = "core,basic,time,io,metadata,model,usage,trace_context"
_SCORE_FIELDS = "details,subject"
_WHOLE = "attributes,resourceAttributes,scope"  # of metadata; other values end after 200 characters
_MOST_SCORES = 100
_MOST_OLD = 100  # of the older endpoints
_NOT_FOUND = 404
_TRACE_ID, _SPAN_ID = 32, 16  # hexadecimal digits
_ERROR = 2
_UNNAMED = "unknown_service"  # what SDKs call a service without a name


class Options(ToolOptions):
    """``sources: [{kind: langfuse, name: support, public_key: pk-lf-…, secret_key_file: …}]``."""

    url: Url = "https://cloud.langfuse.com"
    """URL of Langfuse; in the USA https://us.cloud.langfuse.com."""
    public_key: str = Field(min_length=1)
    """Public key of the project, pk-lf-…"""
    secret_key: SecretStr | None = None
    """Secret key of the project. A secret: prefer secret_key_file or secret_key_env."""
    secret_key_file: Path | None = None
    """File that holds the secret key; it is read again before each request."""
    secret_key_env: str | None = None
    """Environment variable that holds the secret key."""

    @model_validator(mode="after")
    def _one_key(self) -> "Options":
        check_secret(self, "secret_key", required=True)
        return self


def build(options: Options, context: SourceContext) -> ToolSource:
    """A source that reads one project."""
    check_secrets(options)

    def authorization() -> str:
        keys = f"{options.public_key}:{secret(options, 'secret_key')}"
        return "Basic " + base64.b64encode(keys.encode()).decode()

    client = ToolClient(options, options.url, context.clock, authorization)
    return ToolSource("langfuse", options, context, client, Langfuse(client, options.pipeline))


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class _Meta(Struct, frozen=True):
    cursor: str | None = None
    page: int = 0
    total_pages: int = msgspec.field(default=0, name="totalPages")


class _LangfusePage(Struct):
    data: list[Raw]
    meta: _Meta = _Meta()


class Langfuse:
    """The API of one project."""

    def __init__(self, client: ToolClient, pipeline: str) -> None:
        self._client = client
        self._pipeline = pipeline

    def spans(self, window: Window, cursor: str, most: int) -> SpanPage:
        """A page of the observations that began in a window."""
        bounds: Parameters = {
            "fromStartTime": iso_time(window.start),
            "toStartTime": iso_time(window.end),
        }
        newest: Parameters = {**bounds, "fields": _FIELDS, "expandMetadata": _WHOLE, "limit": most}
        older: Parameters = {**bounds, "limit": min(most, _MOST_OLD)}
        page, next_cursor = self._page(_OBSERVATIONS, (newest, older), cursor)
        return SpanPage(page.data, self._encoded, next_cursor)

    def _encoded(self, observations: Sequence[Raw]) -> bytes:
        decoded = [_decode_object(observation) for observation in observations]
        return grouped(
            [span_of(entry, self._pipeline) for entry in decoded if entry.get("traceId")]
        )

    def scores(self, window: Window, cursor: str, most: int) -> ScorePage:
        """A page of the scores of a window."""
        bounds: Parameters = {
            "fromTimestamp": iso_time(window.start),
            "toTimestamp": iso_time(window.end),
            "limit": min(most, _MOST_SCORES),
        }
        newest: Parameters = {**bounds, "fields": _SCORE_FIELDS}
        page, next_cursor = self._page(_SCORES, (newest, bounds), cursor)
        scores, odd = readable(page.data, lambda score: score_of(_decode_object(score)))
        return ScorePage(scores, next_cursor, odd)

    def _page(
        self, paths: tuple[str, str], parameters: tuple[Parameters, Parameters], cursor: str
    ) -> tuple[_LangfusePage, str]:
        """A page and the cursor of the next, which tells the endpoints apart."""
        if not cursor.startswith("page:"):
            try:
                after = {"cursor": cursor} if cursor else {}
                page: _LangfusePage = self._client.get(
                    paths[0], {**parameters[0], **after}, _LangfusePage
                )
            except RemoteError as error:
                if error.status != _NOT_FOUND or cursor:
                    raise
            else:
                return page, page.meta.cursor or ""
        number = int(cursor.removeprefix("page:") or 1)
        page = self._client.get(paths[1], {**parameters[1], "page": number}, _LangfusePage)
        is_last = number >= page.meta.total_pages or not page.data
        return page, "" if is_last else f"page:{number + 1}"


def span_of(observation: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """An observation as a span of OTLP in JSON, with its resource and scope.

    Args:
        observation: as the API answers it.
        pipeline: the service, where the observation does not name one.
    """
    metadata = observation.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    attributes = _object(metadata.pop("attributes", None))
    resource = _object(metadata.pop("resourceAttributes", None))
    scope = _object(metadata.pop("scope", None))
    if pipeline and str(resource.get("service.name") or _UNNAMED).startswith(_UNNAMED):
        resource["service.name"] = pipeline
    is_root = bool(observation.get("isRootObservation"))
    parent = None if is_root else observation.get("parentObservationId")
    start = observation.get("startTime") or ""
    return {
        "resource": resource,
        "scope": str(scope.get("name") or "langfuse"),
        "traceId": trace_id_of(observation["traceId"]),
        "spanId": span_id_of(observation["id"]),
        "parentSpanId": span_id_of(parent) if parent else "",
        "name": str(observation.get("name") or ""),
        "startTimeUnixNano": otlp_time(start),
        "endTimeUnixNano": otlp_time(observation.get("endTime") or start),
        "attributes": pairs(attributes | _attributes(observation, metadata)),
        "status": {"code": _ERROR, "message": observation.get("statusMessage") or ""}
        if observation.get("level") == "ERROR"
        else {},
    }


def _attributes(observation: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Attributes as the SDK would have sent them."""
    environment = observation.get("environment")
    attributes = {
        "langfuse.observation.type": str(observation.get("type") or "span").lower(),
        "langfuse.observation.input": _text(observation.get("input")),
        "langfuse.observation.output": _text(observation.get("output")),
        "langfuse.observation.level": observation.get("level"),
        "langfuse.observation.status_message": observation.get("statusMessage"),
        "langfuse.observation.model.name": observation.get("model"),
        "langfuse.observation.usage_details": _text(observation.get("usageDetails") or None),
        "langfuse.observation.cost_details": _text(_costs(observation) or None),
        "langfuse.session.id": observation.get("sessionId"),
        "langfuse.user.id": observation.get("userId"),
        "langfuse.release": observation.get("release"),
        "langfuse.version": observation.get("version"),
        "langfuse.environment": None if environment == "default" else environment,
    }
    for key, value in metadata.items():
        attributes[f"langfuse.observation.metadata.{key}"] = _text(value)
    return {key: value for key, value in attributes.items() if value not in (None, "")}


def _costs(observation: dict[str, Any]) -> Any:
    total = observation.get("totalCost") or observation.get("calculatedTotalCost")
    return observation.get("costDetails") or ({"total": total} if total else None)


def score_of(score: dict[str, Any]) -> dict[str, Any]:
    """A score as an SDK would send it, dated by its last change."""
    subject = score.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    trace_id, span_id = score.get("traceId"), score.get("observationId")
    if subject.get("kind") == "trace":
        trace_id = subject.get("id")
    elif subject.get("kind") == "observation":
        trace_id, span_id = subject.get("traceId"), subject.get("id")
    return {
        **score,
        "traceId": trace_id_of(trace_id) if trace_id else None,
        "observationId": span_id_of(span_id) if span_id else None,
        "timestamp": score.get("updatedAt") or score.get("timestamp"),
    }


def trace_id_of(text: Any) -> str:
    """32 hexadecimal digits; older SDKs name traces by UUIDs or texts of the application."""
    return _hexadecimal(str(text), _TRACE_ID)


def span_id_of(text: Any) -> str:
    """16 hexadecimal digits, as for traces."""
    return _hexadecimal(str(text), _SPAN_ID)


def _hexadecimal(text: str, digits: int) -> str:
    if len(text) == digits and not set(text.lower()) - set("0123456789abcdef"):
        return text.lower()
    if digits == _TRACE_ID:
        try:
            return uuid.UUID(text).hex
        except ValueError:
            pass
    return blake2b(text.encode(), digest_size=digits // 2).hexdigest()


def _object(value: Any) -> dict[str, Any]:
    """An object that may be encoded as JSON."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.MsgspecError:
            return {}
    return dict(value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
