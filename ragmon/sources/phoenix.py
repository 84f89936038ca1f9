"""Spans and annotations of an Arize Phoenix project by its REST API, each once.

Spans come as OpenTelemetry has them. Annotations are asked for by the spans and traces that they
are about, since the API finds them by nothing else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from pydantic import Field, SecretStr, model_validator

from ragmon.errors import RemoteError
from ragmon.http_client import Url, check_secret, check_secrets, secret
from ragmon.loops import beat
from ragmon.sources import SourceContext
from ragmon.sources.tracing_tools.client import TooLargeError, ToolClient
from ragmon.sources.tracing_tools.options import ToolOptions
from ragmon.sources.tracing_tools.source import ScorePage, SpanPage, ToolSource
from ragmon.sources.tracing_tools.spans_json import iso_time, pairs, readable
from ragmon.sources.tracing_tools.sweeps import Window

_AT_ONCE = 100  # ids of one request: a URL of three kilobytes
_MOST_ANNOTATIONS = 1_000
_MOST_TOGETHER = 20_000  # annotations of one page of spans
_NOT_FOUND = 404
_OURS = "ragmon "  # names of verdicts that ragmon exported itself
_METADATA = "metadata"
_OWN_KIND = "EVALUATOR"


class Options(ToolOptions):
    """``sources: [{kind: phoenix, name: support, project: default}]``."""

    url: Url = "http://localhost:6006"
    """URL of Phoenix; in Phoenix Cloud that of the space."""
    project: Annotated[str, Field(pattern="^[^/?#]{1,256}$")] = "default"
    """Name or id of the project."""
    api_key: SecretStr | None = None
    """API key, where Phoenix asks for one. A secret: prefer api_key_file or api_key_env."""
    api_key_file: Path | None = None
    """File that holds the key; it is read again before each request."""
    api_key_env: str | None = None
    """Environment variable that holds the key."""

    @model_validator(mode="after")
    def _at_most_one_key(self) -> "Options":
        check_secret(self, "api_key", required=False)
        return self


def build(options: Options, context: SourceContext) -> ToolSource:
    """A source that reads one project."""
    check_secrets(options)

    def authorization() -> str:
        if not check_secret(options, "api_key", required=False):
            return ""
        return f"Bearer {secret(options, 'api_key')}"

    client = ToolClient(options, options.url, context.clock, authorization)
    return ToolSource("phoenix", options, context, client, Phoenix(client, options))


class _PhoenixPage(Struct):
    data: list[Raw]
    next_cursor: str | None = None


class _SpanIds(Struct):
    """Ids of a span, of which its annotations are asked for."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_ids = msgspec.json.Decoder(_SpanIds).decode


