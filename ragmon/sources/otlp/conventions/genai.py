"""OpenTelemetry GenAI, as it is and as it was: structured values or JSON strings, old names too.

Content is opt-in: a retrieval span without documents does not mean that none were found.
Source: open-telemetry/semantic-conventions-genai.
"""

from typing import Any

from ragmon.event_time import from_nanoseconds
from ragmon.sources.otlp.reading.documents import passages_in, some_documents_in
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    RERANKER,
    RETRIEVER,
    TOOL,
    SpanEvaluation,
    SpanFacts,
)
from ragmon.sources.otlp.reading.messages import last_text
from ragmon.sources.otlp.reading.values import (
    answer,
    asked,
    asked_in,
    first,
    indexed,
    integer,
    loads,
    name,
    number,
    plain,
    question,
)
from ragmon.sources.otlp.spans import ERROR, Attributes, Event, Span

ORDER = 50
SPEAKS = frozenset({"gen_ai", "enduser", "session", "user", "exception", "error"})

_ROLES = {
    "retrieval": RETRIEVER, "retrieve": RETRIEVER, "rerank": RERANKER, "chat": MODEL,
    "text_completion": MODEL, "generate_content": MODEL, "completion": MODEL,
    "embeddings": EMBEDDING, "embedding": EMBEDDING, "invoke_workflow": CHAIN,
    "invoke_agent": CHAIN, "create_agent": CHAIN, "execute_task": CHAIN, "execute_tool": TOOL,
    "chat.completions": MODEL, "text.completions": MODEL,  # Semantic Kernel
    # MLflow passes its own types on where the convention has no name for them
    "retriever": RETRIEVER, "reranker": RERANKER, "chain": CHAIN, "workflow": CHAIN,
    "task": CHAIN, "unknown": CHAIN, "evaluator": EVALUATOR, "guardrail": EVALUATOR,
}  # fmt: skip
_INVOKED = ("invoke_agent", "invoke_workflow")
_ANSWERS = ("gen_ai.choice", "gen_ai.content.completion")
_QUESTIONS = ("gen_ai.user.message", "gen_ai.content.prompt")
_REPLY = "gen_ai.assistant.message"  # of the history, unless it comes after the question
_PROMPT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.response.prompt_tokens",
)  # fmt: skip - the last one by Semantic Kernel in .NET
_COMPLETION_TOKENS = (
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
    "gen_ai.response.completion_tokens",
)  # fmt: skip
_TOOL_CALLED, _TOOL_RETURNED = "gen_ai.tool.message", "gen_ai.choice"
_OF_MODEL = (
    "gen_ai.input.messages", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.system",
    "gen_ai.provider.name", "gen_ai.usage.output_tokens", "gen_ai.completion.0.content",
)  # fmt: skip
_PARAMETERS = "gen_ai.request.parameters"  # of TraceAI, as JSON
_MISSING = "none"  # what Micrometer writes where nothing was answered
_DETAILS = "gen_ai.client.inference.operation.details"
EVALUATION = "gen_ai.evaluation.result"


def role(span: Span) -> str:
    """By ``gen_ai.operation.name``."""
    attributes = span.attributes
    known = _ROLES.get(str(attributes.get("gen_ai.operation.name", "")).lower(), "")
    if known or "gen_ai.operation.name" in attributes:
        return known
    if "gen_ai.completion.0.content" in attributes or "gen_ai.output.messages" in attributes:
        return MODEL if any(key in attributes for key in _OF_MODEL) else CHAIN
    if "gen_ai.retrieval.documents" in attributes or "gen_ai.retrieval.query.text" in attributes:
        return RETRIEVER
    if "gen_ai.request.model" not in attributes:
        return ""
    is_call = "gen_ai.usage.output_tokens" in attributes or span.status == ERROR
    return MODEL if is_call and "embed" not in span.name.lower() else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    for field, keys in (
        ("session_id", ("session.id", "gen_ai.conversation.id")),
        ("user_id", ("user.id", "enduser.id", "gen_ai.request.user")),
    ):
        if entry := first(attributes, *keys):
            facts.set(field, name(entry[0]), entry[1])
    for event in span.events:
        if event.name == EVALUATION:
            facts.evaluations.append(evaluation_of(event))
    if facts.role in (RETRIEVER, RERANKER):
        _read_retrieval(attributes, facts)
    elif facts.role == MODEL:
        _read_model(span, facts)
    elif facts.role == TOOL:
        tool = name(attributes.get("gen_ai.tool.name")) or span.name
        facts.set("tool_name", tool, "gen_ai.tool.name")
        _read_tool(span, facts)
    elif facts.role == CHAIN:
        _read_messages(span, facts)
        if attributes.get("gen_ai.operation.name") in _INVOKED and not _is_traceloop(attributes):
            facts.set("invoked", True, "gen_ai.operation.name")


def _is_traceloop(attributes: Attributes) -> bool:
    return any(key.startswith("traceloop.") for key in attributes)  # it says so of every chain


