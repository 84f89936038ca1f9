"""Spans of instrumentations that no convention knows, read by what their keys and values mean.

The last words of a key say what it holds (``acme.span.input``, ``acme:output``, ``x.userId``), the
value says of which kind a step is, and documents are known by their form. What the conventions read
stays as it is. A step that is known by an input and an output alone is part of a query, never one.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from ragmon.sources.otlp.reading.documents import Document, passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    RERANKER,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.reading.reprs import arguments_in
from ragmon.sources.otlp.reading.usage import counted, model_in
from ragmon.sources.otlp.reading.values import (
    answer,
    asked_in,
    indexed_whole,
    integer,
    loads,
    name,
    number,
    question,
)
from ragmon.sources.otlp.spans import ERROR, Attributes, Span

# First words of OpenTelemetry's own attributes, which describe no step of a RAG application.
_STANDARD = frozenset(
    {"http", "url", "net", "network", "server", "client", "rpc", "messaging", "message", "db",
     "k8s", "cloud", "faas", "code", "thread", "process", "host", "os", "peer", "telemetry",
     "exception", "error", "aws", "azure", "gcp", "otel", "browser", "user_agent", "tls", "dns",
     "container", "feature_flag", "graphql", "system", "service", "deployment", "device", "file",
     "log", "event", "enduser", "event_loop", "sender", "recipient"}
)  # fmt: skip
_NO_ID = ("default", "unknown", "none", "null", "anonymous")
_WORDS = {
    "kind": ("span_type", "span_kind", "observation_type", "run_type", "step_type", "event_type",
             "subtype", "node_type", "type", "kind"),
    "query": ("question", "user_question", "user_query", "user_input", "query_text", "search_query",
              "query"),
    "input": ("input", "inputs", "input_value", "request_data", "request"),
    "messages": ("input_messages", "prompt_messages", "messages"),
    "arguments": ("args", "arguments", "kwargs", "arg_values", "function_args"),
    "output": ("output", "outputs", "output_value", "return", "response_data", "response",
               "response_text", "completion", "result"),
    "documents": ("documents", "retrieved_documents", "docs", "contexts", "retrieved_contexts",
                  "retrieval_context", "retrieved_context",
                  "rag_contexts", "chunks", "passages", "retrieval_results", "nodes"),
    "model": ("response_model", "model", "model_name", "model_id", "request_model"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "num_prompt_tokens", "num_input_tokens",
                      "prompt_token_count", "input_token_count", "tokens_prompt", "tokens_input"),
    "completion_tokens": ("completion_tokens", "output_tokens", "num_completion_tokens",
                          "num_output_tokens", "completion_token_count", "output_token_count",
                          "tokens_completion", "tokens_output"),
    "session_id": ("session_id", "conversation_id", "thread_id", "chat_id"),
    "user_id": ("user_id", "end_user_id", "enduser_id", "user"),
    "metadata": ("metadata",),
    "usage": ("usage", "metrics", "token_usage"),
    "name": ("name",),
}  # fmt: skip
_MEANINGS = {
    word: (rank, field) for field, words in _WORDS.items() for rank, word in enumerate(words)
}
_KINDS = {
    RETRIEVER: ("retriever", "retrieval", "retrieve", "rag", "search", "vector_search"),
    RERANKER: ("reranker", "rerank", "reranking"),
    MODEL: ("llm", "generation", "model", "chat", "chat_model", "completion", "text_completion"),
    EMBEDDING: ("embedding", "embeddings", "embedder", "embed"),
    TOOL: ("tool", "tool_call", "function_call"),
    EVALUATOR: ("evaluator", "evaluation", "eval", "eval_root", "guardrail"),
    CHAIN: ("chain", "workflow", "agent", "flow", "pipeline", "record_root", "graph_task",
            "graph_node", "workflow_step"),
}  # fmt: skip
_ROLES = {word: role for role, words in _KINDS.items() for word in words}
_INDEXED = re.compile(r"(.{1,200}?)\.\d{1,5}\.")  # x.outputs.result.0.text
_MOST_LISTS = 3
_VAGUE = ("type", "kind")  # what else a span says must show that a step is meant
_SEPARATORS = re.compile(r"[.:/\s-]+")
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CONTENT = ("query", "input", "arguments", "output", "documents")


class Plan(NamedTuple):
    """The keys of a span by what they hold, the surest first."""

    keys: dict[str, tuple[str, ...]]

    def of(self, field: str) -> tuple[str, ...]:
        """The keys for a field."""
        return self.keys.get(field, ())


def plan_of(names: Iterable[str]) -> Plan:
    """The meaning of each of these keys; keys without any are left out."""
    ranked: dict[str, list[tuple[int, str]]] = {}
    for key in names:
        meaning = _meaning(key)
        if meaning is not None:
            rank, field = meaning
            ranked.setdefault(field, []).append((rank, key))
        elif (indexed := _INDEXED.match(key)) is not None:
            _add_list(ranked.setdefault("lists", []), indexed[1])
    return Plan({field: tuple(key for _, key in sorted(keys)) for field, keys in ranked.items()})


def _add_list(lists: list[tuple[int, str]], prefix: str) -> None:
    """Note a list that was taken apart, if it may be one of documents."""
    if len(lists) == _MOST_LISTS or any(prefix == known for _, known in lists):
        return
    meaning = _meaning(prefix)
    if meaning is not None and meaning[1] in ("documents", "output"):
        lists.append((len(lists), prefix))


def _meaning(key: str) -> tuple[int, str] | None:
    """Field of a key by its last two words, or its last one, with a rank."""
    words = _SEPARATORS.split(_NEW_WORD.sub("_", key[:200]).lower())
    if words[0] in _STANDARD and len(words) > 1:
        return None
    two = _MEANINGS.get("_".join(words[-2:])) if len(words) > 1 else None
    return two or _MEANINGS.get(words[-1])


def role_of(span: Span, plan: Plan) -> str:
    """The kind of a step that no convention knows; empty when it does not look like one."""
    kinds = [kind for key in plan.of("kind") if (kind := _kind(span, key, plan))]
    role = next((kind for kind in kinds if kind != CHAIN), kinds[0] if kinds else "")
    if role:
        return role
    if plan.of("model") and plan.of("completion_tokens"):
        return MODEL
    return ""


def _kind(span: Span, key: str, plan: Plan) -> str:
    value = span.attributes[key]
    if value.__class__ is not str or len(value) > 40:
        return ""
    word = _NEW_WORD.sub("_", value.strip()).replace("-", "_").replace(" ", "_").lower()
    role = _ROLES.get(word, "")
    last = _SEPARATORS.split(_NEW_WORD.sub("_", key))[-1].lower()
    is_step = last not in _VAGUE or "span" in key.lower() or _is_pair(plan)
    fields = ("messages", *_CONTENT) if role == MODEL else _CONTENT
    return role if is_step and any(plan.of(field) for field in fields) else ""


def _is_pair(plan: Plan) -> bool:
    """True for a step that recorded what went in and what came out."""
    asked = plan.of("input") or plan.of("arguments") or plan.of("query")
    return bool(asked and plan.of("output"))


def is_step(plan: Plan) -> bool:
    """True for what may be a step of a query: it recorded an input, and an output or a failure."""
    return bool(plan.of("input") or plan.of("arguments") or plan.of("query"))


def fill(span: Span, facts: SpanFacts, plan: Plan, *, understood: bool) -> None:
    """Note what the conventions left open.

    Args:
        span: whatever it is.
        facts: as the conventions read them.
        plan: of the names of its attributes.
        understood: a convention knows the kind of step; its own keys say the rest.
    """
    attributes = span.attributes
    for field in ("session_id", "user_id"):
        for key in plan.of(field):
            facts.set(field, _id(attributes[key]), key)
    if not understood:
        for key in plan.of("metadata"):
            _read_metadata(attributes[key], key, facts)
        _read_content(span, facts, plan)
    elif facts.role == CHAIN:
        _read_arguments(attributes, plan, facts)


def _read_metadata(value: Any, key: str, facts: SpanFacts) -> None:
    """Session and user in an object beside the content."""
    structure = loads(value)
    if not isinstance(structure, dict):
        return
    inner = plan_of(str(each) for each in structure)
    for field in ("session_id", "user_id"):
        for name_inside in inner.of(field):
            facts.set(field, _id(structure.get(name_inside)), key)


def _id(value: Any) -> str | None:
    """An id; None for what stands in for one."""
    text = name(value)
    return None if text is None or text.lower() in _NO_ID or " " in text else text


def _read_content(span: Span, facts: SpanFacts, plan: Plan) -> None:
    attributes, role = span.attributes, facts.role
    if role == MODEL:
        _read_model(attributes, facts, plan)
    asked = asked_in if role == MODEL else question
    for key in (*plan.of("query"), *plan.of("input"), *_messages(role, plan)):
        facts.set_lazily("query", asked, attributes[key], key)
    _read_arguments(attributes, plan, facts)
    if span.status == ERROR:
        return
    if role in (RETRIEVER, RERANKER):
        _read_documents(attributes, facts, plan)
    elif role == TOOL:
        _read_tool(span, facts, plan)
    else:
        for key in plan.of("output"):
            facts.set_lazily("answer", answer, attributes[key], key)
            if role != MODEL:
                facts.set_lazily("passages", passages_in, attributes[key], key)


def _messages(role: str, plan: Plan) -> tuple[str, ...]:
    """Keys of a conversation, which only a model's step is asked with."""
    return plan.of("messages") if role == MODEL else ()


