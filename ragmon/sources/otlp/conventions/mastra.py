"""Mastra (``@mastra/otel-exporter``): ``mastra.*`` beside ``gen_ai.*``.

Input and output stand under the type of the span: ``mastra.agent_run.input``.
"""

from ragmon.sources.otlp.reading.documents import passages_in
from ragmon.sources.otlp.reading.facts import CHAIN, EMBEDDING, RETRIEVER, TOOL, SpanFacts
from ragmon.sources.otlp.reading.metadata import read_metadata
from ragmon.sources.otlp.reading.values import answer, asked_in, question
from ragmon.sources.otlp.spans import ERROR, Span

ORDER = 43
SPEAKS = frozenset({"mastra"})

_ROLES = {
    "agent_run": CHAIN, "workflow_run": CHAIN, "workflow_step": CHAIN, "tool_call": TOOL,
    "mcp_tool_call": TOOL, "rag_embedding": EMBEDDING,
}  # fmt: skip
_METADATA = "mastra.metadata."
_SESSIONS, _USERS = ("sessionId", "threadId"), ("userId", "resourceId")
_SEARCHING = ("retriev", "search")


def role(span: Span) -> str:
    """By ``mastra.span.type``; calls of models are left to ``gen_ai.operation.name``."""
    kind = _kind(span)
    return RETRIEVER if _retrieves(span, kind) else _ROLES.get(kind, "")


def _kind(span: Span) -> str:
    return str(span.attributes.get("mastra.span.type", ""))


def _retrieves(span: Span, kind: str) -> bool:
    """True for a workflow step that is named after searching and returned documents."""
    if kind != "workflow_step" or not any(part in span.name.lower() for part in _SEARCHING):
        return False
    return passages_in(span.attributes.get(f"mastra.{kind}.output")) is not None


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    read_metadata(attributes, _METADATA, facts, sessions=_SESSIONS, users=_USERS)
    input_key, output_key = (f"mastra.{_kind(span)}.{way}" for way in ("input", "output"))
    if facts.role in (CHAIN, RETRIEVER, EMBEDDING):
        read_as = asked_in if facts.role == CHAIN else question
        facts.set_lazily("query", read_as, attributes.get(input_key), input_key)
    if facts.role == CHAIN:
        facts.set_lazily("answer", answer, attributes.get(output_key), output_key)
    elif facts.role == RETRIEVER and span.status != ERROR:
        facts.set_lazily("documents", passages_in, attributes.get(output_key), output_key)
