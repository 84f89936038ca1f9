"""Spring AI: ``spring.ai.*`` beside ``gen_ai.*`` and ``db.*``; its content is opt-in.

Lists are texts in quotes that are not escaped. A search without results is not recorded.
Source: spring-projects/spring-ai, reference/observability.
"""

from typing import Any

from ragmon.sources.otlp.reading.documents import Document, passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, OTHER, RETRIEVER, TOOL, SpanFacts
from ragmon.sources.otlp.reading.values import answer, asked, first, loads, name, plain, question
from ragmon.sources.otlp.spans import Attributes, Span

ORDER = 55
SPEAKS = frozenset({"spring", "gen_ai"})

_ROLES = {"chat_client": CHAIN, "advisor": OTHER, "tool_call": TOOL}
_FOUND = "db.vector.query.response.documents"
_ASKED = ("gen_ai.prompt", "spring.ai.chat.client.user.text")
_REPLIED = "gen_ai.completion"
_SESSION = "spring.ai.chat.client.conversation.id"


def role(span: Span) -> str:
    """By ``spring.ai.kind``; calls of models are left to ``gen_ai.operation.name``."""
    attributes = span.attributes
    kind = attributes.get("spring.ai.kind")
    if kind == "vector_store":
        return RETRIEVER if attributes.get("db.operation.name") == "query" else OTHER
    return _ROLES.get(str(kind), "")


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    if attributes.get(_SESSION) != "default":
        facts.set("session_id", name(attributes.get(_SESSION)), _SESSION)
    if facts.role in (MODEL, CHAIN):
        if entry := first(attributes, *_ASKED):
            facts.set_lazily("query", _last, *entry)
        facts.set_lazily("answer", _last, attributes.get(_REPLIED), _REPLIED)
    elif attributes.get("spring.ai.kind") == "vector_store":
        key = "db.vector.query.content"
        facts.set("query", plain(attributes.get(key)), key)
        in_events = [event.attributes.get(_FOUND) for event in span.events]
        for raw in (attributes.get(_FOUND), *in_events):
            facts.set_lazily("documents", _documents, raw, _FOUND)
    elif facts.role == TOOL:
        _read_tool(attributes, facts)


def _read_tool(attributes: Attributes, facts: SpanFacts) -> None:
    key = "spring.ai.tool.definition.name"
    facts.set("tool_name", name(attributes.get(key)), key)
    key = "spring.ai.tool.call.arguments"
    facts.set_lazily("query", question, attributes.get(key), key)
    key = "spring.ai.tool.call.result"
    result = attributes.get(key)
    facts.set_lazily("documents", some_documents_in, result, key)
    facts.set_lazily("passages", passages_in, result, key)
    facts.set_lazily("tool_text", answer, result, key)


def _texts(value: Any) -> list[str]:
    """The texts in ``["one", "two"]``, with quotes and line breaks as they are."""
    structure = loads(value)
    if isinstance(structure, list):
        return [each for each in structure if isinstance(each, str)]
    if isinstance(structure, str) and structure.startswith('["') and structure.endswith('"]'):
        return structure[2:-2].split('", "')
    return [structure] if isinstance(structure, str) else []


def _last(value: Any) -> str | None:
    texts = _texts(value)
    text = plain(texts[-1]) if texts else None
    return asked(text) if text else None


def _documents(value: Any) -> list[Document] | None:
    return [Document(text=each) for each in _texts(value)] or None
