"""Readers of attribute values: texts, JSON strings and structures stand under the same keys."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ragmon.sources.otlp.reading.guesses import Candidate, best_guess, is_repr
from ragmon.sources.otlp.reading.messages import REPRS, is_message, last_text, text_of
from ragmon.sources.otlp.reading.reprs import structure_in
from ragmon.sources.otlp.spans import MAX_NAME, Attributes, Resource

_MAX_DEPTH = 6

QUESTION_KEYS = (
    "question", "query", "user_query", "user_question", "user_input", "input", "query_str",
    "str_or_query_bundle", "query_bundle", "message", "user_message", "prompt", "text", "inputs",
    "messages", "data", "request", "body",
)  # fmt: skip
ANSWER_KEYS = (
    "answer", "final_answer", "answers", "response", "output", "output_text", "result", "reply",
    "replies", "completion", "generated_text", "text", "content", "outputs", "messages", "message",
    "generations", "choices", "data", "update",
)  # fmt: skip
_NO_QUESTION = frozenset(
    {"metadata", "tags", "config", "context", "documents", "chat_history", "history", "system",
     "name", "self", "instructions", "query_embedding", "embedding"}
)  # fmt: skip
_NO_ANSWER = frozenset(
    {"metadata", "question", "query", "input", "inputs", "context", "documents", "chat_history",
     "source_nodes", "source_documents", "usage", "kwargs", "tags", "id", "prompt"}
)  # fmt: skip
_REFUSED = re.compile(r"^(?:__REDACTED__|<[\w. ]*(?:object|generator)\b[^>]*>|None|null)?$")
_SECTION = "[[ ## "
_ANSWER_SECTION = re.compile(r"\[\[ ## (?:answer|response|output) ## \]\]")
# Users write into these texts: every repeat is possessive, and what lies between is sliced.
_QUESTION_LINE = re.compile(
    r"^[^\S\n]*+(?:User )?(?:Question|Query)\s*+:", re.MULTILINE | re.IGNORECASE
)
_ANSWER_LINE = re.compile(
    r"^[^\S\n]*+(?:Helpful )?(?:Answer|Response)\s*+:", re.MULTILINE | re.IGNORECASE
)
_LONGEST_JSON = 4_000_000


def is_redacted(value: Any) -> bool:
    """True when the instrumentation was configured to hide the value."""
    return isinstance(value, str) and value == "__REDACTED__"


def loads(value: Any) -> Any:
    """The structure in a JSON string, or in one of Python; anything else as it is."""
    if value.__class__ is not str:
        return value
    start = value[:1] if value[:1] not in " \n\t" else value.lstrip()[:1]
    if start not in ("{", "[", '"') or len(value) > _LONGEST_JSON:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        structure = structure_in(value.strip())
        return value if structure is None else structure


def unwrapped(value: Any) -> Any:
    """The value in ``{"type": "json", "value": …}``; anything else as it is."""
    if isinstance(value, dict) and value.keys() == {"type", "value"}:
        return loads(value["value"])
    return value


def parts_text(value: Any) -> str | None:
    """The text in ``{"content": [{"text": …}]}``; None when it is anything else."""
    parts = value.get("content") if isinstance(value, dict) else None
    if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
        return None
    return plain(text_of([each.get("text") for each in parts]))


def question(value: Any, depth: int = _MAX_DEPTH) -> str | None:
    """The user's question in an input of any shape; None when there is none."""
    value = unwrapped(loads(value))
    if isinstance(value, str):
        text = plain(value)
        return None if text and is_repr(text) else text
    return _in_structure(value, depth) if depth and isinstance(value, dict | list) else None


