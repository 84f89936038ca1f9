"""Naming conventions of instrumentations: one file a convention, found by being here.

A convention exports ``ORDER`` (lower reads first), ``SPEAKS`` (first words of the attribute keys
it knows), ``role(span)`` (the kind of step, or an empty string) and ``read(span, facts)``.
A span may follow several conventions; a field that one leaves open is filled by the next.
"""

import importlib
import pkgutil
from functools import cache, lru_cache
from typing import NamedTuple, Protocol, cast

from ragmon.sources.otlp.reading import meaning
from ragmon.sources.otlp.reading.facts import CHAIN, OTHER, SpanFacts
from ragmon.sources.otlp.reading.meaning import Plan
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


class Understanding(NamedTuple):
    """Conventions of the names of a span's attributes and events, and their meaning."""

    spoken: tuple[Convention, ...]  # conventions that they belong to
    plan: Plan


def _understood(attributes: int, *names: str) -> Understanding:
    """The understanding of these names, of which the first so many are attributes."""
    words = {name.partition(".")[0] for name in names}
    spoken = tuple(each for each in conventions() if not words.isdisjoint(each.SPEAKS))
    return Understanding(spoken, meaning.plan_of(names[:attributes]))


_cached_understood = lru_cache(maxsize=1_024)(_understood)  # spans of one step have the same names


def read(span: Span) -> SpanFacts:
    """Read the facts of a span by all conventions that it follows, then by what its keys mean."""
    names = (*span.attributes, *(event.name for event in span.events))
    facts = SpanFacts()
    few = len(names) <= _MOST_CACHED and sum(map(len, names)) <= _MOST_CACHED_CHARACTERS
    understand = _cached_understood if few else _understood
    spoken, plan = understand(len(span.attributes), *names)
    known = next((role for convention in spoken if (role := convention.role(span))), "")
    facts.role = known or meaning.role_of(span, plan) or OTHER
    if facts.role == OTHER and not known and meaning.is_step(plan):
        facts.role, facts.is_step_only = CHAIN, True
    for convention in spoken:
        convention.read(span, facts)
    if plan.keys:
        meaning.fill(span, facts, plan, understood=bool(known))
    return facts
