"""LlamaIndex's own OpenTelemetry package: all content stands in the events of its spans."""

from ragmon.sources.otlp.reading.documents import passages_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    MODEL,
    PART,
    RERANKER,
    RETRIEVER,
    SpanFacts,
)
from ragmon.sources.otlp.reading.values import answer, asked_in, integer, name, question
from ragmon.sources.otlp.spans import Span

ORDER = 60

_EVENTS = {
    "RetrievalStartEvent": RETRIEVER, "RetrievalEndEvent": RETRIEVER,
    "ReRankStartEvent": RERANKER, "ReRankEndEvent": RERANKER,
    "LLMPredictStartEvent": MODEL, "LLMPredictEndEvent": MODEL,
    "LLMChatStartEvent": MODEL, "LLMChatEndEvent": MODEL,
    "LLMCompletionStartEvent": MODEL, "LLMCompletionEndEvent": MODEL,
    "EmbeddingStartEvent": EMBEDDING, "EmbeddingEndEvent": EMBEDDING,
    "QueryStartEvent": CHAIN, "QueryEndEvent": CHAIN,
    "AgentChatWithStepStartEvent": CHAIN, "AgentChatWithStepEndEvent": CHAIN,
    "SynthesizeStartEvent": CHAIN, "SynthesizeEndEvent": CHAIN,
    "StreamChatStartEvent": CHAIN, "StreamChatEndEvent": CHAIN,
}  # fmt: skip
SPEAKS = frozenset(_EVENTS)
_QUERIES = ("query.query_str", "query", "str_or_query_bundle.query_str", "str_or_query_bundle",
            "user_msg")  # fmt: skip
_ANSWERS = ("response.response", "response", "output", "response.message.blocks",
            "response.message.content", "response.text")  # fmt: skip
_USAGES = ("response.raw.usage", "response.additional_kwargs")


def role(span: Span) -> str:
    """By its events; a stream runs in a trace of its own, beside the trace of its query."""
    names = {event.name for event in span.events}
    if not span.parent_id and "LLMPredictStartEvent" in names and len(names) == 1:
        return PART
    return next((_EVENTS[event.name] for event in span.events if event.name in _EVENTS), "")


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of the events."""
    for event in span.events:
        if _EVENTS.get(event.name) != facts.role:
            continue
        values = {key: value for key, value in event.attributes.items() if value != "null"}
        if facts.role in (CHAIN, RETRIEVER, RERANKER):
            for key in _QUERIES:
                facts.set_lazily("query", question, values.get(key), f"{event.name} {key}")
        if facts.role in (RETRIEVER, RERANKER) and event.name.endswith("EndEvent"):
            facts.set_lazily("documents", passages_in, values.get("nodes"), f"{event.name} nodes")
        elif facts.role in (CHAIN, MODEL):
            for key in _ANSWERS:
                facts.set_lazily("answer", answer, values.get(key), f"{event.name} {key}")
        if facts.role == MODEL:
            _read_model(values, event.name, facts)


def _read_model(values: dict[str, object], event: str, facts: SpanFacts) -> None:
    for key in ("messages", "prompt"):
        facts.set_lazily("query", asked_in, values.get(key), f"{event} {key}")
    for field, key in (
        ("model", "response.raw.model"),
        ("requested_model", "model_dict.model_name"),
        ("requested_model", "model_dict.model"),
    ):
        facts.set(field, name(values.get(key)), f"{event} {key}")
    for field, kinds in (
        ("prompt_tokens", ("prompt_tokens", "input_tokens")),
        ("completion_tokens", ("completion_tokens", "output_tokens")),
    ):
        for key in (f"{usage}.{kind}" for usage in _USAGES for kind in kinds):
            facts.set(field, integer(values.get(key)), f"{event} {key}")
