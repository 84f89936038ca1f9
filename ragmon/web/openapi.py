"""OpenAPI 3.1 document of the HTTP API, made from the endpoints and their structs."""

import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from ragmon import __version__
from ragmon.asgi import ProblemDetails
from ragmon.query_string import KEY
from ragmon.records import UNSTAMPED
from ragmon.web import endpoints, ingest_endpoints
from ragmon.web.endpoint import HTML, JSON, NDJSON, PROTOBUF, Endpoint, Parameter

Json = dict[str, Any]
"""A JSON object of the document; its form is OpenAPI's."""

ENDPOINTS = (*ingest_endpoints.EVERY, *endpoints.EVERY)

_PROBLEM_MEDIA = "application/problem+json"
_ANY_PATH = (400, 401, 403, 429, 431, 500, 503)  # whatever is asked
_PROBLEMS = {
    400: "The request cannot be read, or a parameter is unknown, given twice or out of range",
    401: "No token, or one that is unknown or has expired",
    403: "The token lacks the scope, or may not use the pipeline",
    404: "Not found, or not configured",
    408: "The body did not arrive within limits.read_timeout",
    413: "The body is larger than limits.body, or limits.decompressed once decompressed",
    415: "The media type or Content-Encoding is not supported",
    422: "No record of the batch was kept",
    429: "The token is used faster than its rate allows: send again after Retry-After seconds",
    431: "The headers are larger than limits.headers",
    500: "Internal error in ragmon; its log has the traceback",
    503: "Overloaded, starting or ending, or the store refuses; nothing was kept: send it again",
}
_LOCATION = {"description": "Path of the page", "schema": {"type": "string"}}
_BINARY = {"type": "string", "format": "binary"}
_DESCRIPTION = (
    "Monitoring of retrieval-augmented generation. Times in answers are Unix seconds. A metric"
    " without samples is absent, never zero. Errors are problem details (RFC 9457). Without"
    " configured tokens no authorization is needed."
)


