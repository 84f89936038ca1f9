"""Questions among the arguments of a traced function, ranked by how sure it is that they are one.

Decorators record every argument, and few say which of them the user wrote. What is taken by its
form alone is a guess: it carries its doubt, and below ``LEAST`` it is left out.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ragmon.percentages import percent_text

LEAST = 0.5
"""Confidence below which a text is left out rather than stored."""

_SURE = 0.9
_REPR = re.compile(r"^(?:<[^>]*>|(?:[A-Za-z_]\w*\.)*[A-Z]\w*\((?:[a-z_]\w*=.*)?\))$", re.DOTALL)
_CODED = re.compile(r"[\d_/:@.\-]|[a-z][A-Z]")  # a model, an id, a path, the name of a class
_SETTING = re.compile(
    r"(?:^|_)(?:model|llm|provider|engine|name|id|ids|user|session|thread|tenant|lang|language|locale"
    r"|index|collection|namespace|mode|type|kind|key|token|url|path|format|version|role|system"
    r"|instructions|template|config|self|cls)$"
)
_LONGEST_REPR = 100_000


class Guess(str):
    """A text that was taken by its form, and how sure that is."""

    __slots__ = ("confidence",)

    confidence: float

    def __new__(cls, text: str, confidence: float) -> "Guess":
        """A guess."""
        guess = super().__new__(cls, text)
        guess.confidence = confidence
        return guess

    @property
    def doubt(self) -> str:
        """The doubt, for people."""
        sure = percent_text(self.confidence, 0)
        return f"an argument of a function, taken by its form ({sure} sure)"


class Candidate(NamedTuple):
    """A text that may be the question."""

    text: str
    name: str = ""  # of the argument; empty for a positional one


def is_repr(text: str) -> bool:
    """True for an object as Python shows it: an agent, a service."""
    return len(text) <= _LONGEST_REPR and _REPR.match(text) is not None


def confidence(candidate: Candidate) -> float:
    """Confidence that a text is what the user wrote, in [0, 1]."""
    text = candidate.text
    if is_repr(text) or _SETTING.search(candidate.name.lower()):
        return 0.1
    if len(text.split()) > 1 or text.endswith("?") or not text.isascii():
        return 0.8
    return 0.2 if _CODED.search(text) else 0.6


def best_guess(candidates: Iterable[Candidate]) -> Guess | None:
    """The likeliest of the texts, the first of those that are alike; None below ``LEAST``."""
    ranked = [(confidence(each), each.text) for each in candidates]
    if not ranked:
        return None
    most, text = max(ranked, key=lambda each: each[0])
    rivals = sum(1 for sure, _ in ranked if sure >= LEAST) - 1
    return Guess(text, most - 0.1 * min(rivals, 2)) if most >= LEAST else None


def doubt_of(value: object) -> str:
    """The doubt in a value that was read; empty when there is none."""
    return value.doubt if isinstance(value, Guess) and value.confidence < _SURE else ""
