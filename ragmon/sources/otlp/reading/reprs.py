"""Structures that were written as Python shows them, since they were no JSON."""

import ast
import re
from typing import Any

import msgspec

_BEGINS = re.compile(r"[\[{(]\s*['\"\[{(]")
_FIELDS = re.compile(r"\A[a-z_]+=")
_FIELD = re.compile(r"\b([a-z_]+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_OBJECT = re.compile(r"<(?:[^<>]|<\w{1,40}>){1,200} at 0x[0-9a-fA-F]{1,16}>")
_LONGEST = 200_000
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def structure_in(text: str) -> Any:
    """The dict or list in a ``repr``; None when it is none. Objects in it are None."""
    if len(text) > _LONGEST or not _BEGINS.match(text):
        return None
    try:
        return _as_json(ast.literal_eval(_OBJECT.sub("None", text)))
    except _UNREADABLE:
        return None


def arguments_in(value: Any) -> Any:
    """Arguments of a call, as JSON or as Python shows them; other values as they are."""
    if not isinstance(value, str) or len(value) > _LONGEST or value[:1] not in ("(", "[", "{"):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return structure_in(value.strip())


def fields_in(text: Any) -> dict[str, str] | None:
    """The texts in ``name='…' other="…"``, as pydantic shows an object; None when it is none."""
    if not isinstance(text, str) or len(text) > _LONGEST or not _FIELDS.match(text):
        return None
    try:
        return {found[1]: str(ast.literal_eval(found[2])) for found in _FIELD.finditer(text)}
    except _UNREADABLE:
        return None


def _as_json(value: Any) -> Any:
    """As JSON would have held it.

    Raises:
        ValueError: JSON has nothing like it.
    """
    if isinstance(value, dict):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"no JSON: {type(value).__name__}")
