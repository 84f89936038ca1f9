"""Mapping of records of any form to ragmon's fields, by JMESPath expressions in settings.

A mapping names a field of the record, or a key inside one (``tags.tenant``), and the expression
that finds its value in the original: ``query: input.question``. A constant is a literal such as
``'prod'``. Beside the functions of JMESPath there are ``parse_json(text)``, ``utc(time)`` and
``multiply(number, factor)``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import jmespath
import msgspec
from jmespath import exceptions, functions

from ragmon.errors import RecordError
from ragmon.plugins import nearest
from ragmon.records import Feedback, Label, Latency, QueryRecord, Tokens

KINDS: Mapping[str, Any] = {"queries": QueryRecord, "feedback": Feedback, "labels": Label}
"""Records that can be mapped to, by the name of their setting."""

_INSIDE: Mapping[str, Any] = {"latency_ms": Latency, "tokens": Tokens}
_FREE = ("tags", "grades")  # fields whose keys are anybody's
WHOLE = "."
"""Field of a mapping that stands for the whole record."""

_FIELDS = "__struct_fields__"
_HINT = "Mend the mapping; JMESPath is described at https://jmespath.org"
_MOST_LENGTH = 2_000  # characters of an expression

_FAILURES = (exceptions.JMESPathError, TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions from computing with what arrives: numbers of thousands of digits, deep nesting."""

Original = Any
"""Decoded JSON of one original."""


class _Functions(functions.Functions):  # type: ignore[misc] # untyped
    """Functions beside those of JMESPath."""

    @functions.signature({"types": ["string", "null"]})  # type: ignore[untyped-decorator]
    def _func_parse_json(self, text: str | None) -> Any:
        """The content of a text that holds JSON; null where it does not."""
        try:
            return None if text is None else msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None

    @functions.signature({"types": ["number", "null"]}, {"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_multiply(self, number: float | None, factor: float) -> float | None:
        """The product: units are changed by it."""
        return None if number is None else number * factor

    @functions.signature({"types": ["string", "null"]})  # type: ignore[untyped-decorator]
    def _func_utc(self, time: str | None) -> str | None:
        """A time without a zone, taken for UTC."""
        if time is None or time.endswith(("Z", "z")) or "+" in time[10:] or "-" in time[10:]:
            return time
        return f"{time}Z".replace(" ", "T", 1)


_OPTIONS = jmespath.Options(custom_functions=_Functions())
_KNOWN: frozenset[str] = frozenset(_Functions.FUNCTION_TABLE)


class RecordMapping:
    """Expressions by field; counts the fields that an original did not have."""

    def __init__(self, expressions: Mapping[str, str], kind: str = "queries") -> None:
        """Compile them.

        Args:
            expressions: by field of the record; ``.`` is the whole record, which the others change.
            kind: of the records, one of ``KINDS``.

        Raises:
            ValueError: a field or an expression that cannot be; names it and the position.
        """
        if not expressions:
            raise ValueError("give a field and an expression, such as `query: input.question`")
        self.missing: Counter[str] = Counter()
        for target in expressions:
            _check_target(target, KINDS[kind])
        ordered = sorted(expressions.items(), key=lambda item: item[0] != WHOLE)
        self._parts = [(name, _compiled(name, text)) for name, text in ordered]

    def __call__(self, original: Original) -> dict[str, Any]:
        """The fields of one original, as ``POST /v1/queries`` takes them.

        Raises:
            RecordError: an expression cannot be computed for it.
        """
        record: dict[str, Any] = {}
        is_empty = True
        for target, expression in self._parts:
            try:
                value = expression.search(original, options=_OPTIONS)
            except _FAILURES as error:
                raise _refusal(target, error) from None
            if value is None:
                self.missing[target] += 1
            else:
                is_empty = is_empty and expression.parsed["type"] == "literal"
                _put(record, target, value)
        if is_empty:  # every field of a record is optional, so nothing else would refuse it
            raise RecordError("mapping", "", "no expression finds anything in it", hint=_HINT)
        return record

    def line(self, line: bytes) -> bytes:
        """A line of JSON, mapped.

        Raises:
            RecordError: it is no JSON, or an expression cannot be computed for it.
        """
        try:
            original = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            hint = "send one complete JSON object a line"
            raise RecordError("malformed", "", str(error), hint=hint) from None
        try:
            return msgspec.json.encode(self(original))
        except _FAILURES as error:
            raise _refusal("", error) from None

    def take_missing(self) -> Counter[str]:
        """Fields that originals did not have, with their number since the last call."""
        missing, self.missing = self.missing, Counter()
        return missing


def mapping_of(expressions: Mapping[str, str], kind: str) -> RecordMapping | None:
    """The mapping of a setting; None where it is empty.

    Raises:
        ValueError: see ``RecordMapping``.
    """
    return RecordMapping(expressions, kind) if expressions else None


def _refusal(target: str, error: Exception) -> RecordError:
    detail = " ".join(str(error).split())[:300]
    return RecordError(
        "mapping", target, f"the expression cannot be computed: {detail}", hint=_HINT
    )


def _put(record: dict[str, Any], target: str, value: Any) -> None:
    if target == WHOLE:
        if not isinstance(value, dict):
            raise RecordError("mapping", target, "the expression gives no object", hint=_HINT)
        record |= value
        return
    name, _, key = target.partition(".")
    if not key:
        record[name] = value
        return
    inside = record.get(name)
    record[name] = (inside if isinstance(inside, dict) else {}) | {
        key: _as_tag(value) if name == "tags" else value
    }


def _as_tag(value: Any) -> Any:
    """A value of a tag, which is a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _check_target(target: str, kind: type[msgspec.Struct]) -> None:
    name, dot, key = target.partition(".")
    if target == WHOLE:
        return
    known: tuple[str, ...] = kind.__struct_fields__
    if name in known and dot and name not in _FREE:
        known = tuple(f"{name}.{inner}" for inner in getattr(_INSIDE.get(name), _FIELDS, ()))
        name = target
    if name not in known or (dot and not key):
        like = nearest(target, known)
        remedy = f"did you mean `{like}`?" if like else f"known are {', '.join(known) or name}"
        raise ValueError(f"{target[:100]!r} is no field of a record; {remedy}")


def _compiled(target: str, text: str) -> Any:
    if not isinstance(text, str) or not 0 < len(text) <= _MOST_LENGTH:
        raise ValueError(f"{target}: an expression is a text of 1 to {_MOST_LENGTH} characters")
    try:
        expression = jmespath.compile(text)
    except exceptions.ParseError as error:
        at = min(error.lex_position + 1, len(text) + 1)
        raise ValueError(
            f"{target}: {text[:200]!r} is no JMESPath expression; look at character {at}"
        ) from None
    except exceptions.JMESPathError as error:
        raise ValueError(f"{target}: {text[:200]!r}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{target}: the expression is nested too deeply") from None
    for name in _called(expression.parsed):
        if name not in _KNOWN:
            like = nearest(name, sorted(_KNOWN))
            remedy = f"did you mean `{like}`?" if like else f"known are {', '.join(sorted(_KNOWN))}"
            at = text.find(name) + 1
            raise ValueError(f"{target}: no function {name!r} (character {at}); {remedy}")
    return expression


def _called(node: Mapping[str, Any]) -> Iterator[str]:
    """Names of the functions that an expression calls."""
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _called(child)