def _read_documents(attributes: Attributes, facts: SpanFacts, plan: Plan) -> None:
    for key in plan.of("documents"):
        facts.set_lazily("documents", passages_in, attributes[key], key)
    for key in plan.of("output"):
        facts.set_lazily("documents", _returned, attributes[key], key)
    for prefix in plan.of("lists"):
        facts.set_lazily(
            "documents", passages_in, indexed_whole(attributes, prefix) or None, prefix
        )


def _read_tool(span: Span, facts: SpanFacts, plan: Plan) -> None:
    facts.set("tool_name", span.name, "name")
    for key in plan.of("output"):
        facts.set_lazily("documents", some_documents_in, span.attributes[key], key)
        facts.set_lazily("passages", passages_in, span.attributes[key], key)
        facts.set_lazily("tool_text", answer, span.attributes[key], key)
    for prefix in plan.of("lists"):
        rebuilt = indexed_whole(span.attributes, prefix)
        facts.set_lazily("documents", some_documents_in, rebuilt, prefix)


def _returned(value: Any) -> list[Document] | None:
    """The documents that a retriever returned; an empty object holds none."""
    documents = passages_in(value)
    return [] if documents is None and loads(value) == {} else documents


def _read_arguments(attributes: Attributes, plan: Plan, facts: SpanFacts) -> None:
    """Arguments of a traced function; what is taken by its form carries its doubt."""
    keys = plan.of("arguments")
    if keys:
        facts.set_lazily("query", _asked_by, [attributes[key] for key in keys], keys[0])


