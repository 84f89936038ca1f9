"""OpenInference (Arize): LangChain, LlamaIndex, Haystack, DSPy, JavaScript and more.

Source: Arize-ai/openinference, spec/semantic_conventions.md.
"""

from collections.abc import Callable
from typing import Any

from ragmon.event_time import from_nanoseconds
from ragmon.sources.otlp.reading.documents import (
    Document,
    document_of,
    documents_in,
    merged,
    passages_in,
    some_documents_in,
)
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    OTHER,
    RERANKER,
    RETRIEVER,
    TOOL,
    SpanEvaluation,
    SpanFacts,
)
from ragmon.sources.otlp.reading.messages import last_text
from ragmon.sources.otlp.reading.usage import reply_id
from ragmon.sources.otlp.reading.values import (
    answer,
    asked,
    asked_in,
    clean,
    indexed,
    indexed_whole,
    integer,
    loads,
    name,
    number,
    plain,
    question,
    strip_prefix,
    tags_of,
)
from ragmon.sources.otlp.spans import EMBEDDING_SKETCH, ERROR, Attributes, Span

ORDER = 10
SPEAKS = frozenset(
    {"openinference", "input", "output", "llm", "retrieval", "reranker", "embedding", "annotations",
     "evaluations", "trace", "session", "user", "tag", "metadata", "tool"}
)  # fmt: skip

_KIND = "openinference.span.kind"
_ROLES = {
    "RETRIEVER": RETRIEVER, "RERANKER": RERANKER, "LLM": MODEL, "EMBEDDING": EMBEDDING,
    "CHAIN": CHAIN, "AGENT": CHAIN, "TOOL": TOOL, "EVALUATOR": EVALUATOR, "GUARDRAIL": EVALUATOR,
}  # fmt: skip
_NO_MODEL = ("agent_step", "rerank", "retrieval", "embeddings")


def role(span: Span) -> str:
    """By ``openinference.span.kind``; translators use LLM for unknown kinds."""
    kind = span.attributes.get(_KIND)
    if kind == "LLM" and span.attributes.get("gen_ai.operation.name") in _NO_MODEL:
        return ""
    return "" if kind is None else _ROLES.get(str(kind).upper(), OTHER)


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    _read_context(attributes, facts)
    facts.evaluations += evaluations(span)
    if _KIND not in attributes:
        return
    if facts.role in (RETRIEVER, RERANKER, TOOL):
        _read_retrieval(span, facts)
    if facts.role == MODEL:
        _read_model(span, facts)
    elif facts.role in (CHAIN, RETRIEVER, RERANKER, TOOL):
        query = attributes.get("reranker.query") or attributes.get("input.value")
        facts.set_lazily(
            "query", asked_in if facts.role == CHAIN else question, query, "input.value"
        )
        if facts.role == CHAIN:
            facts.set("model", name(attributes.get("llm.model_name")), "llm.model_name")
            facts.set_lazily("answer", answer, attributes.get("output.value"), "output.value")
            facts.set_lazily(
                "passages", passages_in, attributes.get("output.value"), "output.value"
            )
    elif facts.role == EMBEDDING:
        _read_embedding(attributes, facts)


def _read_embedding(attributes: Attributes, facts: SpanFacts) -> None:
    """A single text is a query; several are an index in the making."""
    key = "embedding.embeddings.{}.embedding.text"
    sketched = attributes.get(EMBEDDING_SKETCH)
    facts.set("embedding_sketch", sketched, "embedding.embeddings.0.embedding.vector")
    if key.format(1) not in attributes:
        facts.set_lazily("query", plain, attributes.get(key.format(0)), key.format(0))


def _read_context(attributes: Attributes, facts: SpanFacts) -> None:
    facts.set("session_id", name(attributes.get("session.id")), "session.id")
    facts.set("user_id", name(attributes.get("user.id")), "user.id")
    facts.set_lazily("tags", tags_of, attributes.get("metadata"), "metadata")


def _read_retrieval(span: Span, facts: SpanFacts) -> None:
    """The documents; a retriever that ended well and shows none had none."""
    attributes = span.attributes
    output = attributes.get("output.value")
    if facts.role == TOOL:
        facts.set_lazily("documents", some_documents_in, output, "output.value")
        facts.set_lazily("passages", passages_in, output, "output.value")
        facts.set("tool_name", name(attributes.get("tool.name")) or span.name, "tool.name")
        facts.set_lazily("tool_text", _tool_text, output, "output.value")
        return
    key = "retrieval.documents" if facts.role == RETRIEVER else "reranker.output_documents"
    facts.set_lazily("documents", _listed(key), attributes, key)
    if span.status != ERROR:
        facts.set_lazily("documents", passages_in, output, "output.value")
        if facts.role == RETRIEVER and _is_empty(output) and not indexed(attributes, key):
            facts.set("documents", [], "output.value")
        elif facts.role == RETRIEVER and attributes.get("output.mime_type") == "text/plain":
            facts.set_lazily("answer", answer, output, "output.value")  # it retrieves and generates
            facts.set("model", name(attributes.get("llm.model_name")), "llm.model_name")
    if facts.role == RERANKER:
        facts.input_documents = _documents(attributes, "reranker.input_documents") or None


