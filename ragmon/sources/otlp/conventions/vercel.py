"""Vercel AI SDK (``experimental_telemetry``): ``ai.*`` keys, values as JSON strings.

``ai.generateText`` is the whole call with its tools, ``ai.generateText.doGenerate`` one step of it:
only the steps are calls of the model. Version 7 writes ``gen_ai.*`` and keeps these keys for what
those lack.
"""

from typing import Any

from ragmon.sources.otlp.reading.documents import (
    Document,
    document_of,
    passages_in,
    some_documents_in,
)
from ragmon.sources.otlp.reading.facts import CHAIN, EMBEDDING, MODEL, RERANKER, TOOL, SpanFacts
from ragmon.sources.otlp.reading.metadata import read_metadata
from ragmon.sources.otlp.reading.values import (
    answer,
    asked_in,
    first,
    integer,
    loads,
    name,
    number,
    plain,
    question,
)
from ragmon.sources.otlp.spans import Attributes, Span

ORDER = 35
SPEAKS = frozenset({"ai"})

_CALLS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_METADATA = ("ai.telemetry.metadata.", "ai.settings.context.")
_SESSIONS = (
    "sessionId", "session_id", "session.id", "conversationId", "conversation_id", "chatId",
    "chat_id", "threadId", "thread_id", "langfuseSessionId",
)  # fmt: skip
_USERS = ("userId", "user_id", "user.id", "langfuseUserId")


def role(span: Span) -> str:
    """By ``ai.operationId``."""
    operation = str(span.attributes.get("ai.operationId", ""))
    if operation.startswith(_CALLS):
        return CHAIN if operation in _CALLS else MODEL
    if operation.startswith("ai.embed"):
        return EMBEDDING
    if operation.startswith("ai.rerank"):
        return RERANKER
    return TOOL if operation == "ai.toolCall" else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    for prefix in _METADATA:
        read_metadata(span.attributes, prefix, facts, sessions=_SESSIONS, users=_USERS)
    if facts.role == TOOL:
        _read_tool(span, facts)
    elif facts.role in (CHAIN, MODEL):
        _read_call(span, facts)
    elif facts.role == EMBEDDING:
        facts.set_lazily("query", question, span.attributes.get("ai.value"), "ai.value")
    elif facts.role == RERANKER:
        _read_ranking(span.attributes, facts)


def _read_tool(span: Span, facts: SpanFacts) -> None:
    key = "ai.toolCall.result"
    result = span.attributes.get(key)
    facts.set_lazily("query", question, span.attributes.get("ai.toolCall.args"), "ai.toolCall.args")
    facts.set_lazily("documents", some_documents_in, result, key)
    facts.set_lazily("passages", passages_in, result, key)
    facts.set(
        "tool_name", name(span.attributes.get("ai.toolCall.name")) or span.name, "ai.toolCall.name"
    )
    facts.set_lazily("tool_text", answer, result, key)


def _read_call(span: Span, facts: SpanFacts) -> None:
    attributes = span.attributes
    for key in ("ai.prompt.messages", "ai.prompt"):
        facts.set_lazily("query", asked_in, attributes.get(key), key)
    for key in ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"):
        facts.set_lazily("answer", _replied, attributes.get(key), key)
    for field, key in (("model", "ai.response.model"), ("requested_model", "ai.model.id")):
        facts.set(field, name(attributes.get(key)), key)
    for field, keys in (
        ("prompt_tokens", ("ai.usage.promptTokens", "ai.usage.inputTokens")),
        ("completion_tokens", ("ai.usage.completionTokens", "ai.usage.outputTokens")),
    ):
        if entry := first(attributes, *keys):
            facts.set(field, integer(entry[0]), entry[1])


def _replied(value: Any) -> str | None:
    """The text, or the object that was asked for as it is."""
    return answer(value) or plain(value)


def _read_ranking(attributes: Attributes, facts: SpanFacts) -> None:
    """The documents as they were given, and in the order of ``ai.ranking``."""
    documents = _structures(attributes.get("ai.documents"))
    facts.input_documents = [_document(entry) for entry in documents] or None
    ranking = [
        entry for entry in _structures(attributes.get("ai.ranking")) if isinstance(entry, dict)
    ]
    ranked = [
        Document(document.id, number(entry.get("relevanceScore")), document.text, document.source)
        for entry in ranking
        if (place := integer(entry.get("index"))) is not None and place < len(documents)
        for document in [_document(documents[place])]
    ]
    facts.set("documents", ranked or None, "ai.ranking")


def _document(item: Any) -> Document:
    return document_of(item, texts=True) or Document()


def _structures(value: Any) -> list[Any]:
    """A list of JSON strings, or one JSON string that is a list."""
    structure = loads(value)
    return [loads(each) for each in structure] if isinstance(structure, list) else []
