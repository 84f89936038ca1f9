"""Queries next to one, as its page shows them."""

from typing import NamedTuple


class NearbyQuery(NamedTuple):
    """A query nearby; its texts are cut."""

    query_id: str
    timestamp: float
    query: str
    answer: str
    failed: bool  # it ended in an error


class NearbyQueries(NamedTuple):
    """The queries nearby, as far as they were looked for."""

    session: tuple[NearbyQuery, ...] = ()  # the nearest in time, in order
    same_question: tuple[NearbyQuery, ...] = ()  # earlier ones, the newest first