def _listed(key: str) -> Callable[[Attributes], list[Document] | None]:
    """Reads the flattened list; ids and scores that it lacks may stand in the output."""

    def read_list(attributes: Attributes) -> list[Document] | None:
        listed = _documents(attributes, key)
        if listed:
            return merged(listed, documents_in(attributes.get("output.value")))
        return [] if attributes.get(key) == [] else None

    return read_list


def _tool_text(output: Any) -> str | None:
    return last_text([loads(output)], "tool") or answer(output)


def _is_empty(output: Any) -> bool:
    """True when the output cannot hold documents."""
    return output in (None, "", "[]", "{}", "None", "null")


def _documents(attributes: Attributes, prefix: str) -> list[Document]:
    items = strip_prefix(indexed_whole(attributes, prefix), "document.")
    return [document_of(item) or Document() for item in items]


def _read_model(span: Span, facts: SpanFacts) -> None:
    attributes = span.attributes
    _read_messages(attributes, facts)
    key = "llm.response.model_name"
    facts.set("model", name(attributes.get(key)), key)
    key = "llm.model_name"
    facts.set("requested_model", name(attributes.get(key)), key)
    for field, key in (
        ("prompt_tokens", "llm.token_count.prompt"),
        ("completion_tokens", "llm.token_count.completion"),
    ):
        facts.set(field, integer(attributes.get(key)), key)
    facts.set("cost_usd", number(attributes.get("llm.cost.total")), "llm.cost.total")
    parameters = loads(attributes.get("llm.invocation_parameters"))
    if isinstance(parameters, dict):
        key = "llm.invocation_parameters"
        facts.set("requested_model", name(parameters.get("model")), key)


def _read_messages(attributes: Attributes, facts: SpanFacts) -> None:
    facts.set_lazily("query", _asked, attributes, "llm.input_messages")
    facts.set_lazily("query", asked_in, attributes.get("input.value"), "input.value")
    facts.set_lazily("answer", _replied, attributes, "llm.output_messages")
    facts.set_lazily("reply_id", reply_id, attributes.get("output.value"), "output.value")
    facts.set_lazily("answer", answer, attributes.get("output.value"), "output.value")


def _asked(attributes: Attributes) -> str | None:
    messages = [_message(each) for each in indexed(attributes, "llm.input_messages")]
    text = last_text(messages, "user")
    return asked(text) if text else None


def _replied(attributes: Attributes) -> str | None:
    messages = [_message(each) for each in indexed(attributes, "llm.output_messages")]
    text = last_text(messages, "assistant")
    return clean(text) if text else None


def _message(item: dict[str, Any]) -> dict[str, Any]:
    """``message.role``, ``message.content`` or ``message.contents.M.message_content.text``."""
    parts = indexed(item, "message.contents")
    texts = [part.get("message_content.text") for part in parts]
    content = item.get("message.content") or "\n".join(str(text) for text in texts if text)
    return {"role": item.get("message.role", ""), "content": content}


def evaluations(span: Span) -> list[SpanEvaluation]:
    """Inline annotations of the span, its trace or its session."""
    keys = span.attributes
    if not any("annotation" in key or "evaluation." in key for key in keys):
        return []
    return [
        _evaluation(item, scope.rstrip(".") or "span", from_nanoseconds(span.end_ns))
        for scope in ("", "trace.", "session.")
        for plural in ("annotation", "evaluation")
        for item in strip_prefix(indexed(keys, f"{scope}{plural}s"), f"{plural}.")
        if item.get("name")
    ]


def _evaluation(item: dict[str, Any], scope: str, timestamp: float) -> SpanEvaluation:
    label, explanation = item.get("label"), item.get("explanation")
    return SpanEvaluation(
        str(item["name"]),
        number(item.get("score")),
        str(label) if label is not None else None,
        str(explanation) if explanation is not None else None,
        str(item.get("annotator_kind") or "").upper(),
        str(item.get("identifier") or ""),
        scope,
        timestamp,
    )
