"""Request dialect of an endpoint: found out by what it refuses, and remembered from then on.

OpenAI's newer models refuse ``max_tokens`` and a temperature; LM Studio refuses ``json_object``;
some servers refuse ``json_schema``, some models a system message.
"""

import re
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

Format = Literal["json_schema", "json_object", "text"]
Schema = dict[str, Any]

_WEAKER: dict[Format, Format] = {"json_schema": "json_object", "json_object": "text"}
_FORMAT = re.compile(
    r"response.?format|json.?(schema|object|mode)|structured|guided", re.IGNORECASE
)
_TOKENS = re.compile(r"max.?(completion.?)?tokens", re.IGNORECASE)
_TEMPERATURE = re.compile(r"temperature", re.IGNORECASE)
_SYSTEM = re.compile(r"system.{0,20}(role|message|prompt)|roles must alternate", re.IGNORECASE)


class Dialect(Struct, frozen=True):
    """Request fields that one endpoint accepts."""

    format: Format = "json_schema"
    tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    system: bool = True


class Chat(NamedTuple):
    """System and user message for a model, with the schema of the reply."""

    model: str
    system: str
    user: str
    schema: Schema
    max_tokens: int


def body(dialect: Dialect, chat: Chat) -> dict[str, Any]:
    """A request for chat completion."""
    texts = {"system": chat.system, "user": chat.user}
    if not dialect.system:
        texts = {"user": f"{chat.system}\n\n{chat.user}"}
    messages = [{"role": role, "content": content} for role, content in texts.items()]
    request: dict[str, Any] = {"model": chat.model, "messages": messages}
    request[dialect.tokens] = chat.max_tokens
    if dialect.temperature:
        request["temperature"] = 0
    if dialect.format == "json_schema":
        named = {"name": "verdict", "strict": True, "schema": chat.schema}
        request["response_format"] = {"type": "json_schema", "json_schema": named}
    elif dialect.format == "json_object":
        request["response_format"] = {"type": "json_object"}
    return request


def after_refusal(dialect: Dialect, complaint: str) -> Dialect | None:
    """The dialect to try after a request was refused as invalid; None when none is left.

    A complaint that names nothing known is taken for one about the format.
    """
    if _TEMPERATURE.search(complaint) and dialect.temperature:
        return replace(dialect, temperature=False)
    if _TOKENS.search(complaint) and dialect.tokens == "max_tokens":
        return replace(dialect, tokens="max_completion_tokens")
    if _SYSTEM.search(complaint) and dialect.system:
        return replace(dialect, system=False)
    if dialect.format in _WEAKER:
        return replace(dialect, format=_WEAKER[dialect.format])
    return None


def is_about_format(complaint: str) -> bool:
    """True if the message of a server error (5xx) blames the response format."""
    return _FORMAT.search(complaint) is not None
