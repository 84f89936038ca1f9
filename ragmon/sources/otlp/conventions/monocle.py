"""Monocle (``monocle_apptrace``): spans by ``span.type``; content in the events ``data.*``.

A search tells its passages as one text, cut and without ids, so that the documents stay unknown.
Source: monocle2ai/monocle, apptrace/src/monocle_apptrace/instrumentation/common/constants.py.
"""

from typing import Any

from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    MODEL,
    OTHER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.values import (
    answer,
    asked_in,
    indexed,
    integer,
    loads,
    name,
    plain,
    question,
)
from ragmon.sources.otlp.spans import ERROR, Attributes, Span

ORDER = 44
SPEAKS = frozenset({"monocle_apptrace"})

_ROLES = {
    "workflow": CHAIN, "retrieval": RETRIEVER, "inference": MODEL, "inference.framework": MODEL,
    "embedding": EMBEDDING, "embedding.modelapi": EMBEDDING, "agentic.turn": CHAIN,
    "agentic.invocation": CHAIN, "agentic.tool.invocation": TOOL,
    "agentic.mcp.invocation": TOOL,
    "inference.modelapi": OTHER,  # the request within a framework's call, which tells all
}  # fmt: skip
_INPUT, _OUTPUT, _METADATA = "data.input", "data.output", "metadata"
_TOKENS = ("prompt_tokens", "completion_tokens")
_SESSIONS = ("scope.session", "scope.session_id", "scope.agentic.session")
_USERS = ("scope.user", "scope.user_id")


def role(span: Span) -> str:
    """By ``span.type``; a type that is not known is some other step."""
    kind = str(span.attributes.get("span.type", ""))
    return _ROLES.get(kind, OTHER) if kind else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    for field, keys in (("session_id", _SESSIONS), ("user_id", _USERS)):
        for key in keys:
            facts.set(field, name(attributes.get(key)), key)
    events = {event.name: event.attributes for event in span.events}
    asked = events.get(_INPUT, {}).get("input")
    replied = None if span.status == ERROR else events.get(_OUTPUT, {}).get("response")
    if facts.role in (MODEL, CHAIN):
        facts.set_lazily("query", _asked, asked, _INPUT)
        facts.set_lazily("answer", _replied, replied, _OUTPUT)
    elif facts.role == RETRIEVER:
        facts.set("query", plain(asked), _INPUT)
    elif facts.role == TOOL:
        facts.set_lazily("query", question, asked, _INPUT)
        facts.set_lazily("tool_text", answer, replied, _OUTPUT)
    if facts.role == MODEL:
        facts.set("requested_model", _model(attributes), "entity.*.name")
        for key in _TOKENS:
            facts.set(key, integer(events.get(_METADATA, {}).get(key)), f"{_METADATA}.{key}")


def _model(attributes: Attributes) -> str | None:
    entities = indexed(attributes, "entity")
    models = [entity for entity in entities if str(entity.get("type")).startswith("model.llm")]
    return name(models[0].get("name")) if models else None


def _asked(messages: Any) -> str | None:
    """The last question among texts ``{"system": …}`` and ``{"user": …}``, or a plain text."""
    if isinstance(messages, list | tuple):
        return asked_in([_message(message) for message in messages])
    return question(messages)


def _replied(message: Any) -> str | None:
    structure = loads(message)
    if isinstance(structure, dict) and len(structure) == 1:
        return plain(next(iter(structure.values())))
    return answer(message)


def _message(message: Any) -> Any:
    """The message with its role beside its text, as other tools write it."""
    structure = loads(message)
    if isinstance(structure, dict) and len(structure) == 1:
        ((role_name, content),) = structure.items()
        return {"role": "user" if role_name == "human" else role_name, "content": content}
    return structure
