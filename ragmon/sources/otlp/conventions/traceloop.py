"""OpenLLMetry (Traceloop): ``traceloop.*`` beside ``gen_ai.*``.

Its ``gen_ai.operation.name`` is ``invoke_agent`` for every chain, and LlamaIndex spans are
recognised by the name of their entity only, in JavaScript by that of the method.
"""

from typing import Any

from ragmon.sources.otlp.reading.documents import documents_in, passages_in, some_documents_in
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
from ragmon.sources.otlp.reading.metadata import read_metadata
from ragmon.sources.otlp.reading.usage import completion_tokens_in, model_in, prompt_tokens_in
from ragmon.sources.otlp.reading.values import answer, asked_in, first, loads, name, question
from ragmon.sources.otlp.spans import ERROR, Attributes, Span

ORDER = 20
SPEAKS = frozenset({"traceloop", "llm"})

_OPERATIONS = {
    "vector_db_retrieve": RETRIEVER, "retrieval": RETRIEVER, "rerank": RERANKER, "chat": MODEL,
    "text_completion": MODEL, "generate_content": MODEL, "embeddings": EMBEDDING,
    "execute_tool": TOOL,
}  # fmt: skip
_REQUESTS = {"rerank": RERANKER, "chat": MODEL, "completion": MODEL, "embedding": EMBEDDING}
_KINDS = {"workflow": CHAIN, "task": CHAIN, "agent": CHAIN, "tool": TOOL}
_ENTITIES = (
    ("retriever.task", RETRIEVER), ("rerank.task", RERANKER), ("reranker.task", RERANKER),
    ("llm.task", MODEL), ("embedding.task", EMBEDDING), ("openai.task", MODEL),
    ("retriever.retrieve", RETRIEVER), ("query_engine.retrieve", RETRIEVER),
    (".get_query_embedding", EMBEDDING), (".postprocess_nodes", RERANKER),
)  # fmt: skip
_SEARCHING = ("retriev", "search")
_PROPERTIES = "traceloop.association.properties."
_INPUTS = ("traceloop.entity.input", "gen_ai.task.input")
_DOCUMENT_INPUT = '{"input":[{"pageContent":'  # input of the step after a retriever of LangChain.js
_OUTPUTS = ("traceloop.entity.output", "gen_ai.task.output")


def role(span: Span) -> str:
    """By operation, entity name and kind."""
    attributes = span.attributes
    request = _REQUESTS.get(str(attributes.get("llm.request.type")), "")
    if request == RERANKER:
        return RERANKER
    kind = attributes.get("traceloop.span.kind")
    if kind is None and "traceloop.entity.name" not in attributes:
        return "" if "gen_ai.operation.name" in attributes else request
    operation = str(attributes.get("gen_ai.operation.name"))
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    entity = f"{attributes.get('traceloop.entity.name', '')}"
    for suffix, known in _ENTITIES:
        if entity.lower().endswith(suffix) or span.name.lower().endswith(suffix):
            return known
    if "gen_ai.output.messages" in attributes or "gen_ai.completion.0.content" in attributes:
        return MODEL
    return _of_kind(str(kind), entity, span)


def _of_kind(kind: str, entity: str, span: Span) -> str:
    """An application's own step, or a framework's that has no better name."""
    if kind == "task" and _retrieves(entity, span.attributes):
        return RETRIEVER
    return OTHER if _is_piece(span) else _KINDS.get(kind, OTHER)


def _retrieves(entity: str, attributes: Attributes) -> bool:
    """True for an application's own step that is named after searching and returned documents."""
    entry = first(attributes, *_OUTPUTS)
    if not entry or not any(part in entity.lower() for part in _SEARCHING):
        return False
    return passages_in(entry[0]) is not None


def _is_piece(span: Span) -> bool:
    """A step of LangChain.js outside a workflow: each becomes a trace, as do calls of models."""
    attributes = span.attributes
    is_step = attributes.get("gen_ai.operation.name") == "workflow"
    return is_step and attributes.get("gen_ai.provider.name") == "langchain" and not span.parent_id


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    read_metadata(attributes, _PROPERTIES, facts, sessions=("session_id", "thread_id"))
    input_entry, output_entry = first(attributes, *_INPUTS), first(attributes, *_OUTPUTS)
    if input_entry and facts.role == CHAIN and str(input_entry[0]).startswith(_DOCUMENT_INPUT):
        facts.input_documents = documents_in(_inner(input_entry[0]))
    if input_entry and facts.role in (CHAIN, RETRIEVER, RERANKER, MODEL, TOOL):
        facts.set_lazily("query", asked_in if facts.role == MODEL else question, *input_entry)
    if output_entry and span.status != ERROR:
        _read_output(*output_entry, span, facts)
    if attributes.get("gen_ai.task.status") == "failure":
        facts.set("failed", True, "gen_ai.task.status")


def _inner(value: Any) -> Any:
    structure = loads(value)
    return structure.get("input") if isinstance(structure, dict) else None


def _read_output(returned: Any, key: str, span: Span, facts: SpanFacts) -> None:
    if facts.role in (RETRIEVER, RERANKER):
        facts.set_lazily("documents", passages_in, returned, key)
    elif facts.role == TOOL:
        facts.set_lazily("documents", some_documents_in, returned, key)
        facts.set("tool_name", name(span.attributes.get("traceloop.entity.name")) or span.name, key)
        facts.set_lazily("tool_text", answer, returned, key)
    elif facts.role in (CHAIN, MODEL):
        facts.set_lazily("answer", answer, returned, key)
        if facts.role == CHAIN:
            facts.set_lazily("passages", passages_in, returned, key)
        if not span.parent_id:  # Haystack's pipeline has what its model calls lack
            facts.set_lazily("model", model_in, returned, key)
            facts.set_lazily("prompt_tokens", prompt_tokens_in, returned, key)
            facts.set_lazily("completion_tokens", completion_tokens_in, returned, key)
