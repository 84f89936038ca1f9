"""Parser of a model's reply: one answer that is surely the model's own.

Tolerant of form (code fences, prose around the object, a visible train of thought), strict in
substance: one object that carries the request's token, complete and in range, or nothing.
"""

import json
import re
from typing import Any, TypeVar

import msgspec

from ragmon.judges.llm.errors import JudgeError

Answer = TypeVar("Answer")

_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_MOST_CHARACTERS = 200_000
_MOST_STARTS = 200  # places where an object is looked for
_DETAIL = 200


def parse(text: str, token: str, kind: type[Answer]) -> Answer:
    """The one answer in a reply.

    Args:
        text: of the reply.
        token: that its field ``check`` must hold.
        kind: a msgspec Struct.

    Raises:
        JudgeError: malformed: there is none, or several that differ, or it is out of range.
    """
    own = [candidate for candidate in _objects(text) if candidate.get("check") == token]
    if not own:
        raise JudgeError("malformed", "no JSON object with the token of this request")
    if any(other != own[0] for other in own[1:]):
        raise JudgeError("malformed", "several JSON objects that differ")
    try:
        return msgspec.convert(own[0], kind)
    except msgspec.ValidationError as error:
        raise JudgeError("malformed", str(error)[:_DETAIL]) from error


def _objects(text: str) -> list[dict[str, Any]]:
    """Every outermost JSON object in a text."""
    text = _THINKING.sub("", text)[:_MOST_CHARACTERS]
    objects: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            objects.append(value)
        at = text.find("{", end)
    return objects


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields; a repeated field is refused."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field appears twice")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_constant)
