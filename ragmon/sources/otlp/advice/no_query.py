"""Traces in which no query was found: what they hold, and what would make one of them."""

from collections.abc import Sequence
from typing import NamedTuple

from ragmon.sources.otlp.advice.frameworks import WHOLE, line_for
from ragmon.sources.otlp.advice.unread import unread_attribute
from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.traces.mapping import reason_for_none
from ragmon.sources.otlp.traces.tree import Node

_VERDICTS = {
    "evaluation": "no query: an evaluation or feedback",
    "embeddings": "no query: embeddings without retrieval, as an indexing run makes them",
    "only_logs": "no query: log events with content came, their spans did not. Export traces as "
    "well (OTEL_TRACES_EXPORTER=otlp), and keep the traces whose logs you keep",
    "no_step": "no query: no span retrieves or generates. A span does that is called retrieval or "
    "chat by gen_ai.operation.name, or RETRIEVER or LLM by openinference.span.kind, or a root of "
    "kind CHAIN with input and output",
}
_MOST_NAMED = 5
_LONGEST = 60  # characters of a name
_WRITES = frozenset(
    {"add", "upsert", "insert", "write", "update", "delete", "create_collection", "put", "index",
     "create_index", "add_documents", "insert_many", "bulk"}
)  # fmt: skip
_SEARCHES = frozenset({"query", "search", "get", "select", "retrieve"})


class QueryRemedy(NamedTuple):
    """Description of a trace, the change that makes a query of it, and the line that does."""

    text: str
    line: str


NOTHING = QueryRemedy("", "")
"""There is nothing to do."""


def why_no_query(nodes: Sequence[Node]) -> tuple[str, QueryRemedy]:
    """The reason why a trace holds no query, and what would make it one."""
    reason = reason_for_none(nodes)
    if reason != "no_step":
        return _VERDICTS[reason], NOTHING
    spans = [node.span for node in nodes]
    instruments = sorted({span.scope for span in spans if span.scope})
    from_ = f" (spans of {', '.join(instruments[:_MOST_NAMED])})" if instruments else ""
    if any(node.facts.evaluations for node in nodes):
        return _VERDICTS["evaluation"], NOTHING
    return _VERDICTS[reason] + from_, _remedy(spans)


def _remedy(spans: Sequence[Span]) -> QueryRemedy:
    if _is_indexing(spans):
        text = "Seen: documents are written into an index. An indexing run is no query; nothing "
        return QueryRemedy(f"{text}to do.", "")
    names = list(dict.fromkeys(_short(span.name) for span in spans))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    seen = f"Seen: {', '.join(f'`{name}`' for name in names[:_MOST_NAMED])}{more}."
    unread = {field: unread_attribute(field, spans) for field in ("query", "answer", "chunks")}
    language = spans[0].resource.language
    whole, _ = line_for(WHOLE, [], language)
    likely = [
        f"the {_CALLED[field]} in `{attribute.key}` of `{_short(attribute.span)}`"
        for field, attribute in unread.items()
        if attribute is not None
    ]
    if likely:
        chunks, _ = line_for("chunks", [], language)
        only_chunks = unread["query"] is None and unread["answer"] is None
        text = f"{seen} There may be {' and '.join(likely)}: write them where they are read."
        return QueryRemedy(text, chunks if only_chunks else whole)
    text = (
        f"{seen} None of their attributes holds a text of a question or an answer. If this is a "
        "query, record both on its outermost span, or instrument its framework or model client; "
        "if it is other software, there is nothing to do."
    )
    return QueryRemedy(text, whole)


def _is_indexing(spans: Sequence[Span]) -> bool:
    """True when something is written into a database, and nothing is searched."""
    operations = set()
    for span in spans:
        operation = span.attributes.get("db.operation.name") or span.attributes.get("db.operation")
        is_database = any(key.startswith("db.") for key in span.attributes)
        if operation or is_database:
            operations.add(str(operation or span.name.rpartition(".")[2]).lower())
        elif "documents_written" in str(span.attributes)[:_MOST_SEARCHED]:
            operations.add("write")
    return bool(operations & _WRITES) and not operations & _SEARCHES


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


_CALLED = {"query": "question", "answer": "answer", "chunks": "passages"}
_MOST_SEARCHED = 20_000  # characters of a span's attributes