def _read_tool(span: Span, facts: SpanFacts) -> None:
    """Arguments and result of a tool, as attributes or as events of one message each."""
    attributes = span.attributes
    called, returned = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
    events = {event.name: _content(event) for event in span.events}
    for key, value in ((returned, attributes.get(returned)),
                       (_TOOL_RETURNED, events.get(_TOOL_RETURNED))):  # fmt: skip
        facts.set_lazily("documents", some_documents_in, value, key)
        facts.set_lazily("passages", passages_in, value, key)
        facts.set_lazily("tool_text", answer, value, key)
    facts.set_lazily("query", question, attributes.get(called), called)
    facts.set_lazily("query", question, events.get(_TOOL_CALLED), _TOOL_CALLED)


def _read_retrieval(attributes: Attributes, facts: SpanFacts) -> None:
    key = "gen_ai.retrieval.query.text"
    facts.set_lazily("query", plain, attributes.get(key), key)
    key = "gen_ai.retrieval.documents"
    facts.set_lazily("documents", passages_in, attributes.get(key), key)


def _read_model(span: Span, facts: SpanFacts) -> None:
    attributes = span.attributes
    _read_messages(span, facts)
    for field, key in (
        ("model", "gen_ai.response.model"),
        ("requested_model", "gen_ai.request.model"),
    ):
        if attributes.get(key) != _MISSING:
            facts.set(field, name(attributes.get(key)), key)
    facts.set_lazily("requested_model", _model_in, attributes.get(_PARAMETERS), _PARAMETERS)
    for field, keys in (
        ("prompt_tokens", _PROMPT_TOKENS),
        ("completion_tokens", _COMPLETION_TOKENS),
    ):
        if entry := first(attributes, *keys):
            facts.set(field, integer(entry[0]), entry[1])
    facts.set("cost_usd", number(attributes.get("gen_ai.usage.cost")), "gen_ai.usage.cost")
    facts.set("response_id", name(attributes.get("gen_ai.response.id")), "gen_ai.response.id")


def _model_in(parameters: Any) -> str | None:
    structure = loads(parameters)
    return name(structure.get("model")) if isinstance(structure, dict) else None


def _read_messages(span: Span, facts: SpanFacts) -> None:
    """The conversation: messages, the indexed keys of before 1.37, or events."""
    attributes = span.attributes
    key = "gen_ai.input.messages"
    facts.set_lazily("query", asked_in, attributes.get(key), key)
    facts.set_lazily("query", _asked, attributes, "gen_ai.prompt")
    key = "gen_ai.output.messages"
    facts.set_lazily("answer", answer, attributes.get(key), key)
    facts.set_lazily("answer", _replied, attributes, "gen_ai.completion")
    for event in span.events:  # the same keys, where content is an event of the span
        if event.name == _DETAILS:
            for field, read_as, key in (("query", asked_in, "gen_ai.input.messages"),
                                        ("answer", answer, "gen_ai.output.messages")):  # fmt: skip
                facts.set_lazily(field, read_as, event.attributes.get(key), key)
    _read_events(span, facts)


def _read_events(span: Span, facts: SpanFacts) -> None:
    """One event a message: the last question, and the answer that was chosen or came after it."""
    for event in span.events:
        if event.name in _ANSWERS:
            facts.set_lazily("answer", answer, _content(event), event.name)
    is_history = False
    for event in reversed(span.events):
        if event.name in _QUESTIONS:
            is_history = True
            facts.set_lazily("query", asked_in, _content(event), event.name)
        elif event.name == _REPLY and not is_history:
            facts.set_lazily("answer", answer, _content(event), event.name)


def _asked(attributes: Attributes) -> str | None:
    text = last_text(_indexed(attributes, "gen_ai.prompt"), "user")
    return asked(text) if text else None


def _replied(attributes: Attributes) -> str | None:
    return last_text(_indexed(attributes, "gen_ai.completion"), "assistant")


def _indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """``gen_ai.prompt.0.role``, ``gen_ai.prompt.0.content`` and so on."""
    assistant = {"role": "assistant"} if prefix.endswith("completion") else {}
    return [
        {**assistant, **message, "content": loads(message.get("content"))}
        for message in indexed(attributes, prefix)
    ]


def _content(event: Event) -> Any:
    entry = first(
        event.attributes,
        "content",
        "message",
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.event.content",
    )
    return loads(entry[0]) if entry else None


def evaluation_of(event: Event) -> SpanEvaluation:
    """A ``gen_ai.evaluation.result``, as a span event or a log record."""
    attributes = event.attributes
    label, explanation = (
        attributes.get("gen_ai.evaluation.score.label"),
        attributes.get("gen_ai.evaluation.explanation"),
    )
    return SpanEvaluation(
        str(attributes.get("gen_ai.evaluation.name", "")),
        number(attributes.get("gen_ai.evaluation.score.value")),
        None if label is None else str(label),
        None if explanation is None else str(explanation),
        timestamp=from_nanoseconds(event.time_ns),
    )
