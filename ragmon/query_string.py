"""Query strings with names that nobody reads: refused, since another question would be answered."""

import difflib
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl

from ragmon.asgi import Problem, Scope

KEY = "KEY"
"""End of a parameter of which there may be many: ``tag.KEY`` stands for ``tag.tenant``."""

_SHOWN = 100  # characters of what was sent that an answer repeats


def check_names(scope: Scope, known: Sequence[str]) -> None:
    """Refuse parameters that are not known, or are there more than once.

    Args:
        scope: of the request.
        known: names of the parameters that it may have.

    Raises:
        Problem: 400, with the known name that is nearest.
    """
    if not scope["query_string"]:
        return
    seen: set[str] = set()
    for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if not any(_is(name, each) for each in known):
            raise _unknown(name[:_SHOWN], known, f"{scope['method']} {scope['path'][:_SHOWN]}")
        if name in seen:
            detail = f"{name[:_SHOWN]}: this parameter is there more than once; give it once"
            raise Problem(400, detail, reason="repeated_parameter")
        seen.add(name)


def _is(name: str, known: str) -> bool:
    if known.endswith(KEY):
        prefix = known.removesuffix(KEY)
        return name.startswith(prefix) and name != prefix
    return name == known


def _unknown(name: str, known: Sequence[str], where: str) -> Problem:
    if known:
        nearest = max(_candidates(name, known), key=lambda each: _likeness(name, each))
        advice = f"did you mean {nearest!r}? {where} takes {', '.join(known)}"
    else:
        advice = f"{where} takes no parameters"
    return Problem(400, f"unknown parameter {name!r}: {advice}", reason="unknown_parameter")


def _candidates(name: str, known: Sequence[str]) -> Iterator[str]:
    key = name.rpartition(".")[2]
    for parameter in known:
        has_key = parameter.endswith(KEY) and key
        yield parameter.removesuffix(KEY) + key if has_key else parameter


def _likeness(name: str, known: str) -> float:
    return difflib.SequenceMatcher(None, name.casefold(), known).ratio()
