"""Langfuse SDKs from version 3: OpenTelemetry spans with ``langfuse.*`` keys, values as JSON."""

from typing import Any

from ragmon.sources.otlp.reading.documents import passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    OTHER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.values import (
    answer,
    asked_in,
    first,
    integer,
    loads,
    name,
    number,
    question,
    tags_of,
)
from ragmon.sources.otlp.spans import ERROR, Span

ORDER = 30
SPEAKS = frozenset({"langfuse"})

_ROLES = {
    "retriever": RETRIEVER, "generation": MODEL, "embedding": EMBEDDING, "chain": CHAIN,
    "agent": CHAIN, "span": CHAIN, "tool": TOOL, "evaluator": EVALUATOR, "guardrail": EVALUATOR,
    "event": OTHER,
}  # fmt: skip
_INPUT, _OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
_DOCUMENTS = ('[{"pageContent":', '[{"page_content":')
_SEARCHING = ("retriev", "search")
_METADATA = ("langfuse.trace.metadata", "langfuse.observation.metadata")


def role(span: Span) -> str:
    """By ``langfuse.observation.type``."""
    kind = span.attributes.get("langfuse.observation.type")
    if kind is not None:
        known = _ROLES.get(str(kind).lower(), OTHER)
        return RETRIEVER if known == CHAIN and _retrieves(span) else known
    return CHAIN if _INPUT in span.attributes or "langfuse.trace.input" in span.attributes else ""


def _retrieves(span: Span) -> bool:
    """True when a step of no special type returned documents, as LangChain.js's retrievers do.

    A step that only passes on the documents of a retriever inside is named after its runnable.
    """
    output = span.attributes.get(_OUTPUT)
    if output.__class__ is not str or output[:1] != "[" or span.name.startswith("Runnable"):
        return False
    if any(part in span.name.lower() for part in _SEARCHING):
        return passages_in(output) is not None
    return output.startswith(_DOCUMENTS) and bool(some_documents_in(output))


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    for field, keys in (
        ("session_id", ("langfuse.session.id", "session.id")),
        ("user_id", ("langfuse.user.id", "user.id")),
        ("version", ("langfuse.release", "langfuse.version")),
        ("environment", ("langfuse.environment",)),
    ):
        if entry := first(attributes, *keys):
            facts.set(field, name(entry[0]), entry[1])
    _read_tags(span, facts)
    if attributes.get("langfuse.observation.level") == "ERROR":
        facts.set("failed", True, "langfuse.observation.level")
        message = attributes.get("langfuse.observation.status_message")
        facts.set("error_message", message, "langfuse.observation.status_message")
    _read_content(span, facts)


def _read_content(span: Span, facts: SpanFacts) -> None:
    input_value, output_value = span.attributes.get(_INPUT), span.attributes.get(_OUTPUT)
    if facts.role in (CHAIN, RETRIEVER, TOOL):
        facts.set_lazily("query", question, input_value, _INPUT)
    if facts.role == RETRIEVER and span.status != ERROR:
        facts.set_lazily("documents", passages_in, output_value, _OUTPUT)
    elif facts.role == TOOL and output_value is not None:
        facts.set_lazily("documents", some_documents_in, output_value, _OUTPUT)
        facts.set_lazily("passages", passages_in, output_value, _OUTPUT)
        facts.set("tool_name", span.name, "name")
        facts.set_lazily("tool_text", answer, output_value, _OUTPUT)
    elif facts.role == MODEL:
        facts.set_lazily("query", asked_in, input_value, _INPUT)
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        _read_usage(span, facts)
    elif facts.role == CHAIN:
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        facts.set_lazily("passages", passages_in, output_value, _OUTPUT)
        for field, read_as, key in (
            ("query", question, "langfuse.trace.input"),
            ("answer", answer, "langfuse.trace.output"),
        ):
            facts.set_lazily(field, read_as, span.attributes.get(key), key)


def _read_usage(span: Span, facts: SpanFacts) -> None:
    attributes = span.attributes
    key = "langfuse.observation.model.name"
    facts.set("model", name(attributes.get(key)), key)
    key = "langfuse.observation.usage_details"
    usage = loads(attributes.get(key))
    if isinstance(usage, dict):
        facts.set("prompt_tokens", _count(usage, "input", "prompt_tokens", "input_tokens"), key)
        facts.set(
            "completion_tokens", _count(usage, "output", "completion_tokens", "output_tokens"), key
        )
    key = "langfuse.observation.cost_details"
    cost = loads(attributes.get(key))
    if isinstance(cost, dict):
        parts = [number(value) or 0.0 for name_, value in cost.items() if name_ != "total"]
        total = number(cost.get("total"))
        facts.set("cost_usd", sum(parts) if total is None and parts else total, key)


def _count(usage: dict[str, Any], *keys: str) -> int | None:
    return next((count for key in keys if (count := integer(usage.get(key))) is not None), None)


def _read_tags(span: Span, facts: SpanFacts) -> None:
    tags: dict[str, str] = {}
    for prefix in _METADATA:
        for key, value in span.attributes.items():
            if key == prefix:
                tags |= tags_of(value)
            elif key.startswith(prefix + "."):
                tags |= tags_of({key.removeprefix(prefix + "."): loads(value)})
    facts.set("tags", tags or None, _METADATA[0])
