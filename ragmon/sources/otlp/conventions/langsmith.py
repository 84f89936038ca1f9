"""LangSmith's OpenTelemetry export: runs as spans, inputs and outputs as JSON in two keys.

Its ``gen_ai.operation.name`` calls retrievers embeddings, so the type of the run is asked first.
"""

from ragmon.sources.otlp.reading.documents import passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    MODEL,
    OTHER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.metadata import read_metadata
from ragmon.sources.otlp.reading.usage import model_in
from ragmon.sources.otlp.reading.values import answer, asked_in, question
from ragmon.sources.otlp.spans import Span

ORDER = 25
SPEAKS = frozenset({"langsmith"})

_KIND = "langsmith.span.kind"
_ROLES = {
    "retriever": RETRIEVER, "llm": MODEL, "embedding": EMBEDDING, "tool": TOOL, "chain": CHAIN,
}  # fmt: skip
_INPUT, _OUTPUT = "gen_ai.prompt", "gen_ai.completion"
_METADATA = "langsmith.metadata."
_SESSIONS = ("session_id", "thread_id", "conversation_id")


def role(span: Span) -> str:
    """By the type of the run."""
    kind = span.attributes.get(_KIND)
    return "" if kind is None else _ROLES.get(str(kind), OTHER)


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    read_metadata(attributes, _METADATA, facts, sessions=_SESSIONS, noise="LANGSMITH_")
    if any(event.name == "exception" for event in span.events):
        facts.set("failed", True, "exception")  # its status may have been set to OK before
    input_value, output_value = attributes.get(_INPUT), attributes.get(_OUTPUT)
    if facts.role in (CHAIN, RETRIEVER, TOOL):
        facts.set_lazily("query", question, input_value, _INPUT)
    if facts.role == RETRIEVER and not facts.value("failed"):
        facts.set_lazily("documents", passages_in, output_value, _OUTPUT)
    elif facts.role == TOOL:
        facts.set_lazily("documents", some_documents_in, output_value, _OUTPUT)
        facts.set("tool_name", span.name, "name")
        facts.set_lazily("tool_text", answer, output_value, _OUTPUT)
    elif facts.role == MODEL:
        facts.set_lazily("query", asked_in, input_value, _INPUT)
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        facts.set_lazily("model", model_in, output_value, _OUTPUT)
    elif facts.role == CHAIN:
        facts.set_lazily("answer", answer, output_value, _OUTPUT)
        facts.set_lazily("passages", passages_in, output_value, _OUTPUT)
