"""Attacks on regular expressions: texts grown from a pattern until matching takes too long."""

import ast
import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

SIZES = (40, 640, 5_120, 40_960)
MOST_S = 0.25  # of CPU for 40 kB; a quadratic pattern takes seconds, a linear one a millisecond
_DEEPEST = 4  # of tables within tables
_LONG = 32  # repeats that may be longer are pumped
_BREAKS = ("", "!", "\n!", "\0", "=")

_ANCHORED = ("match", "fullmatch")
_AT_ONCE = (*_ANCHORED, "search", "sub", "subn", "split", "findall", "finditer")

_PARSER = re._parser  # the standard library's own reading of a pattern


class TooSlowError(Exception):
    """Matching was stopped by the timer."""


def patterns_of(package: str) -> dict[str, re.Pattern[Any]]:
    """Every compiled pattern in the modules of a package, by module and name.

    Also those in tables, and those of which only a method has a name.
    """
    root = importlib.import_module(package)
    names = [info.name for info in pkgutil.walk_packages(root.__path__, f"{package}.")]
    return {
        f"{module.__name__}.{name}{place}": pattern
        for module in _imported(name for name in sorted(names) if _is_safe(name))
        for name, value in vars(module).items()
        if not name.startswith("__")
        for place, pattern in _patterns_in(value, _DEEPEST)
    }


def _patterns_in(value: Any, depth: int) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Patterns of a value, by their place in it; the value itself has none."""
    value = getattr(value, "__self__", value) if inspect.isbuiltin(value) else value
    if isinstance(value, re.Pattern):
        yield "", value
        return
    parts: Iterable[tuple[Any, Any]] = ()
    if depth == 0:
        return
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, tuple | list):
        parts = enumerate(value)
    for at, part in parts:
        for place, pattern in _patterns_in(part, depth - 1):
            yield f"[{at}]{place}", pattern


def patterns_within(package: str) -> dict[str, re.Pattern[Any]]:
    """Patterns of calls such as ``re.sub("a", …)``, by module and line."""
    root = importlib.import_module(package)
    names = [info.name for info in pkgutil.walk_packages(root.__path__, f"{package}.")]
    return {
        f"{module.__name__}:{call.lineno}": pattern
        for module in _imported(name for name in sorted(names) if _is_safe(name))
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call) and (pattern := _used_at(call, vars(module))) is not None
    }


def _used_at(call: ast.Call, names: dict[str, Any]) -> re.Pattern[str] | None:
    """The pattern that a function of ``re`` is called with as a text; None of other calls."""
    function = call.func
    if not isinstance(function, ast.Attribute) or ast.unparse(function.value) != "re":
        return None
    if function.attr not in _AT_ONCE:
        return None
    text = _constant(call.args[0], names)
    if text is None:
        return None
    return re.compile(rf"\A(?:{text})" if function.attr in _ANCHORED else text)


def _constant(argument: ast.expr, names: dict[str, Any]) -> str | None:
    """A text that is written there, or made of names of its module; None: anything else."""
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    if not isinstance(argument, ast.JoinedStr):
        return None
    try:
        return str(eval(ast.unparse(argument), dict(names)))
    except NameError:  # made of what a function holds
        return None


def _imported(names: Iterable[str]) -> Iterator[ModuleType]:
    """The modules, without adapters of frameworks that are not installed."""
    for name in names:
        try:
            yield importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ragmon"):
                raise


def slowest(pattern: re.Pattern[Any]) -> tuple[float, int, str]:
    """CPU seconds, size and beginning of the text that took longest."""
    worst = (0.0, 0, "")
    for attack in attacks(pattern):
        for size in SIZES:
            text = attack(size)
            took = _timed(pattern, text)
            worst = max(worst, (took, size, text[:80]))
            if took > MOST_S:
                return worst
    return worst


def attacks(pattern: re.Pattern[Any]) -> Iterator[Any]:
    """Functions from a size to a text: each repeat pumped, and the whole sample repeated."""
    as_text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    parsed = _PARSER.parse(as_text, pattern.flags & ~re.DEBUG)
    sample, pumps = _walk(list(parsed), "")
    for before, pump in pumps:
        for end in _BREAKS:
            yield lambda size, b=before, p=pump, e=end: b + p * (size // len(p)) + e
            unit = (before[-40:] + pump) or " "
            yield lambda size, u=unit, e=end: u * (size // len(u)) + e
    for whole in {sample, sample[:-1]} - {""}:
        yield lambda size, w=whole: w * (size // len(w)) + "\0"


def _timed(pattern: re.Pattern[Any], text: str) -> float:
    subject: Any = text if isinstance(pattern.pattern, str) else text.encode()
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 8 * MOST_S)
    began = time.process_time()
    try:
        for _ in pattern.finditer(subject):
            pass
    except TooSlowError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def _stop(*_: object) -> None:
    raise TooSlowError


def _is_safe(name: str) -> bool:
    return not name.endswith("__main__") and ".training" not in name


def _walk(items: list[Any], before: str) -> tuple[str, list[tuple[str, str]]]:
    """A text that the items match, and (what stands before it, its body) for each long repeat."""
    pumps: list[tuple[str, str]] = []
    text = before
    for op, value in items:
        kind = str(op)
        if kind.endswith("_REPEAT"):
            least, most, body = value
            inner, more = _walk(list(body), text)
            pumps += more
            piece = inner[len(text) :]
            if most > _LONG and piece:
                pumps.append((text, piece))
            text += piece * max(least, 1)
        elif kind == "SUBPATTERN":
            text, more = _walk(list(value[-1]), text)
            pumps += more
        elif kind == "ATOMIC_GROUP":
            text, more = _walk(list(value), text)
            pumps += more
        elif kind == "BRANCH":
            for branch in value[1]:
                pumps += _walk(list(branch), text)[1]
            text = _walk(list(value[1][0]), text)[0]
        else:
            text += _character(kind, value)
    return text, pumps


def _character(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind in {"NOT_LITERAL", "ANY"}:
        return "a" if value != ord("a") else "b"
    if kind == "IN":
        return _member(value)
    return ""  # anchors, lookarounds and references take no room


def _member(alternatives: list[Any]) -> str:
    negated = str(alternatives[0][0]) == "NEGATE"
    text = "".join(_spelled(*item) for item in alternatives[negated:])
    if not negated:
        return text[:1] or "a"
    return next(c for c in "a 1.\n-\"'[]" if c not in text)


def _spelled(op: Any, value: Any) -> str:
    kind = str(op)
    if kind == "LITERAL":
        return chr(value)
    if kind == "RANGE":
        return "".join(map(chr, range(value[0], min(value[1], value[0] + 64) + 1)))
    return {
        "CATEGORY_SPACE": " \n\t",
        "CATEGORY_DIGIT": "1",
        "CATEGORY_WORD": "a1",
    }.get(str(value), "")
