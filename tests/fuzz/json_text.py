"""JSON as fuzz bytes choose it: mostly valid, of every kind of value, sometimes broken."""

import json
from collections.abc import Callable, Mapping, Sequence

from tests.fuzz.source import Source

NUMBERS = (
    "0", "1", "-1", "0.5", "1.5", "-0", "2", "5", "1e9", "1e10", "1e308", "1e309", "-1e309",
    "1e-400", "NaN", "Infinity", "-Infinity", "123456789012345678901234567890", "9" * 400,
    "1795000000", "1795000000.5", "1795000301", "1794000000", "253402300799", "253402300800",
    "0x10", "1_000", "01", "1.", ".5", "+1", "1e", "--1", "18446744073709551616",
    "-9223372036854775809", "4294967296", "0.1" + "1" * 400,
)  # fmt: skip
TEXTS = (
    "", "a", "\0", "é", "😀", "\ud83d", "x" * 255, "x" * 256, "x" * 257, "other", "default",
    "positive", "negative", "[1]", "[1, 2] and [c-1]", "`[1]`", "[^1]", "[1;2][999][0]",
    "jane@example.com +49 170 1234567 4111111111111111 DE89370400440532013000",
    "password: hunter2 and Authorization: Bearer eyJhbGciOi.J9eyJzdWIi.OiIxMjM0",
    "NaN", "-0", "1e309", "2026-11-21T03:02:00Z", "2026-11-21T03:02:00",
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59",
    "2026-02-30T00:00:00Z", "2016-12-31T23:59:60Z", "1969-12-31T23:59:59Z", "２", "\u202e",
    "\x1b[31m", "{{7*7}}", "<script>", "' OR 1=1 --", "\\u0000", "\n", "\r\n", "\t", "a\nb",
    "\ufeff", "١٢٣", "Paris is the capital of France [1].", "I do not know.", "c-1",
    "```\n[1]\n```",
)  # fmt: skip
WORDS = ("null", "true", "false", "{}", "[]", '""', "nul", "undefined", "'a'")

Value = Callable[[Source], str]


def text(source: Source) -> str:
    """A string literal."""
    chosen = source.text() if source.chance(64) else source.choose(TEXTS)
    literal = json.dumps(chosen, ensure_ascii=bool(source.byte() & 1))
    if source.chance(8):
        return literal.replace("a", source.choose(("\\u0061", "\\u00", "\\ud800", "\\x", "\\")))
    return literal


def number(source: Source) -> str:
    """A number, or what looks like one."""
    if source.chance(64):
        return repr(source.number(4) / (1 << source.below(30)))
    return source.choose(NUMBERS)


def value(source: Source, depth: int = 0) -> str:
    """Anything."""
    kind = source.below(8) if depth < 6 else source.below(4)
    if kind < 2:
        return text(source)
    if kind == 2:
        return number(source)
    if kind == 3:
        return source.choose(WORDS)
    if kind < 6:
        return "[" + ",".join(source.several(3, lambda: value(source, depth + 1))) + "]"
    pairs = source.several(3, lambda: f"{text(source)}:{value(source, depth + 1)}")
    return "{" + ",".join(pairs) + "}"


def either(source: Source, *values: Value) -> str:
    """A value of one of these kinds, sometimes of any."""
    if source.chance(24):
        return value(source)
    return source.choose(values)(source)


def literal(*choices: str) -> Value:
    """One of some literals."""
    return lambda source: source.choose(choices)


def listing(item: Value, most: int = 3) -> Value:
    """A list of values."""
    return lambda source: "[" + ",".join(source.several(most, lambda: item(source))) + "]"


def mapping(key: Value, item: Value, most: int = 3) -> Value:
    """An object with any keys."""
    return lambda source: (
        "{" + ",".join(source.several(most, lambda: f"{key(source)}:{item(source)}")) + "}"
    )


def fields(values: Mapping[str, Value], most: int = 8) -> Value:
    """An object with some of these fields; one may come twice."""
    names: Sequence[str] = list(values)

    def make(source: Source) -> str:
        chosen = source.several(most, lambda: source.choose(names))
        return "{" + ",".join(f'"{name}":{either(source, values[name])}' for name in chosen) + "}"

    return make


def broken(source: Source, whole: str) -> str:
    """The text; now and then cut off, nested deeply or followed by something."""
    if not source.chance(16):
        return whole
    kind = source.below(4)
    if kind == 0:
        return whole[: source.below(len(whole) + 1)]
    if kind == 1:
        return "[" * source.below(3_000) + whole
    if kind == 2:
        depth = source.below(3_000)
        return '{"x":' * depth + whole + "}" * depth
    return whole + source.text()


def encoded(body: str) -> bytes:
    """As a client may send it, also with halves of surrogate pairs."""
    return body.encode("utf-8", "surrogatepass")


def damaged(source: Source, body: bytes) -> bytes:
    """Bytes changed, inserted and removed in the middle."""
    changed = bytearray(body)
    for _ in range(source.below(4)):
        at = source.below(len(changed) + 1)
        kind = source.below(3)
        if kind == 0:
            changed[at : at + 1] = source.take(1)
        elif kind == 1:
            del changed[at : at + source.below(8)]
        else:
            changed[at:at] = source.take(source.below(5))
    return bytes(changed)
