"""Documents whose absence may explain an alert: retrieved regularly before, and no more."""

from collections.abc import Callable
from contextlib import suppress

from ragmon.alerts import Alert, MissingDocuments
from ragmon.documents.changes import changes_of
from ragmon.documents.gathering import Gathering, Scope
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.documents import gather
from ragmon.stores import Reader
from ragmon.windows.series import VERSION

METRICS = ("zero_result", "hit", "low_score")
"""Of alerts that missing documents may explain."""

_NAMED = 5
_BEFORE_S = 86_400.0  # before the change, that is looked at
_MOST_RECORDS = 100_000  # that are looked at, the newest first
_REGULAR = 5  # retrievals
_EARLIER_S = 3_600.0  # a document may have gone before so many queries missed it


class _EnoughError(Exception):
    """As many records were read as may be."""


class MissingDocumentSearch:
    """Looks them up beside the writer."""

    def __init__(self, reader: Callable[[], Reader], pipeline: Pipeline) -> None:
        self._reader = reader
        self._pipeline = pipeline

    def find(self, alert: Alert) -> MissingDocuments | None:
        """Those of an alert about retrieval; None where none are surely missing.

        Those of a version are compared with the other versions; of all others the last retrieval
        has to lie about the change, and that of a day's queries so late by more than chance.
        """
        stream = alert.key.stream
        if stream.metric not in METRICS or alert.key.kind == "no_data":
            return None
        since, until = alert.span
        is_version = stream.dimension == VERSION
        scope = Scope(version=stream.value if is_version else None, with_texts=False)
        is_sliced = bool(stream.dimension) and not is_version
        asked = QueryFilter(
            since - (0.0 if is_version else _BEFORE_S),
            until + 60.0,  # the minute in which it was last bad belongs to it
            stream.pipeline,
            (),
            0,
            tags=((stream.dimension, stream.value),) if is_sliced else (),
        )
        return _missing(self._gathered(asked, scope), since)

    def _gathered(self, asked: QueryFilter, scope: Scope) -> Gathering:
        gathering = Gathering(scope)

        def on_block() -> None:
            if gathering.queries >= _MOST_RECORDS:
                raise _EnoughError

        with self._reader() as reader, suppress(_EnoughError):
            gather(reader, self._pipeline, asked, gathering, on_block)
        gathering.missed()
        return gathering


def _missing(gathering: Gathering, since: float) -> MissingDocuments | None:
    """The documents that vanished at a change.

    Args:
        gathering: of queries before and after.
        since: unix seconds of the change, as it was estimated.
    """
    is_version = gathering.scope.version is not None
    tallies = gathering.tallies
    retrieved = tallies.ranks.sum(axis=1)
    before = retrieved - tallies.column("after")
    vanished = [
        one.document
        for one in changes_of(gathering).vanished
        if is_version or one.at >= since - _EARLIER_S
    ]
    if not vanished:
        return None
    vanished.sort(key=lambda document: (-int(retrieved[document]), document))
    return MissingDocuments(
        count=len(vanished),
        regular=int((before >= _REGULAR).sum()),
        ids=tuple(gathering.names[document][1] for document in vanished[:_NAMED]),
        since=None if is_version else max(float(tallies.last[one]) for one in vanished),
    )
