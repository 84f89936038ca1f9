"""Questions as people ask them, and the chunks that answer them: the demo's ground truth.

``questions.jsonl`` names each answer by its topic and a phrase of the passage, since chunk ids
move between releases of Python. A phrase that the running Python's text no longer holds is left
out, and with its last phrase a question; a test asserts that none is lost today.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from ragmon.records import Chunk


class CorpusSection(Struct, frozen=True, forbid_unknown_fields=True):
    """A passage that answers a question."""

    topic: str
    phrase: str


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of ``questions.jsonl``; without sections, nothing in the reference answers it."""

    query: str
    kind: Literal["concept", "error", "howto", "offtopic", "syntax"]
    difficulty: Literal["easy", "medium", "hard"]
    sections: tuple[CorpusSection, ...] = ()


class KnownQuestion(Struct, frozen=True):
    """A question with the chunks that answer it; None: unknown, as for most real traffic."""

    query: str
    kind: str
    relevant: frozenset[str] | None = None


def load() -> list[Question]:
    """All questions, in the order of the file."""
    lines = files("ragmon.demo").joinpath("questions.jsonl").read_bytes()
    return msgspec.json.Decoder(Question).decode_lines(lines)


def known(questions: Iterable[Question], chunks: Sequence[Chunk]) -> Iterator[KnownQuestion]:
    """The questions that these chunks can be judged by."""
    words = [(chunk, f" {_plain(chunk.text or '')} ") for chunk in chunks]
    for question in questions:
        relevant = frozenset(
            chunk.id
            for section in question.sections
            for chunk, text in words
            if chunk.source == section.topic and f" {_plain(section.phrase)} " in text
        )
        if relevant or not question.sections:
            yield KnownQuestion(question.query, question.kind, relevant or None)


def _plain(text: str) -> str:
    """Words alone: markup and punctuation differ between releases of Python."""
    return " ".join(re.findall(r"\w+", text.lower()))