class Phoenix:
    """The API of one project."""

    def __init__(self, client: ToolClient, options: Options) -> None:
        self._client = client
        self._project = f"/v1/projects/{quote(options.project, safe='')}"
        resource = {"openinference.project.name": options.project}
        if options.pipeline:
            resource["service.name"] = options.pipeline
        self._resource = pairs(resource)

    def spans(self, window: Window, cursor: str, most: int) -> SpanPage:
        """A page of the spans that began in a window."""
        page = self._spans(window, cursor, most)
        return SpanPage(page.data, self._encoded, page.next_cursor or "")

    def _encoded(self, spans: Sequence[Raw]) -> bytes:
        decoded = [_decode_object(span) for span in spans]
        on_the_wire = [_on_the_wire(span) for span in decoded if not _is_ours(span)]
        request = {
            "resourceSpans": [
                {
                    "resource": {"attributes": self._resource},
                    "scopeSpans": [{"spans": on_the_wire}],
                }
            ]
        }
        return msgspec.json.encode(request)

    def scores(self, window: Window, cursor: str, most: int) -> ScorePage:
        """The annotations of a page of spans, and of their traces."""
        page = self._spans(window, cursor, most)
        spans = [ids for span in page.data if (ids := _ids_of(span)) is not None]
        trace_ids = {span.span_id: span.trace_id for span in spans}
        of_spans = self._annotations("span", list(trace_ids))
        roots = [span.trace_id for span in spans if not span.parent_span_id]
        of_traces = self._annotations("trace", list(dict.fromkeys(roots)))
        scores, odd = readable(of_spans, lambda score: _of_span(_decode_object(score), trace_ids))
        others, odd_others = readable(of_traces, lambda score: _dated(_decode_object(score)))
        return ScorePage(scores + others, page.next_cursor or "", odd + odd_others)

    def _spans(self, window: Window, cursor: str, most: int) -> _PhoenixPage:
        parameters: dict[str, str | int] = {
            "start_time": iso_time(window.start),
            "end_time": iso_time(window.end),
            "limit": most,
        }
        if cursor:
            parameters["cursor"] = cursor
        page: _PhoenixPage = self._client.get(
            f"{self._project}/spans/otlpv1", parameters, _PhoenixPage
        )
        return page

    def _annotations(self, of: str, ids: Sequence[str]) -> list[Raw]:
        """Annotations of spans or of traces.

        Raises:
            TooLargeError: there are too many; ask for those of fewer spans.
        """
        annotations: list[Raw] = []
        for at in range(0, len(ids), _AT_ONCE):
            cursor: str | None = ""
            while cursor is not None:
                parameters: dict[str, str | int | Sequence[str]] = {
                    f"{of}_ids": ids[at : at + _AT_ONCE],
                    "limit": _MOST_ANNOTATIONS,
                }
                if cursor:
                    parameters["cursor"] = cursor
                path = f"{self._project}/{of}_annotations"
                try:
                    page: _PhoenixPage = self._client.get(path, parameters, _PhoenixPage)
                except RemoteError as error:
                    if error.status != _NOT_FOUND:
                        raise
                    break  # the spans are gone, or the server has no such endpoint
                annotations += page.data
                cursor = page.next_cursor
                beat()
                if len(annotations) > _MOST_TOGETHER:
                    raise TooLargeError(
                        f"more than {_MOST_TOGETHER:,} annotations of one page", hint="Lower page"
                    )
        return annotations


def wire_names(message: Any) -> Any:
    """A message of OTLP with the names of its JSON form, without what is not set."""
    if isinstance(message, list):
        return [wire_names(entry) for entry in message]
    if not isinstance(message, dict):
        return message
    return {_camel(name): wire_names(value) for name, value in message.items() if value is not None}


def _on_the_wire(span: dict[str, Any]) -> dict[str, Any]:
    """A span in OTLP's JSON; of its metadata, which Phoenix takes apart, one object again."""
    message: dict[str, Any] = wire_names(span)
    metadata: dict[str, Any] = {}
    attributes = []
    for attribute in message.get("attributes", ()):
        key = str(attribute.get("key"))
        if key.startswith(_METADATA + "."):
            metadata[key.removeprefix(_METADATA + ".")] = next(
                iter(attribute.get("value", {}).values()), None
            )
        else:
            attributes.append(attribute)
    if metadata:
        attributes += pairs({_METADATA: msgspec.json.encode(metadata).decode()})
    return {**message, "attributes": attributes}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _is_ours(span: dict[str, Any]) -> bool:
    """True for a verdict that ragmon exported itself; Phoenix does not keep who made a span."""
    return str(span.get("name") or "").startswith(_OURS) and any(
        attribute.get("value", {}).get("string_value") == _OWN_KIND
        for attribute in span.get("attributes") or ()
        if attribute.get("key") == "openinference.span.kind"
    )


def _ids_of(span: Raw) -> _SpanIds | None:
    """Ids of a span; None where it has none, so that nothing can be asked about it."""
    try:
        return _decode_ids(span)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _of_span(annotation: dict[str, Any], trace_ids: Mapping[str, str]) -> dict[str, Any]:
    """An annotation of a span, with the trace of that."""
    return _dated({**annotation, "trace_id": trace_ids.get(str(annotation.get("span_id")))})


def _dated(annotation: dict[str, Any]) -> dict[str, Any]:
    """An annotation as an SDK would send it, dated by its last change."""
    changed = annotation.get("updated_at") or annotation.get("created_at")
    return {**annotation, "created_at": changed}
