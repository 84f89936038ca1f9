"""Pydantic AI beside ``gen_ai.*``: its agents' messages, and tools as they were called before.

Until version 1 of its instrumentation the messages of a model call stand in one key, as events.
"""

from typing import Any

from ragmon.sources.otlp.reading.documents import some_documents_in
from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, TOOL, SpanFacts
from ragmon.sources.otlp.reading.values import answer, asked_in, first, loads, name, question
from ragmon.sources.otlp.spans import Span

ORDER = 48
SPEAKS = frozenset(
    {"pydantic_ai", "final_result", "all_messages_events", "tool_response", "tool_arguments",
     "events"}
)  # fmt: skip

_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events")
_AGENT = (*_MESSAGES, "final_result")


def role(span: Span) -> str:
    """Agents and tools of the versions that name no operation."""
    attributes = span.attributes
    if "gen_ai.operation.name" in attributes:
        return ""
    if "tool_response" in attributes or "tool_arguments" in attributes:
        return TOOL
    return CHAIN if any(key in attributes for key in _AGENT) else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    attributes = span.attributes
    if facts.role == TOOL:
        facts.set_lazily("query", question, attributes.get("tool_arguments"), "tool_arguments")
        result, key = attributes.get("tool_response"), "tool_response"
        facts.set_lazily("documents", some_documents_in, result, key)
        facts.set("tool_name", name(attributes.get("gen_ai.tool.name")), "gen_ai.tool.name")
        facts.set_lazily("tool_text", answer, result, key)
    elif facts.role == CHAIN:
        if entry := first(attributes, *_MESSAGES):
            facts.set_lazily("query", asked_in, *entry)
        facts.set_lazily("answer", answer, attributes.get("final_result"), "final_result")
    elif facts.role == MODEL:
        facts.set_lazily("query", asked_in, attributes.get("events"), "events")
        facts.set_lazily("answer", _replied, attributes.get("events"), "events")


def _replied(events: Any) -> str | None:
    """The choice among the messages."""
    structure = loads(events)
    messages = structure if isinstance(structure, list) else []
    chosen = (each.get("message") for each in messages if isinstance(each, dict))
    return next((text for each in chosen if each and (text := answer(each))), None)