def _in_structure(value: dict[str, Any] | list[Any], depth: int) -> str | None:
    text = _in_conversation(value, "user")
    if text is not _NO_CONVERSATION:
        return text
    if isinstance(value, list):
        texts = (question(each, depth - 1) for each in value)
        return next((each for each in texts if each and not each.startswith("<")), None)
    if text := parts_text(value):
        return text
    if "inputs" in value:  # the rest is how it was called
        return question(value["inputs"], depth - 1)
    if isinstance(value.get("args"), list) or isinstance(value.get("kwargs"), dict):
        return _in_call(value, depth)
    return _search(value, QUESTION_KEYS, _NO_QUESTION, question, depth) or _guessed(
        value, is_call=False
    )


def _in_call(call: dict[str, Any], depth: int) -> str | None:
    """The question among the arguments of a call; what has its name comes first."""
    named, args = call.get("kwargs"), call.get("args")
    others = {key: each for key, each in call.items() if key not in ("args", "kwargs")}
    named = {**others, **named} if isinstance(named, dict) else others
    for key in QUESTION_KEYS:
        if key in named and (text := question(named[key], depth - 1)):
            return text
    placed = args if isinstance(args, list) else []
    texts = [text for each in placed if (text := plain(each))]
    if guess := best_guess(map(Candidate, texts)):
        return guess
    for argument in placed:
        if isinstance(loads(argument), dict | list) and (text := question(argument, depth - 1)):
            return text
    return _guessed(named, is_call=True)


def _guessed(named: dict[str, Any], *, is_call: bool) -> str | None:
    """The likeliest text among values of which no name is known; outside calls the only one."""
    texts = [
        Candidate(text, key)
        for key, value in named.items()
        if key not in _NO_QUESTION and (text := plain(value))
    ]
    return best_guess(texts) if is_call or len(texts) == 1 else None


def answer(value: Any, depth: int = _MAX_DEPTH) -> str | None:
    """The answer in an output of any shape; None when there is none."""
    value = unwrapped(loads(value))
    if isinstance(value, str):
        text = plain(value)
        return clean(text) if text else None
    if not depth or not isinstance(value, dict | list) or "page_content" in value:
        return None
    reply = _in_conversation(value, "assistant")
    if reply is not _NO_CONVERSATION:
        return (_in_object(reply) or reply) if reply else reply
    if isinstance(value, list):
        if _is_stream(value):
            return plain("".join(value))
        texts = (answer(each, depth - 1) for each in reversed(value[:64]))
        return next((each for each in texts if each), None)
    return _search(value, ANSWER_KEYS, _NO_ANSWER, answer, depth)


def _is_stream(items: list[Any]) -> bool:
    """True for the pieces of one streamed text: they bring their own spaces."""
    return (
        len(items) > 1
        and all(each.__class__ is str for each in items)
        and any(each[:1].isspace() or each[-1:].isspace() for each in items)
    )


_NO_CONVERSATION = ""


def _in_conversation(value: Any, role: str) -> str | None:
    """The last text of a role, if the value is a message or a list of messages."""
    messages = value if isinstance(value, list) and not is_message(value) else [value]
    if any(is_message(each) for each in messages):
        return last_text(messages, role)
    return _NO_CONVERSATION


def _in_object(text: str) -> str | None:
    """The answer in an object that a model was asked to reply with."""
    structure = loads(text)
    named = structure.get("answer") if isinstance(structure, dict) else None
    return plain(named)


def plain(value: Any) -> str | None:
    """A text with content; None for a hidden or empty one, or the name of an object."""
    if value.__class__ is not str:
        return None
    text: str = value.strip()
    if not text or (len(text) < 300 and _REFUSED.match(text)):
        return None
    if text.startswith(REPRS):
        return text_of(text) or None
    return text


def clean(text: str) -> str:
    """A model's answer without the markup of DSPy's adapters."""
    if _SECTION not in text:
        return text
    heading = _ANSWER_SECTION.search(text)
    if heading is None:
        return text
    return text[heading.end() :].partition(_SECTION)[0].strip() or text


def asked_in(value: Any) -> str | None:
    """The question in the input of a model, which may be a prompt made from a template."""
    text = question(value)
    return asked(text) if text else None


