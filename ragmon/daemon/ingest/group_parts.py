"""Parts of one commit, while it is prepared and once it is durable."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ragmon.daemon.ingest.changes import Restated
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from ragmon.stores import Commit
from ragmon.windows.observations import Observations


class Fresh(NamedTuple):
    """The new records of a group."""

    records: list[QueryRecord]  # as they may be stored
    received: list[QueryRecord]  # the same with all their texts
    sequences: dict[str, int]  # by query id
    hashes: dict[int, str]  # to query id, in the same order


class Counted(NamedTuple):
    """Observations that one commit added or restated."""

    logged: Observations | None
    restated: Restated
    arrivals: list[tuple[str, int]]  # records by source, duplicates too


class Doubted(NamedTuple):
    """A commit that was sent, and not known to be durable."""

    fresh: Fresh
    counted: Counted
    commit: Commit
    revised: Collection[int]  # sequence numbers of records that were mapped again


def arrivals_of(group: Sequence[Submission]) -> list[tuple[str, int]]:
    """Numbers of records by source, duplicates too."""
    return [(each.source, len(each.records)) for each in group if each.records]
