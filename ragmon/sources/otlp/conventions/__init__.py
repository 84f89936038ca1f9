"""How instrumentations name things: one file a convention, found by being here.

A convention exports ``ORDER`` (the lower is asked first), ``SPEAKS`` (first words of the keys it
knows), ``role(span)`` (what kind of step the span is, or nothing) and ``read(span, facts)``.
A span may follow several at once; what one leaves open the next may say.
"""

import importlib
import pkgutil
from functools import cache, lru_cache
from typing import Protocol, cast

from ragmon.sources.otlp.reading.facts import OTHER, SpanFacts
from ragmon.sources.otlp.spans import Span

_MOST_REMEMBERED = 100  # names; memory has an end


class Convention(Protocol):
    """What each file exports."""

    ORDER: int
    SPEAKS: frozenset[str]

    def role(self, span: Span) -> str:
        """What kind of step it is; nothing when the convention does not say."""
        ...

    def read(self, span: Span, facts: SpanFacts) -> None:
        """Note what the span says."""
        ...


@cache
def conventions() -> tuple[Convention, ...]:
    """Every convention in this folder, in the order in which they are asked."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((cast("Convention", module) for module in modules), key=lambda c: c.ORDER))


def _spoken(*names: str) -> tuple[Convention, ...]:
    """The conventions that these names of attributes and events belong to."""
    words = {name.partition(".")[0] for name in names}
    return tuple(each for each in conventions() if not words.isdisjoint(each.SPEAKS))


_spoken_before = lru_cache(maxsize=1_024)(_spoken)  # spans of one step have the same names


def read(span: Span) -> SpanFacts:
    """What a span says, by all conventions that it follows."""
    names = (*span.attributes, *(event.name for event in span.events))
    facts = SpanFacts()
    spoken = _spoken_before(*names) if len(names) <= _MOST_REMEMBERED else _spoken(*names)
    facts.role = next((role for each in spoken if (role := each.role(span))), OTHER)
    for each in spoken:
        each.read(span, facts)
    return facts
