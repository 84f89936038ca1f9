"""Retrieved chunks as passages: each is read once into sets that answers are looked up in."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from ragmon.judges.grounding import words
from ragmon.judges.grounding.language import language_of
from ragmon.judges.grounding.words import Vocabulary

MAX_CONTEXT_CHARACTERS = 150_000
"""About 25 000 words. Chunks are read best first; what lies beyond is not read."""

MAX_MENTIONS = 64
"""Sentences remembered for a stem in one chunk: keeps the alignment linear in the answer."""


class Passage(Struct, frozen=True):
    """One chunk, read. Stems are of content words unless said otherwise."""

    bigrams: frozenset[tuple[str, str]]  # neighbours, function words included
    sentences_of: dict[str, list[int]]  # stem -> sentence numbers, ascending
    contents: tuple[int, ...]  # different stems, by sentence
    negated: tuple[bool, ...]  # by sentence
    words: int
    language: str | None  # as ``language_of`` tells
    structured: bool
    unsegmented: bool


class AnswerContext(Struct, frozen=True):
    """All passages of one answer."""

    passages: tuple[Passage, ...]
    read_share: float  # of the characters, in (0, 1]

    @property
    def words(self) -> int:
        """Of all passages."""
        return sum(passage.words for passage in self.passages)


def read_passage(text: str, vocabulary: Vocabulary) -> Passage:
    """Read one chunk; linear in its length."""
    structured = words.is_structured(text)
    text = words.without_markers(text)
    if structured:
        text = words.split_camel_case(text)
    all_stems: list[str] = []
    contents: list[int] = []
    sentences_of: dict[str, list[int]] = {}
    negated: list[bool] = []
    for tokens in _token_groups(text):
        terms = [vocabulary[token] for token in tokens]
        number = len(negated)
        negated.append(any(term.negation for term in terms))
        all_stems += [term.stem for term in terms]
        group = {term.stem for term in terms if term.weight}
        contents.append(len(group))
        for stem in group:
            mentions = sentences_of.setdefault(stem, [])
            if len(mentions) < MAX_MENTIONS:
                mentions.append(number)
    return Passage(
        bigrams=frozenset(pairwise(all_stems)),
        sentences_of=sentences_of,
        contents=tuple(contents),
        negated=tuple(negated),
        words=len(all_stems),
        language=language_of(text),
        structured=structured,
        unsegmented=words.is_unsegmented(text),
    )


def _token_groups(text: str) -> Iterable[list[str]]:
    for start, end in words.sentences(text):
        tokens = words.TOKEN.findall(text, start, end)
        for first in range(0, len(tokens), words.MAX_SENTENCE_WORDS):
            yield tokens[first : first + words.MAX_SENTENCE_WORDS]


class PassageCache:
    """The most recently used passages, bounded by the characters they hold; not thread-safe.

    Keyed by the text itself, so that two chunks can never be taken for each other.
    """

    def __init__(self, vocabulary: Vocabulary, max_characters: int = 300_000) -> None:
        """``max_characters`` 300 000 is about 50 000 words or 13 MB."""
        self._vocabulary = vocabulary
        self._max_characters = max_characters
        self._characters = 0
        self._passages: OrderedDict[str, Passage] = OrderedDict()

    def __len__(self) -> int:
        return len(self._passages)

    def context(self, chunk_texts: Sequence[str]) -> AnswerContext:
        """Read chunks in order until ``MAX_CONTEXT_CHARACTERS`` are read."""
        left = MAX_CONTEXT_CHARACTERS
        passages: list[Passage] = []
        for text in chunk_texts:
            if left <= 0:
                break
            part = text[:left]
            left -= len(part)
            if part:
                passages.append(self._passage(part))
        read = MAX_CONTEXT_CHARACTERS - left
        return AnswerContext(tuple(passages), read / max(1, read, sum(map(len, chunk_texts))))

    def _passage(self, text: str) -> Passage:
        passage = self._passages.get(text)
        if passage is not None:
            self._passages.move_to_end(text)
            return passage
        passage = self._passages[text] = read_passage(text, self._vocabulary)
        self._characters += len(text)
        while self._characters > self._max_characters and len(self._passages) > 1:
            oldest, _ = self._passages.popitem(last=False)
            self._characters -= len(oldest)
        return passage