def _asked_by(arguments: list[Any]) -> str | None:
    structures = [arguments_in(each) for each in arguments]
    placed = [each for one in structures if isinstance(one, list) for each in one]
    named = {key: each for one in structures if isinstance(one, dict) for key, each in one.items()}
    return question({"args": placed, "kwargs": named}) if placed or named else None


def _read_model(attributes: Attributes, facts: SpanFacts, plan: Plan) -> None:
    for key in plan.of("model"):
        facts.set("model", name(attributes[key]), key)
    if any(attributes[key] == "model" for key in plan.of("kind")):  # an action named after it
        for key in sorted(plan.of("name"), key=len)[:1]:
            facts.set("requested_model", name(attributes[key]), key)
    for key in plan.of("output"):
        facts.set_lazily("model", model_in, attributes[key], key)
    for side in ("prompt", "completion"):
        _read_tokens(side, attributes, facts, plan)
    for key in plan.of("usage"):
        facts.set_lazily("cost_usd", _cost_in, attributes[key], key)


def _read_tokens(side: str, attributes: Attributes, facts: SpanFacts, plan: Plan) -> None:
    field = f"{side}_tokens"
    for key in plan.of(field):
        facts.set(field, integer(attributes[key]), key)
    for key in (*plan.of("usage"), *plan.of("output")):
        facts.set_lazily(field, partial(counted, side=side), attributes[key], key)


def _cost_in(usage: Any) -> float | None:
    structure = loads(usage)
    return number(structure.get("cost")) if isinstance(structure, dict) else None
