"""Haystack's own tracer: a span a component, values as JSON, content only where it was switched on.

A component is told by its sockets, which are always sent: a retriever takes a query and gives
documents, whatever it is called.
"""

from ragmon.sources.otlp.documents import passages_in
from ragmon.sources.otlp.facts import CHAIN, EMBEDDING, MODEL, OTHER, RERANKER, RETRIEVER, Facts
from ragmon.sources.otlp.spans import ERROR, Span
from ragmon.sources.otlp.usage import completion_tokens_in, model_in, prompt_tokens_in
from ragmon.sources.otlp.values import answer, asked_in, loads, question

ORDER = 45
SPEAKS = frozenset({"haystack"})

_COMPONENT = "haystack.component."
_QUERIES = frozenset({"query", "queries", "query_embedding", "query_sparse_embedding", "text"})
_REPLIES = frozenset({"replies", "answers", "last_message"})
_INPUT, _OUTPUT = f"{_COMPONENT}input", f"{_COMPONENT}output"
_GIVEN, _RETURNED = "haystack.pipeline.input_data", "haystack.pipeline.output_data"
_AGENT_GIVEN, _AGENT_RETURNED = "haystack.agent.input", "haystack.agent.output"


def role(span: Span) -> str:
    """By what a component takes and gives; pipelines and agents are chains."""
    kind = span.attributes.get(f"{_COMPONENT}type")
    if kind is None:
        return CHAIN if span.name.startswith(("haystack.pipeline", "haystack.agent")) else ""
    takes, gives = _sockets(span, "input"), _sockets(span, "output")
    if "documents" in gives and not takes.isdisjoint(_QUERIES):
        if not gives.isdisjoint(_REPLIES):
            return CHAIN  # a pipeline that looks like a component
        return RERANKER if "documents" in takes else RETRIEVER
    if "replies" in gives:
        return MODEL
    if gives & {"embedding", "sparse_embedding"} or str(kind).endswith("Embedder"):
        return EMBEDDING
    return CHAIN if "last_message" in gives else OTHER


def _sockets(span: Span, side: str) -> set[str]:
    held = loads(span.attributes.get(f"{_COMPONENT}{side}_spec"))
    return set(held) if isinstance(held, dict) else set()


def read(span: Span, facts: Facts) -> None:
    """Note what the span says."""
    attributes = span.attributes
    given, returned = loads(attributes.get(_INPUT)), attributes.get(_OUTPUT)
    if facts.role in (RETRIEVER, RERANKER):
        facts.offer("query", question, given, _INPUT)
        if span.status != ERROR:
            facts.offer("documents", passages_in, returned, _OUTPUT)
        if facts.role == RERANKER and isinstance(given, dict):
            facts.input_documents = passages_in(given.get("documents")) or None
    elif facts.role == MODEL:
        facts.offer("query", asked_in, given, _INPUT)
        facts.offer("answer", answer, returned, _OUTPUT)
        facts.offer("model", model_in, returned, _OUTPUT)
        facts.offer("prompt_tokens", prompt_tokens_in, returned, _OUTPUT)
        facts.offer("completion_tokens", completion_tokens_in, returned, _OUTPUT)
    elif facts.role == CHAIN:
        for field, read_as, keys in (
            ("query", question, (_GIVEN, _AGENT_GIVEN, _INPUT)),
            ("answer", answer, (_RETURNED, _AGENT_RETURNED, _OUTPUT)),
        ):
            for key in keys:
                facts.offer(field, read_as, attributes.get(key), key)
