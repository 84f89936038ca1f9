"""Terms of questions: words, their beginnings and pairs of unspaced characters, as numbers."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from ragmon.word_pieces import is_unspaced, normalised, pieces

TERM_BITS = 22
MOST_CHARACTERS = 1_000  # of a question that are looked at
_MOST_TERMS = 200  # of a question
_MOST_KNOWN = 200_000  # words whose numbers are kept at hand
_STEM = 5  # characters of a beginning
_MASK = (1 << TERM_BITS) - 1

Terms = NDArray[np.int32]


class Questions(NamedTuple):
    """The terms of some questions, one after the other."""

    starts: NDArray[np.int64]  # of each question, and the end of the last
    terms: Terms  # distinct and rising within a question

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, first: int, end: int) -> "Questions":
        """Neighbouring ones."""
        starts = self.starts[first : end + 1]
        return Questions(starts - starts[0], self.terms[starts[0] : starts[-1]])

    def select(self, rows: NDArray[np.int64]) -> "Questions":
        """Some of them, in the order of the rows."""
        lengths = (self.starts[1:] - self.starts[:-1])[rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Questions(starts, self.terms[places])


class TermReader:
    """Reader of questions; the numbers of a word that was seen before cost one lookup."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, ...]] = {}

    def terms(self, text: str) -> list[int]:
        """The distinct terms of a question, rising."""
        known, distinct = self._known, set[int]()
        for word in itertools.islice(words_of(text), _MOST_TERMS):
            numbers = known.get(word)
            if numbers is None:
                numbers = self._learn(word)
            distinct.update(numbers)
        return sorted(distinct)

    def read(self, texts: Sequence[str]) -> Questions:
        """The terms of many questions."""
        rows = [self.terms(text) for text in texts]
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(starts[-1]))
        return Questions(starts, flat)

    def _learn(self, word: str) -> tuple[int, ...]:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        numbers = tuple(_number(feature) for feature in features(word))
        self._known[word] = numbers
        return numbers


def words_of(text: str) -> Iterator[str]:
    """Words of a question in order; of a stretch without spaces the pairs of characters."""
    for piece in pieces(normalised(text[:MOST_CHARACTERS])):
        if not is_unspaced(piece) or len(piece) == 1:
            yield piece
        else:
            yield from map("".join, itertools.pairwise(piece))


def features(word: str) -> Iterator[str]:
    """A word, and the beginning that it shares with its other forms."""
    yield word
    if len(word) > _STEM:
        yield word[:_STEM] + "…"


def term_of(word: str) -> int:
    """The number of a word."""
    return _number(word)


def _number(feature: str) -> int:
    return xxhash.xxh32_intdigest(feature.encode(errors="replace")) & _MASK
