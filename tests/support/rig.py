"""A committer with everything real around it, to feed groups of submissions by hand."""

import weakref
from collections.abc import Sequence
from pathlib import Path

from ragmon.daemon.ingest.committer import Committer
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.pipeline import Change, Pipeline
from ragmon.records import Feedback, QueryRecord
from ragmon.sources import Submission
from ragmon.stores.sqlite import SqliteStore
from ragmon.windows.series import SeriesKey
from tests.support.examples import NOON, windows


class Rig:
    """Store, windows and committer over one directory."""

    def __init__(self, directory: Path, pipeline: Pipeline, most_waiting: int = 1_000) -> None:
        self.pipeline = pipeline
        self.store = SqliteStore(directory, synchronous="NORMAL")
        weakref.finalize(self, self.store.close)  # Python 3.13 warns of what nobody closed
        self.windows = windows(pipeline)
        self.exemplars = ExemplarStore()
        self.committer = Committer(
            self.store.shard, pipeline, self.windows, self.exemplars, most_waiting=most_waiting
        )

    def commit(self, *group: Submission, now: float = NOON) -> tuple[int, ...]:
        """Commit a group; the duplicates of each submission."""
        self.committer.commit(group, now)
        return tuple(each.duplicates for each in group)

    def sums(
        self, name: str, window: float = 300.0, now: float = NOON, **labels: str
    ) -> tuple[float, float]:
        """(n, Σx) of a column of the default pipeline in a window."""
        at = self.pipeline.catalogue.index(name, **labels)
        row = self.windows.merge(window, now).rows[self.windows.series.keys[SeriesKey("default")]]
        return float(row[at]), float(row[len(self.pipeline.columns) + at])

    @property
    def counted(self) -> float:
        """Queries of the default pipeline, ever."""
        number = self.windows.series.keys.get(SeriesKey("default"))
        return 0.0 if number is None else float(self.windows.totals.queries[number])


def sent(
    *records: QueryRecord, changes: Sequence[Change] = (), offset: bytes | None = None
) -> Submission:
    """One submission."""
    places = () if offset is None else [("source", offset)]
    return Submission("test", 0, lambda _: None, records=records, changes=changes, offsets=places)


def rated(query_id: str, rating: float = 1.0, at: float = NOON) -> Feedback:
    """Feedback on one query."""
    return Feedback(query_id=query_id, rating=rating, timestamp=at)