def document(version: str = __version__) -> Json:
    """The whole document.

    Args:
        version: of ragmon.
    """
    schemas = _Schemas(ENDPOINTS)
    paths: dict[str, Json] = {}
    for endpoint in ENDPOINTS:
        path = re.sub(":path}", "}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ragmon", "version": version, "description": _DESCRIPTION},
        "tags": [{"name": name} for name in dict.fromkeys(each.tag for each in ENDPOINTS)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": _problem_responses(schemas),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@functools.cache
def encoded() -> bytes:
    """The document as JSON, made once."""
    return msgspec.json.encode(document())


class _Schemas:
    """JSON Schema of every type that an endpoint names."""

    def __init__(self, every: Sequence[Endpoint]) -> None:
        named = [ProblemDetails, *(kind for endpoint in every for kind in _types(endpoint))]
        schemas, self.components = msgspec.json.schema_components(
            named, ref_template="#/components/schemas/{name}"
        )
        self._by_type = [(kind, _tidied(body)) for kind, body in zip(named, schemas, strict=True)]
        self.components = {name: _tidied(body) for name, body in self.components.items()}

    def schema_of(self, kind: Any) -> Json:
        """The schema of one type, or a reference to it."""
        return next(schema for known, schema in self._by_type if known == kind)


def _types(endpoint: Endpoint) -> Iterator[Any]:
    yield from (parameter.type for parameter in endpoint.parameters)
    yield from (kind for kind in (endpoint.body, endpoint.answer) if kind is not None)


def _tidied(schema: Any) -> Any:
    """Docstrings as running text, and no default that stands for "absent" in memory only."""
    if isinstance(schema, list):
        return [_tidied(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {name: _tidied(member) for name, member in schema.items()}
    if isinstance(tidy.get("description"), str):
        tidy["description"] = inspect.cleandoc(tidy["description"]).replace("``", "`")
    if tidy.get("default", "") in (None, UNSTAMPED):
        del tidy["default"]
    return tidy


def _operation(endpoint: Endpoint, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
    }
    if endpoint.help:
        operation["description"] = endpoint.help
    if endpoint.scope != "open":
        operation["security"] = [{"token": [endpoint.scope]}]
    if endpoint.parameters:
        operation["parameters"] = [
            _parameter(parameter, endpoint, schemas) for parameter in endpoint.parameters
        ]
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": _of_media(schemas.schema_of(endpoint.body), media, endpoint)}
                for media in endpoint.body_media
            },
        }
    operation["responses"] = _responses(endpoint, schemas)
    return operation


def _of_media(schema: Json, media: str, endpoint: Endpoint) -> Json:
    """The schema of a body in one media type; NDJSON and protobuf are text and bytes."""
    if media == PROTOBUF:
        return _BINARY
    if media == NDJSON:
        return {"type": "string", "description": "One JSON object a line.", "contentSchema": schema}
    if NDJSON in endpoint.body_media:
        return {"oneOf": [schema, {"type": "array", "items": schema}]}
    return schema


def _parameter(parameter: Parameter, endpoint: Endpoint, schemas: _Schemas) -> Json:
    schema = schemas.schema_of(parameter.type)
    if parameter.default is not None:
        schema = schema | {"default": parameter.default}
    in_path = endpoint.has_in_path(parameter)
    described = {
        "name": parameter.name,
        "in": "path" if in_path else "query",
        "description": parameter.help,
        "required": in_path,
        "schema": schema,
    }
    return described | (_any_key(parameter, schema) if parameter.name.endswith(KEY) else {})


def _any_key(parameter: Parameter, schema: Json) -> Json:
    """A parameter whose name holds a key, as an object that is sent a member at a time."""
    prefix = re.escape(parameter.name.removesuffix(KEY))
    members = {"patternProperties": {f"^{prefix}.": schema}, "additionalProperties": False}
    return {"style": "form", "explode": True, "schema": {"type": "object"} | members}


def _responses(endpoint: Endpoint, schemas: _Schemas) -> Json:
    statuses = [endpoint.status, *([202] if endpoint.may_go_on else [])]
    responses = {str(status): _success(endpoint, status, schemas) for status in statuses}
    if PROTOBUF in endpoint.body_media:
        status = {"schema": {"description": "google.rpc.Status"}}
        content = {PROTOBUF: status, JSON: status}
        for status_class in ("4XX", "5XX"):
            responses[status_class] = {"description": "As OTLP/HTTP has it", "content": content}
        return responses
    for code in sorted({*endpoint.problems, *_ANY_PATH}):
        responses[str(code)] = {"$ref": f"#/components/responses/{HTTPStatus(code).name}"}
    for code in endpoint.shown_problems:
        content = _problem_content(schemas) | {HTML: {"schema": {"type": "string"}}}
        responses[str(code)] = {"description": _PROBLEMS[code], "content": content}
    if endpoint in ingest_endpoints.HTTP:
        rejected = {JSON: {"schema": schemas.schema_of(endpoint.answer)}}
        responses["422"] = {"description": "No record of the batch was kept", "content": rejected}
    return responses


def _success(endpoint: Endpoint, status: int, schemas: _Schemas) -> Json:
    if status == HTTPStatus.SEE_OTHER:
        return {"description": "The page to go to", "headers": {"Location": _LOCATION}}
    content = {media: {"schema": _of_answer(endpoint, media, schemas)} for media in endpoint.media}
    return {"description": HTTPStatus(status).phrase, "content": content}


def _of_answer(endpoint: Endpoint, media: str, schemas: _Schemas) -> Json:
    if media == JSON:
        return schemas.schema_of(endpoint.answer)
    return _BINARY if media == PROTOBUF else {"type": "string"}


def _problem_content(schemas: _Schemas) -> Json:
    return {_PROBLEM_MEDIA: {"schema": schemas.schema_of(ProblemDetails)}}


def _problem_responses(schemas: _Schemas) -> Json:
    """Every problem that a path names, by the name of its status."""
    codes = {code for endpoint in ENDPOINTS for code in endpoint.problems} | {*_ANY_PATH}
    content = _problem_content(schemas)
    responses: Json = {
        HTTPStatus(code).name: {"description": _PROBLEMS[code], "content": content}
        for code in sorted(codes)
    }
    seconds = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
    for status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        responses[status.name]["headers"] = {"Retry-After": seconds}
    return responses