def asked(prompt: str) -> str:
    """The question in a prompt made from a template; the prompt itself when there is none."""
    text, end = prompt, 0
    while heading := _QUESTION_LINE.search(prompt, end):
        answer_line = _ANSWER_LINE.search(prompt, heading.end())
        stop = answer_line.start() if answer_line else len(prompt)
        text = prompt[heading.end() : stop].strip() or text  # the last one: examples come first
        if answer_line is None:
            break
        end = answer_line.end()
    return text


def _search(
    value: dict[str, Any], keys: tuple[str, ...], skip: frozenset[str], read: Any, depth: int
) -> str | None:
    """The text under the best key, level by level: a higher level describes the whole."""
    for key in keys:
        if key in value and (text := read(value[key], depth - 1)):
            return str(text)
    inner = [each for key, each in value.items() if key not in skip and key not in keys]
    nested = [each for each in inner if isinstance(each, dict)]
    for key in keys:
        for child in nested:
            if key in child and (text := read(child[key], depth - 2 if depth > 1 else 0)):
                return str(text)
    for child in nested:
        if text := read(child, depth - 1):
            return str(text)
    texts = [text for each in inner if (text := plain(each))]
    return texts[0] if len(texts) == 1 and read is not question else None


def first(attributes: Attributes, *keys: str) -> tuple[Any, str] | None:
    """The value of the first key that has one, with that key."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and value != "":
            return value, key
    return None


def number(value: Any) -> float | None:
    """A finite number, however it was written."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        read = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return read if abs(read) <= 1e12 else None


def integer(value: Any) -> int | None:
    """A count, however it was written."""
    read = number(value)
    return int(read) if read is not None and read >= 0 else None


def name(value: Any) -> str | None:
    """A short text, such as an id."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value).strip().replace("\0", "")
        return text[:MAX_NAME] if text and not is_redacted(text) else None
    return None


def tags_of(value: Any) -> dict[str, str]:
    """Flat metadata as tags."""
    value = loads(value)
    if not isinstance(value, dict):
        return {}
    flat = ((str(key), _tag(each)) for key, each in value.items())
    return {key[:MAX_NAME]: text for key, text in flat if text and not _is_noise(key)}


def _tag(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return name(value)


def _is_noise(key: str) -> bool:
    """True for the metadata that frameworks add about themselves to every span."""
    return key.startswith(("ls_", "lc_", "langgraph_", "checkpoint", "__"))


def resource_of(attributes: Attributes) -> Resource:
    """The sender of the spans, from the attributes of the resource."""
    environment = first(
        attributes, "deployment.environment.name", "deployment.environment", "langfuse.environment"
    )
    version = first(attributes, "service.version", "langfuse.release")
    service = name(attributes.get("service.name")) or ""
    return Resource(
        "" if service.startswith("unknown_service") else service,
        name(version[0]) or "" if version else "",
        name(environment[0]) or "" if environment else "",
        name(attributes.get("openinference.project.name")) or "",
        name(attributes.get("telemetry.sdk.language")) or "",
    )


def indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Flattened lists put together again: ``prefix.0.x.y`` becomes ``[{"x.y": …}]``."""
    start = len(prefix) + 1
    items: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix) and key[start - 1 : start] == ".":
            position, _, rest = key[start:].partition(".")
            if position.isdigit() and len(position) < 6:
                items.setdefault(int(position), {})[rest] = value
    return [items[at] for at in sorted(items)]


def indexed_whole(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """``indexed``; empty where the list has lost its beginning.

    SDKs drop the oldest attributes of a span beyond a limit, 128 in Python: what is left of a list
    would have wrong ranks.
    """
    first_member = f"{prefix}.0."
    is_whole = any(key.startswith(first_member) for key in attributes)
    return indexed(attributes, prefix) if is_whole else []


def strip_prefix(items: Iterable[dict[str, Any]], prefix: str) -> Iterator[dict[str, Any]]:
    """The items with a shorter name for each key."""
    for item in items:
        yield {key.removeprefix(prefix): value for key, value in item.items()}
