"""Naming conventions of instrumentations: one file a convention, found by being here.

A convention exports ``ORDER`` (lower reads first), ``SPEAKS`` (first words of the attribute keys
it knows), ``role(span)`` (the kind of step, or an empty string) and ``read(span, facts)``.
A span may follow several conventions; a field that one leaves open is filled by the next.
"""

import importlib
import pkgutil
from functools import cache, lru_cache
from typing import Protocol, cast

from ragmon.sources.otlp.reading.facts import OTHER, SpanFacts
from ragmon.sources.otlp.spans import Span

# Of one span; together they bound the memory of the cache.
_MOST_CACHED = 100  # names
_MOST_CACHED_CHARACTERS = 5_000  # of all names


class Convention(Protocol):
    """The exports of each file."""

    ORDER: int
    SPEAKS: frozenset[str]

    def role(self, span: Span) -> str:
        """The kind of step; empty when the convention does not know."""
        ...

    def read(self, span: Span, facts: SpanFacts) -> None:
        """Note the facts of a span."""
        ...


@cache
def conventions() -> tuple[Convention, ...]:
    """Every convention in this folder, in the order in which they read."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((cast("Convention", module) for module in modules), key=lambda c: c.ORDER))


def _spoken(*names: str) -> tuple[Convention, ...]:
    """The conventions that these names of attributes and events belong to."""
    words = {name.partition(".")[0] for name in names}
    return tuple(each for each in conventions() if not words.isdisjoint(each.SPEAKS))


_cached_spoken = lru_cache(maxsize=1_024)(_spoken)  # spans of one step have the same names


def read(span: Span) -> SpanFacts:
    """Read the facts of a span by all conventions that it follows."""
    names = (*span.attributes, *(event.name for event in span.events))
    facts = SpanFacts()
    few = len(names) <= _MOST_CACHED and sum(map(len, names)) <= _MOST_CACHED_CHARACTERS
    spoken = _cached_spoken(*names) if few else _spoken(*names)
    facts.role = next((role for convention in spoken if (role := convention.role(span))), OTHER)
    for convention in spoken:
        convention.read(span, facts)
    return facts
