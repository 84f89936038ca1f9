"""Vercel AI SDK (``experimental_telemetry``): ``ai.*`` keys, values as JSON strings."""

from typing import Any

from ragmon.sources.otlp.documents import some_documents_in
from ragmon.sources.otlp.facts import EMBEDDING, MODEL, TOOL, Facts
from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.values import (
    answer,
    asked_in,
    first,
    integer,
    name,
    plain,
    question,
    tags_of,
)

ORDER = 35
SPEAKS = frozenset({"ai"})

_MODEL = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_METADATA = "ai.telemetry.metadata."


def role(span: Span) -> str:
    """By ``ai.operationId``."""
    operation = str(span.attributes.get("ai.operationId", ""))
    if operation.startswith(_MODEL):
        return MODEL
    if operation.startswith("ai.embed"):
        return EMBEDDING
    return TOOL if operation == "ai.toolCall" else ""


def read(span: Span, facts: Facts) -> None:
    """Note what the span says."""
    attributes = span.attributes
    metadata = {
        key.removeprefix(_METADATA): value
        for key, value in attributes.items()
        if key.startswith(_METADATA)
    }
    for field, keys in (
        ("session_id", ("sessionId", "session.id", "conversationId", "langfuseSessionId")),
        ("user_id", ("userId", "user.id", "langfuseUserId")),
    ):
        if found := first(metadata, *keys):
            facts.say(field, name(found[0]), _METADATA + found[1])
    facts.offer("tags", tags_of, metadata or None, _METADATA + "*")
    if facts.role == TOOL:
        _read_tool(span, facts)
    elif facts.role == MODEL:
        _read_model(span, facts)


def _read_tool(span: Span, facts: Facts) -> None:
    key = "ai.toolCall.result"
    result = span.attributes.get(key)
    facts.offer("query", question, span.attributes.get("ai.toolCall.args"), "ai.toolCall.args")
    facts.offer("documents", some_documents_in, result, key)
    facts.say(
        "tool_name", name(span.attributes.get("ai.toolCall.name")) or span.name, "ai.toolCall.name"
    )
    facts.offer("tool_text", answer, result, key)


def _read_model(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    for key in ("ai.prompt.messages", "ai.prompt"):
        facts.offer("query", asked_in, attributes.get(key), key)
    for key in ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"):
        facts.offer("answer", _replied, attributes.get(key), key)
    for field, key in (("model", "ai.response.model"), ("requested_model", "ai.model.id")):
        facts.say(field, name(attributes.get(key)), key)
    for field, keys in (
        ("prompt_tokens", ("ai.usage.promptTokens", "ai.usage.inputTokens")),
        ("completion_tokens", ("ai.usage.completionTokens", "ai.usage.outputTokens")),
    ):
        if found := first(attributes, *keys):
            facts.say(field, integer(found[0]), found[1])


def _replied(value: Any) -> str | None:
    """The text, or the object that was asked for as it is."""
    return answer(value) or plain(value)
