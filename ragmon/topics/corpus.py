"""Questions of a stretch of time, each distinct one once, and a sample to find topics in."""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from ragmon.topics.terms import Questions, TermReader
from ragmon.topics.vectors import MOST_VECTORS, QuestionVectors, question_vectors

MOST_SAMPLED = 12_000
"""Distinct questions that topics are found in; all others are assigned to them."""
_MOST_DISTINCT = 2_000_000
_KEPT_CHARACTERS = 200  # of a question, for naming
KEPT_ASKERS = 3
"""People of each question that are told apart, at most."""

_NO_OTHERS = (0,) * (KEPT_ASKERS - 1)

Places = NDArray[np.int64]


class Corpus(NamedTuple):
    """Distinct questions, and which of them each query asked."""

    questions: Questions
    keys: NDArray[np.uint64]  # of each distinct question
    counts: Places  # queries that ask it
    sequences: Places  # of the query that asked it first
    asked: NDArray[np.int32]  # by query: place among the questions; -1: none was recorded
    askers: NDArray[np.uint32]  # people who asked each question, shape (n, KEPT_ASKERS); 0: none
    vectors: QuestionVectors | None = None  # None: none were recorded


class CorpusBuilder:
    """Gatherer of questions, in the order of the queries."""

    def __init__(self) -> None:
        self._reader = TermReader()
        self._places: dict[int, int] = {}  # by key
        self._starts: list[int] = [0]
        self._terms = _Grown()
        self._sequences: list[int] = []
        self._texts: list[str] = []
        self._askers = array("I")
        self._sketches: dict[int, bytes] = {}  # by place
        self._asked: list[NDArray[np.int32]] = []

    def add(
        self,
        sequences: Sequence[int],
        texts: Sequence[str | None],
        askers: Sequence[int] | None = None,
        sketches: Mapping[int, bytes] | None = None,
    ) -> None:
        """Take in queries.

        Args:
            sequences: their numbers in the store.
            texts: their questions; None: not recorded.
            askers: a number of 32 bits for whoever asked; 0: not recorded, which counts as
                somebody else each time, as does None for all.
            sketches: of the embeddings of some of them, by their position here.
        """
        asked = [
            -1 if not text else self._place(text, sequence, asker or _nobody(sequence))
            for sequence, text, asker in zip(
                sequences, texts, askers or [0] * len(texts), strict=True
            )
        ]
        self._asked.append(np.array(asked, dtype=np.int32))
        for at, sketched in (sketches or {}).items():
            if asked[at] >= 0 and len(self._sketches) < MOST_VECTORS:
                self._sketches.setdefault(asked[at], sketched)

    def corpus(self) -> Corpus:
        """Everything that was taken in."""
        asked = np.concatenate(self._asked) if self._asked else np.zeros(0, np.int32)
        return Corpus(
            Questions(np.array(self._starts, dtype=np.int64), self._terms.whole()),
            np.fromiter(self._places, np.uint64, len(self._places)),
            np.bincount(asked[asked >= 0], minlength=len(self._places)),
            np.array(self._sequences, dtype=np.int64),
            asked,
            np.array(self._askers, dtype=np.uint32).reshape(-1, KEPT_ASKERS),
            question_vectors(self._sketches),
        )

    def texts(self, places: Sequence[int]) -> list[str]:
        """Texts of some distinct questions, as far as they are looked at."""
        return [self._texts[place] for place in places]

    def _place(self, text: str, sequence: int, asker: int) -> int:
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
            self._askers.extend((asker, *_NO_OTHERS))
        else:
            self._note_asker(place, asker)
        return place

    def _note_asker(self, place: int, asker: int) -> None:
        """Keep one more of the people who asked a question, while there is room."""
        askers = self._askers
        for at in range(place * KEPT_ASKERS, (place + 1) * KEPT_ASKERS):
            if askers[at] == asker:
                return
            if not askers[at]:
                askers[at] = asker
                return


def _nobody(sequence: int) -> int:
    """A number for whoever asked a query of which that was not recorded."""
    return (sequence * 0x9E3779B1 + 1) % 0xFFFFFFFF + 1


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
