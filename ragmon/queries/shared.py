"""Questions that were asked of two slices, with the newest query of each side."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from ragmon.queries import Hit, QuerySearch, described, hits_of
from ragmon.shared_questions import SharedQuestion, SharedQuestions

MOST_READ = 3_000
"""Newest queries of each side that are looked through."""
MOST_SHARED = 300
"""Questions that are described, those asked last."""

_LONGEST = 2_000  # characters of a question that tell it from others
_SHOWN = 400  # characters of a question that are kept


class _Question(Struct, frozen=True, gc=False):
    """Part of a record that is read."""

    query: str | None = None


_decode = msgspec.msgpack.Decoder(_Question).decode


class _Asked(NamedTuple):
    """The queries of one side that ask the same."""

    text: str
    newest: Hit
    times: int = 1


def shared_questions(reference: QuerySearch, candidate: QuerySearch) -> SharedQuestions:
    """The questions that both searches find.

    Args:
        reference: the newest queries of one side.
        candidate: those of the other, by the same reader.
    """
    with reference.reader.moment():
        first, first_read = _by_question(reference)
        second, second_read = _by_question(candidate)
        both = [question for question in second if question in first]
        shown = both[:MOST_SHARED]
        pairs = [side[question].newest for question in shown for side in (first, second)]
        details = described(reference, pairs)
    questions = [
        SharedQuestion(
            text=second[question].text,
            reference=details[2 * at],
            candidate=details[2 * at + 1],
            reference_times=first[question].times,
            candidate_times=second[question].times,
        )
        for at, question in enumerate(shown)
        if 2 * at in details and 2 * at + 1 in details
    ]
    return SharedQuestions(
        questions=questions,
        reference_read=first_read,
        candidate_read=second_read,
        left_out=len(both) - len(shown),
    )


def normal_question(text: str) -> str:
    """A question by which it is recognized: case, spaces and the mark at the end do not matter."""
    return " ".join(text[:_LONGEST].casefold().split()).rstrip("?!. ")


def _by_question(search: QuerySearch) -> tuple[dict[str, _Asked], int]:
    """Queries by their question, the one asked last first, and how many were looked through."""
    hits = sorted(hits_of(search)[0], reverse=True)[: search.asked.limit]
    texts: dict[int, str] = {}  # by sequence number
    for block, places in _by_block(hits).items():
        search.on_block()
        for place, record in search.reader.some_records(block, places).items():
            texts[block + place] = (_decode(record).query or "")[:_LONGEST]
    asked: dict[str, _Asked] = {}
    for hit in hits:
        text = texts.get(hit.sequence, "")
        question = normal_question(text)
        if question in asked:
            asked[question] = asked[question]._replace(times=asked[question].times + 1)
        elif question:
            asked[question] = _Asked(text[:_SHOWN], hit)
    return asked, len(hits)


def _by_block(hits: list[Hit]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for hit in hits:
        places.setdefault(hit.block, []).append(hit.sequence - hit.block)
    return places
