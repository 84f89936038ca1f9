"""Haystack's own tracer: a span a component, values as JSON, content only where it was switched on.

A component is recognised by its sockets, which are always sent: a retriever takes a query and gives
documents, whatever it is called.
"""

from typing import Any

from ragmon.sources.otlp.reading.documents import Document, passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    MODEL,
    OTHER,
    RERANKER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.usage import completion_tokens_in, model_in, prompt_tokens_in
from ragmon.sources.otlp.reading.values import answer, asked_in, first, loads, question
from ragmon.sources.otlp.spans import ERROR, Span

ORDER = 45
SPEAKS = frozenset({"haystack"})

_COMPONENT = "haystack.component."
_STEPS = {
    "haystack.agent.step.llm": MODEL, "haystack.agent.step.tool": TOOL,
    "haystack.chat_generator.run": MODEL, "haystack.pipeline.run": CHAIN,
    "haystack.async_pipeline.run": CHAIN, "haystack.agent.run": CHAIN,
}  # fmt: skip
_QUERIES = frozenset({"query", "queries", "query_embedding", "query_sparse_embedding", "text"})
_REPLIES = frozenset({"replies", "answers", "last_message"})
_GIVES = {
    "replies": MODEL, "embedding": EMBEDDING, "sparse_embedding": EMBEDDING,
    "tool_messages": TOOL, "last_message": CHAIN,
}  # fmt: skip
_INPUTS = (f"{_COMPONENT}input", "haystack.pipeline.input_data", "haystack.agent.input",
           "haystack.agent.step.llm.input", "haystack.agent.step.tool.input")  # fmt: skip
_OUTPUTS = (f"{_COMPONENT}output", "haystack.pipeline.output_data", "haystack.agent.output",
            "haystack.agent.step.llm.output", "haystack.agent.step.tool.output")  # fmt: skip


def role(span: Span) -> str:
    """By the sockets of a component; pipelines and agents are chains."""
    kind = span.attributes.get(f"{_COMPONENT}type")
    if kind is None or span.name in _STEPS:
        return _STEPS.get(span.name, "")
    return _by_sockets(str(kind), _sockets(span, "input"), _sockets(span, "output"))


def _by_sockets(kind: str, takes: set[str], gives: set[str]) -> str:
    if "documents" in gives and not takes.isdisjoint(_QUERIES):
        if not gives.isdisjoint(_REPLIES):
            return CHAIN  # a pipeline that looks like a component
        return RERANKER if "documents" in takes else RETRIEVER
    if not gives.isdisjoint(_GIVES):
        return next(role for socket, role in _GIVES.items() if socket in gives)
    if kind.endswith("Embedder"):
        return EMBEDDING
    return OTHER


def _sockets(span: Span, side: str) -> set[str]:
    sockets = loads(span.attributes.get(f"{_COMPONENT}{side}_spec"))
    return set(sockets) if isinstance(sockets, dict) else set()


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    input_value, input_key = first(attributes, *_INPUTS) or (None, "")
    output_value, output_key = first(attributes, *_OUTPUTS) or (None, "")
    if facts.role == MODEL:
        facts.set_lazily("query", asked_in, input_value, input_key)
        facts.set_lazily("answer", answer, output_value, output_key)
        facts.set_lazily("model", model_in, output_value, output_key)
        facts.set_lazily("prompt_tokens", prompt_tokens_in, output_value, output_key)
        facts.set_lazily("completion_tokens", completion_tokens_in, output_value, output_key)
    elif facts.role in (RETRIEVER, RERANKER, TOOL, CHAIN):
        facts.set_lazily("query", question, input_value, input_key)
    if facts.role in (RETRIEVER, RERANKER) and span.status != ERROR:
        facts.set_lazily("documents", passages_in, output_value, output_key)
    if facts.role == RERANKER and isinstance(inputs := loads(input_value), dict):
        facts.input_documents = passages_in(inputs.get("documents")) or None
    elif facts.role == TOOL:
        facts.set_lazily("documents", _tool_documents, output_value, output_key)
        facts.set("tool_name", attributes.get("haystack.tool.name"), "haystack.tool.name")
        facts.set_lazily("tool_name", _tool_names, output_value, output_key)
        facts.set_lazily("tool_text", _tool_text, output_value, output_key)
    elif facts.role == CHAIN:
        facts.set_lazily("answer", answer, output_value, output_key)


def _tool_documents(output: Any) -> list[Document] | None:
    results = [some_documents_in(result) or [] for _, result in _tool_results(output)]
    return [document for documents in results for document in documents] or None


def _tool_text(output: Any) -> str | None:
    texts = [text for _, result in _tool_results(output) if (text := answer(result))]
    return "\n".join(texts) or None


def _tool_names(output: Any) -> str | None:
    return " ".join(name for name, _ in _tool_results(output) if name) or None


def _tool_results(output: Any) -> list[tuple[str, Any]]:
    """Tools and what they returned; one component may have called several."""
    structure = loads(output)
    messages = structure.get("tool_messages") if isinstance(structure, dict) else None
    if not isinstance(messages, list):
        return [("", output)]
    parts = [part for each in messages if isinstance(each, dict) for part in _parts(each)]
    origins = [(part, part.get("origin")) for part in parts]
    return [
        (str(origin.get("tool_name")) if isinstance(origin, dict) else "", part.get("result"))
        for part, origin in origins
    ]


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or message.get("_content")
    parts = content if isinstance(content, list) else []
    results = (part.get("tool_call_result") for part in parts if isinstance(part, dict))
    return [each for each in results if isinstance(each, dict)]
