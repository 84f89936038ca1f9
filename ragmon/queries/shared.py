"""Questions that were asked of two slices, with the newest query of each side."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from ragmon.queries import QuerySearch, described, hits_by_block
from ragmon.queries.block_hits import Hit
from ragmon.shared_questions import SharedQuestion, SharedQuestions
from ragmon.stores import Reader

MOST_READ = 3_000
"""Newest queries of each side that are looked through."""
MOST_SHARED = 300
"""Questions that are described, those asked last."""
LEAST_BLOCKS = 8
"""Blocks of each side that are looked through, however long it takes."""

_LONGEST = 2_000  # characters of a question that tell it from others
_SHOWN = 400  # characters of a question that are kept


class _Question(Struct, frozen=True, gc=False):
    """Part of a record that is read."""

    query: str | None = None


_decode = msgspec.msgpack.Decoder(_Question).decode
_decode_all = msgspec.msgpack.Decoder(list[_Question]).decode


class _Asked(NamedTuple):
    """The queries of one side that ask the same."""

    text: str
    newest: Hit
    times: int = 1


class _Side:
    """One side of a comparison, of which a block at a time is looked through."""

    def __init__(self, search: QuerySearch) -> None:
        self.asked: dict[str, _Asked] = {}  # by question
        self.read = 0
        self.blocks = 0
        self._left = search.asked.limit
        self._hits = hits_by_block(search)

    def take_block(self, texts: "_QuestionTexts") -> bool:
        """Look through the next block; False when there is none, or enough was read."""
        hits = next(self._hits, None) if self._left else None
        if hits is None:
            return False
        self.blocks += 1
        hits = sorted(hits, reverse=True)[: self._left]
        self._left -= len(hits)
        self.read += len(hits)
        for hit in hits:
            self._add(hit, texts.of(hit))
        return True

    def _add(self, hit: Hit, text: str) -> None:
        question = normal_question(text)
        known = self.asked.get(question)
        if known is not None:
            newest = max(known.newest, hit, key=lambda one: (one.rank, one.sequence))
            self.asked[question] = known._replace(newest=newest, times=known.times + 1)
        elif question:
            self.asked[question] = _Asked(text[:_SHOWN], hit)


class _QuestionTexts:
    """Questions of records; those of the block opened last are kept, since both sides ask."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._block = -1
        self._texts: list[str] = []

    def of(self, hit: Hit) -> str:
        """The beginning of a question; empty where it is not stored."""
        if hit.block != self._block:
            self._block, self._texts = hit.block, self._read(hit.block)
        at = hit.sequence - hit.block
        return self._texts[at] if at < len(self._texts) else ""

    def _read(self, block: int) -> list[str]:
        contents = self._reader.contents(block)
        if contents is None:
            return []
        body, revised = contents
        texts = [(question.query or "")[:_LONGEST] for question in _decode_all(body)]
        for at, record in revised.items():
            texts[at] = (_decode(record).query or "")[:_LONGEST]
        return texts


def shared_questions(reference: QuerySearch, candidate: QuerySearch) -> SharedQuestions:
    """The questions that both searches find.

    The newest blocks are looked through until ``goes_on`` of the searches says that it was enough,
    but ``LEAST_BLOCKS`` of each at least.

    Args:
        reference: the newest queries of one side.
        candidate: those of the other, by the same reader.
    """
    with reference.reader.moment():
        first, second = _Side(reference), _Side(candidate)
        texts = _QuestionTexts(reference.reader)
        # In turns, so that both are read as far back, and a block of both is opened once.
        while first.take_block(texts) | second.take_block(texts):
            if min(first.blocks, second.blocks) >= LEAST_BLOCKS and not reference.goes_on():
                break
        both = [question for question in second.asked if question in first.asked]
        both.sort(key=lambda question: second.asked[question].newest.rank, reverse=True)
        shown = both[:MOST_SHARED]
        sides = (first.asked, second.asked)
        pairs = [side[question].newest for question in shown for side in sides]
        details = described(reference, pairs)
    questions = [
        SharedQuestion(
            text=second.asked[question].text,
            reference=details[2 * at],
            candidate=details[2 * at + 1],
            reference_times=first.asked[question].times,
            candidate_times=second.asked[question].times,
        )
        for at, question in enumerate(shown)
        if 2 * at in details and 2 * at + 1 in details
    ]
    return SharedQuestions(
        questions=questions,
        reference_read=first.read,
        candidate_read=second.read,
        left_out=len(both) - len(shown),
    )


def normal_question(text: str) -> str:
    """A question by which it is recognized: case, spaces and the mark at the end do not matter."""
    return " ".join(text[:_LONGEST].casefold().split()).rstrip("?!. ")
