"""What one span says, in the words of no convention in particular, and which key said it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from ragmon.sources.otlp.reading.documents import Document

RETRIEVER = "retriever"
RERANKER = "reranker"
MODEL = "model"
EMBEDDING = "embedding"
CHAIN = "chain"
TOOL = "tool"
EVALUATOR = "evaluator"
PART = "part"  # of a query that another trace holds
OTHER = "other"


class SourcedValue(NamedTuple):
    """A value and the key it came from."""

    value: Any
    key: str


class Offer(NamedTuple):
    """A value that nobody read yet."""

    read: Callable[[Any], Any]
    raw: Any
    key: str


class SpanEvaluation(Struct, frozen=True):
    """A judgement or a user's feedback about a span, a trace or a session."""

    name: str
    score: float | None = None
    label: str | None = None
    explanation: str | None = None
    annotator: str = ""  # HUMAN, LLM, CODE, or nothing when nobody says
    identifier: str = ""
    scope: str = "span"  # span, trace or session
    time_ns: int = 0


class SpanFacts:
    """Collects what the conventions offer; the first to say something is believed.

    Most of what is offered is never asked for, so it is read when somebody asks.
    """

    __slots__ = ("_offers", "_said", "evaluations", "input_documents", "role")

    def __init__(self) -> None:
        self.role = ""
        self.input_documents: list[Document] | None = None
        self.evaluations: list[SpanEvaluation] = []
        self._said: dict[str, SourcedValue] = {}
        self._offers: dict[str, list[Offer]] = {}

    def say(self, field: str, value: Any, key: str) -> None:
        """Note a value, after what is known or offered already."""
        if value is None or value == "":
            return
        if field in self._offers:
            self._offers[field].append(Offer(_as_it_is, value, key))
        elif field not in self._said:
            self._said[field] = SourcedValue(value, key)

    def offer(self, field: str, read: Callable[[Any], Any], raw: Any, key: str) -> None:
        """Note where a value may be: what ``read`` makes of ``raw``, None for nothing."""
        if raw is not None and raw != "" and field not in self._said:
            self._offers.setdefault(field, []).append(Offer(read, raw, key))

    def find(self, field: str) -> SourcedValue | None:
        """What is known of a field, and the key that said it."""
        for offer in self._offers.pop(field, ()):
            value = offer.read(offer.raw)
            if value is not None and value != "":
                self._said[field] = SourcedValue(value, offer.key)
                break
        return self._said.get(field)

    def value(self, field: str) -> Any:
        """What is known of a field."""
        said = self.find(field)
        return None if said is None else said.value

    @property
    def documents(self) -> list[Document] | None:
        """What was retrieved; None when nobody says."""
        found: list[Document] | None = self.value("documents")
        return found


def _as_it_is(value: Any) -> Any:
    return value
