"""Chat messages as the frameworks write them: role and text."""

import re
from collections.abc import Sequence
from typing import Any

_ROLES = {
    "human": "user", "user": "user", "HumanMessage": "user", "HumanMessageChunk": "user",
    "ai": "assistant", "assistant": "assistant", "model": "assistant", "bot": "assistant",
    "AIMessage": "assistant", "AIMessageChunk": "assistant", "unknown": "assistant",
    "system": "system", "SystemMessage": "system", "developer": "system",
    "tool": "tool", "function": "tool", "ToolMessage": "tool",
}  # fmt: skip
_TEXT_KEYS = (
    "content", "text", "parts", "blocks", "contents", "_content", "data", "kwargs", "message",
)  # fmt: skip
_OTHER_PARTS = (
    "tool_call", "tool-call", "tool_use", "function_call", "reasoning", "thinking", "image",
    "image_url", "file", "audio", "tool_call_response", "tool-result",
)  # fmt: skip
_REPR_TEXT = re.compile(
    r"""(?:text|content|answer|response|data)=(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")"""
)
REPRS = ("ChatMessage(", "GeneratedAnswer(", "Prediction(")
"""Objects that an instrumentation wrote as Python does; their text is read out of it."""
_MAX_DEPTH = 8


def is_message(value: Any) -> bool:
    """True for a single chat message."""
    if isinstance(value, list):
        return len(value) == 2 and value[0] in ("human", "ai", "user", "assistant", "system")
    return (
        isinstance(value, dict)
        and bool(role_of(value))
        and any(key in value for key in (*_TEXT_KEYS, "tool_calls"))
    )


def role_of(message: Any) -> str:
    """user, assistant, system, tool, or nothing."""
    if isinstance(message, list):
        return _ROLES.get(message[0], "") if message and isinstance(message[0], str) else ""
    named = message.get("role") or message.get("_role") or message.get("type")
    if named == "constructor":  # LangChain's own serialisation
        path = message.get("id")
        named = path[-1] if isinstance(path, list) and path else None
    if isinstance(named, dict):
        named = named.get("value")
    return _ROLES.get(named, "") if isinstance(named, str) else ""


def text_of(content: Any, depth: int = _MAX_DEPTH) -> str:
    """The text of a message, without tool calls and pictures."""
    if isinstance(content, str):
        match = _REPR_TEXT.search(content) if content.startswith(REPRS) else None
        return (match[1] or match[2] or "") if match else content
    if not depth or not content:
        return ""
    if isinstance(content, list):
        parts = (text_of(each, depth - 1) for each in content)
        return "\n".join(part for part in parts if part)
    if isinstance(content, dict):
        if content.get("type") in _OTHER_PARTS:
            return ""
        texts = (text_of(content[key], depth - 1) for key in _TEXT_KEYS if content.get(key))
        return next((text for text in texts if text), "")
    return ""


def last_text(messages: Sequence[Any], role: str) -> str | None:
    """The last text of a role; None when it wrote none."""
    for message in reversed(messages):
        if isinstance(message, list) and not is_message(message):
            nested = last_text(message, role)
            if nested:
                return nested
        elif isinstance(message, dict | list) and role_of(message) == role:
            body = message[1] if isinstance(message, list) else message
            text = text_of(body).strip()
            if text and text != "__REDACTED__":
                return text
    return None
