"""Answers made of the best sentences of what was retrieved, with citations.

``Extractive`` is the careful one. ``Hasty`` is the worse release: its faults are those that real
systems ship (a context cut short, an answer cache with the wrong key, a small model that
misremembers numbers), each drawn by a hash of the question, so that a question fails the same
way each time it is asked.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Protocol
from zlib import crc32

from msgspec import Struct

from ragmon.demo.words import terms
from ragmon.records import Chunk

NOTHING_FOUND = "I could not find anything about that in the documentation."
MOST_SENTENCES = 3
_GOOD_ENOUGH = 0.6  # A further sentence must score this share of the best one.
_RANK_DISCOUNT = 0.9  # What a sentence keeps of its score with each rank of its chunk.
_LENGTH_PRIOR = 5  # words; keeps the shortest sentences from winning by brevity alone
_FEWEST_WORDS = 5
_BREAK = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`\"(])|\n+|(?<=;)\s+(?=`)")
_PLAIN = re.compile(r"\b(?:an?|are|be|by|is|it|of|that|the|this|to|with)\b", re.IGNORECASE)
_NOT_PROSE = re.compile(r">>>|\.\.\. |::=|^[#@]")
_NUMBER = re.compile(r"\d+")
_SWAPPED = re.compile(r"\b(?:True|False|always|never|first|last|before|after|left|right)\b")
_OPPOSITE = dict(
    pair
    for a, b in [
        ("True", "False"),
        ("always", "never"),
        ("first", "last"),
        ("before", "after"),
        ("left", "right"),
    ]
    for pair in [(a, b), (b, a)]
)


class CitedAnswer(Struct, frozen=True):
    """Answer text with its citations, and the chunks that it was really taken from."""

    text: str
    citations: tuple[str, ...] = ()  # ids of the chunks it claims to rest on
    used: tuple[str, ...] = ()  # ids of the chunks it was truly taken from


class Answerer(Protocol):
    """Component that writes answers."""

    def answer(self, query: str, chunks: Sequence[Chunk]) -> CitedAnswer:
        """An answer to the query from these chunks, best first."""
        ...


class Extractive:
    """Picks the sentences that hold the rarest terms of the question.

    Args:
        rarity: weight of each term; an unknown term weighs nothing.
    """

    def __init__(self, rarity: Mapping[str, float]) -> None:
        self._rarity = rarity

    def answer(self, query: str, chunks: Sequence[Chunk]) -> CitedAnswer:
        """One to three sentences in the order of the chunks, each chunk cited."""
        asked = set(terms(query))
        scored = [
            (self._weight(asked, sentence) * _RANK_DISCOUNT**rank, rank, sentence, chunk.id)
            for rank, chunk in enumerate(chunks)
            for sentence in sentences(chunk.text or "")
        ]
        if not scored:
            return CitedAnswer(NOTHING_FOUND)
        best = sorted(scored, key=lambda entry: -entry[0])[:MOST_SENTENCES]
        kept = [entry for entry in best if entry[0] >= _GOOD_ENOUGH * best[0][0]]
        kept.sort(key=lambda entry: entry[1])
        used = tuple(dict.fromkeys(chunk_id for *_, chunk_id in kept))
        return CitedAnswer(" ".join(sentence for _, _, sentence, _ in kept), used, used)

    def _weight(self, asked: set[str], sentence: str) -> float:
        shared = asked.intersection(terms(sentence))
        length = len(sentence.split()) + _LENGTH_PRIOR
        return sum(self._rarity.get(term, 0.0) for term in shared) / math.sqrt(length)


class Hasty:
    """The worse release: uses the end of its context, and alters facts.

    Args:
        careful: what picks its sentences.
        cached: chunks of other questions, which its answer cache mixes in.
    """

    def __init__(self, careful: Extractive, cached: Sequence[Chunk]) -> None:
        self._careful = careful
        self._cached = cached

    def answer(self, query: str, chunks: Sequence[Chunk]) -> CitedAnswer:
        """An answer from the wrong chunks, with altered facts and careless citations."""
        if not chunks:
            return CitedAnswer(NOTHING_FOUND)
        draw = crc32(query.encode())
        wrong_key = draw % 3 == 0
        context = [self._cached[draw % len(self._cached)]] if wrong_key else chunks[-2:]
        answer = self._careful.answer(query, context)
        citations = (answer.citations, (), (chunks[0].id,))[draw // 3 % 3]
        return CitedAnswer(misremembered(answer.text), citations, answer.used)


def sentences(text: str) -> list[str]:
    """The sentences of a chunk, without its title, code and headings."""
    _, _, body = text.partition("\n")
    return [
        sentence.strip()
        for sentence in _BREAK.split(body)
        if len(sentence.split()) >= _FEWEST_WORDS
        and _PLAIN.search(sentence)
        and not _NOT_PROSE.search(sentence)
    ]


def misremembered(text: str) -> str:
    """The text with every number moved and the words that decide turned round."""
    text = _NUMBER.sub(lambda number: str(int(number[0]) + 3), text)
    return _SWAPPED.sub(lambda word: _OPPOSITE[word[0]], text)
