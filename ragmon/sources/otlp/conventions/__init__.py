"""How instrumentations name things: one file a convention, found by being here.

A convention exports ``ORDER`` (the lower is asked first), ``SPEAKS`` (first words of the keys it
knows), ``role(span)`` (what kind of step the span is, or nothing) and ``read(span, facts)``.
A span may follow several at once; what one leaves open the next may say.
"""

import importlib
import pkgutil
from functools import cache, lru_cache
from typing import Protocol, cast

from ragmon.sources.otlp.facts import OTHER, Facts
from ragmon.sources.otlp.spans import Span


class Convention(Protocol):
    """What each file exports."""

    ORDER: int
    SPEAKS: frozenset[str]

    def role(self, span: Span) -> str:
        """What kind of step it is; nothing when the convention does not say."""
        ...

    def read(self, span: Span, facts: Facts) -> None:
        """Note what the span says."""
        ...


@cache
def conventions() -> tuple[Convention, ...]:
    """Every convention in this folder, in the order in which they are asked."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((cast("Convention", module) for module in modules), key=lambda c: c.ORDER))


@cache
def _known() -> frozenset[str]:
    """The words that any convention knows: what is remembered of spans must not grow with them."""
    return frozenset().union(*(each.SPEAKS for each in conventions()))


@lru_cache(maxsize=4096)
def _spoken(words: frozenset[str]) -> tuple[Convention, ...]:
    """The conventions that know one of the words; spans of a kind use the same words."""
    return tuple(each for each in conventions() if not words.isdisjoint(each.SPEAKS))


def read(span: Span) -> Facts:
    """What a span says, by all conventions that it follows."""
    words = {key.partition(".")[0] for key in span.attributes}
    words.update(event.name.partition(".")[0] for event in span.events)
    facts = Facts()
    spoken = _spoken(_known() & words)
    facts.role = next((role for each in spoken if (role := each.role(span))), OTHER)
    for each in spoken:
        each.read(span, facts)
    return facts
