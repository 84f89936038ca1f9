"""What one span says, in the words of no convention in particular, and which key said it."""

from typing import Any, NamedTuple

from msgspec import Struct

from ragmon.sources.otlp.documents import Document

RETRIEVER = "retriever"
RERANKER = "reranker"
MODEL = "model"
EMBEDDING = "embedding"
CHAIN = "chain"
TOOL = "tool"
EVALUATOR = "evaluator"
OTHER = "other"


class Said(NamedTuple):
    """A value and the key it came from."""

    value: Any
    key: str


class Evaluation(Struct, frozen=True):
    """A judgement or a user's feedback about a span, a trace or a session."""

    name: str
    score: float | None = None
    label: str | None = None
    explanation: str | None = None
    annotator: str = ""  # HUMAN, LLM, CODE, or nothing when nobody says
    identifier: str = ""
    scope: str = "span"  # span, trace or session
    time_ns: int = 0


class Facts:
    """Collects what the conventions read; the first to say something is believed."""

    __slots__ = (
        "documents",
        "evaluations",
        "input_documents",
        "is_redacted",
        "role",
        "said",
        "tags",
    )

    def __init__(self) -> None:
        self.role = ""
        self.said: dict[str, Said] = {}
        self.documents: list[Document] | None = None
        self.input_documents: list[Document] | None = None
        self.evaluations: list[Evaluation] = []
        self.tags: dict[str, str] = {}
        self.is_redacted = False

    def say(self, field: str, value: Any, key: str) -> None:
        """Note a value, unless one is known."""
        if value is not None and value != "" and field not in self.said:
            self.said[field] = Said(value, key)

    def say_documents(self, documents: list[Document] | None, key: str) -> None:
        """Note the documents, unless they are known."""
        if documents is not None and self.documents is None:
            self.documents = documents
            self.said["documents"] = Said(len(documents), key)

    def value(self, field: str) -> Any:
        """What is known of a field."""
        said = self.said.get(field)
        return None if said is None else said.value
