"""Facts of one span in neutral terms, each with the attribute key it came from."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from ragmon.records import UNSTAMPED
from ragmon.sources.otlp.reading.documents import Document

RETRIEVER = "retriever"
RERANKER = "reranker"
MODEL = "model"
EMBEDDING = "embedding"
CHAIN = "chain"
TOOL = "tool"
EVALUATOR = "evaluator"
PART = "part"  # of a query in another trace
OTHER = "other"


class SourcedValue(NamedTuple):
    """A value and the key it came from."""

    value: Any
    key: str


class LazyValue(NamedTuple):
    """A raw value and its reader, which runs only when the field is asked for."""

    read: Callable[[Any], Any]
    raw: Any
    key: str


class SpanEvaluation(Struct, frozen=True):
    """A judgement or a user's feedback about a span, a trace or a session."""

    name: str
    score: float | None = None
    label: str | None = None
    explanation: str | None = None
    annotator: str = ""  # HUMAN, LLM, CODE, or empty when not recorded
    identifier: str = ""
    scope: str = "span"  # span, trace or session
    timestamp: float = UNSTAMPED  # NaN: what was sent is no time


class SpanFacts:
    """Values that the conventions read from a span; of several for a field the first counts.

    Most of them are never asked for, so a raw value is read on the first ``find``.
    """

    __slots__ = ("_lazy", "_values", "evaluations", "input_documents", "is_step_only", "role")

    def __init__(self) -> None:
        self.role = ""
        self.is_step_only = False  # known by an input alone: part of a query, and none itself
        self.input_documents: list[Document] | None = None
        self.evaluations: list[SpanEvaluation] = []
        self._values: dict[str, SourcedValue] = {}
        self._lazy: dict[str, list[LazyValue]] = {}

    def set(self, field: str, value: Any, key: str) -> None:
        """Set a value; one set before, lazily or not, takes precedence."""
        if value is None or value == "":
            return
        if field in self._lazy:
            self._lazy[field].append(LazyValue(_as_it_is, value, key))
        elif field not in self._values:
            self._values[field] = SourcedValue(value, key)

    def set_lazily(self, field: str, read: Callable[[Any], Any], raw: Any, key: str) -> None:
        """Set a raw value for ``read`` to turn into the value, or None, once it is asked for."""
        if raw is not None and raw != "" and field not in self._values:
            self._lazy.setdefault(field, []).append(LazyValue(read, raw, key))

    def find(self, field: str) -> SourcedValue | None:
        """The value of a field with its key; None when no convention has one."""
        for lazy in self._lazy.pop(field, ()):
            value = lazy.read(lazy.raw)
            if value is not None and value != "":
                self._values[field] = SourcedValue(value, lazy.key)
                break
        return self._values.get(field)

    def value(self, field: str) -> Any:
        """The value of a field; None when no convention has one."""
        sourced = self.find(field)
        return None if sourced is None else sourced.value

    @property
    def documents(self) -> list[Document] | None:
        """Retrieved documents; None when the span does not record them."""
        documents: list[Document] | None = self.value("documents")
        return documents


def _as_it_is(value: Any) -> Any:
    return value
