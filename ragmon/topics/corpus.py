"""Questions of a stretch of time, each distinct one once, and a sample to find topics in."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from ragmon.topics.terms import Questions, TermReader

MOST_SAMPLED = 12_000
"""Distinct questions that topics are found in; all others are assigned to them."""
_MOST_DISTINCT = 2_000_000
_KEPT_CHARACTERS = 200  # of a question, for naming

Places = NDArray[np.int64]


class Corpus(NamedTuple):
    """Distinct questions, and which of them each query asked."""

    questions: Questions
    keys: NDArray[np.uint64]  # of each distinct question
    counts: Places  # queries that ask it
    sequences: Places  # of the query that asked it first
    asked: NDArray[np.int32]  # by query: place among the questions; -1: none was recorded


class CorpusBuilder:
    """Gatherer of questions, in the order of the queries."""

    def __init__(self) -> None:
        self._reader = TermReader()
        self._places: dict[int, int] = {}  # by key
        self._starts: list[int] = [0]
        self._terms = _Grown()
        self._sequences: list[int] = []
        self._texts: list[str] = []
        self._asked: list[NDArray[np.int32]] = []

    def add(self, sequences: Sequence[int], texts: Sequence[str | None]) -> None:
        """Take in queries, by their numbers in the store."""
        asked = [
            -1 if not text else self._place(text, sequence)
            for sequence, text in zip(sequences, texts, strict=True)
        ]
        self._asked.append(np.array(asked, dtype=np.int32))

    def corpus(self) -> Corpus:
        """Everything that was taken in."""
        asked = np.concatenate(self._asked) if self._asked else np.zeros(0, np.int32)
        return Corpus(
            Questions(np.array(self._starts, dtype=np.int64), self._terms.whole()),
            np.fromiter(self._places, np.uint64, len(self._places)),
            np.bincount(asked[asked >= 0], minlength=len(self._places)),
            np.array(self._sequences, dtype=np.int64),
            asked,
        )

    def texts(self, places: Sequence[int]) -> list[str]:
        """Texts of some distinct questions, as far as they are looked at."""
        return [self._texts[place] for place in places]

    def _place(self, text: str, sequence: int) -> int:
        words = self._reader.terms(text)
        key = xxhash.xxh64_intdigest(np.array(words, dtype=np.int32).tobytes())
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= _MOST_DISTINCT:
                return -1
            place = self._places[key] = len(self._places)
            self._terms.add(words)
            self._starts.append(self._starts[-1] + len(words))
            self._sequences.append(sequence)
            self._texts.append(text[:_KEPT_CHARACTERS])
        return place


def sample_of(corpus: Corpus, seed: int, most: int = MOST_SAMPLED) -> Places:
    """Places of some distinct questions, rising; more often asked ones are likelier to be drawn.

    A question's chance depends on nothing but its words, how often it was asked and the seed.

    Source: Efraimidis and Spirakis (2006), Information Processing Letters 97:181-185.
    """
    if len(corpus.keys) <= most:
        return np.arange(len(corpus.keys))
    return np.sort(np.argpartition(_waits(corpus, seed), most)[:most])


def _waits(corpus: Corpus, seed: int) -> NDArray[np.float64]:
    """Exponential waiting times whose rates are the counts."""
    mixed = corpus.keys ^ np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
    mixed ^= mixed >> np.uint64(27)
    chance = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return -np.log(chance) / corpus.counts


class _Grown:
    """Numbers that are appended, without an object for each."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.int32]] = []
        self._last: list[int] = []

    def add(self, numbers: list[int]) -> None:
        """Append some."""
        self._last += numbers
        if len(self._last) > 100_000:
            self._parts.append(np.array(self._last, dtype=np.int32))
            self._last = []

    def whole(self) -> NDArray[np.int32]:
        """All of them."""
        return np.concatenate([*self._parts, np.array(self._last, dtype=np.int32)])
