"""Reports on the documents of a running engine."""

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from random import Random

from ragmon.asgi import Problem
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.read_deadline import read_deadline
from ragmon.documents.findings import ReportBounds, report_of
from ragmon.documents.gathering import Gathering, Scope
from ragmon.documents.live import LiveDocumentCounts, LiveDocumentList
from ragmon.documents.report import DocumentReport
from ragmon.memory import MemoryBudget
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.documents import gather
from ragmon.records import QueryRecord
from ragmon.web.documents import DocumentQuery

_NAMED = 20  # versions, in an error
_HINT = "Ask for less: a later since, or one pipeline; or raise limits.query_timeout"


class LiveDocuments:
    """Implements ``ragmon.web.documents.DocumentSource``; one report at a time is made."""

    def __init__(
        self, engine: Engine, settings: Settings, clock: Clock, memory: MemoryBudget
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._memory = memory
        self._turn = asyncio.Lock()
        self._counts = LiveDocumentCounts(clock.now, Random().randrange)  # noqa: S311 - a sample
        self._counts_lock = threading.Lock()
        engine.committer.read(self._observe)
        engine.on_erased.append(self._forget)

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def top(self, readable: Callable[[str], bool] | None, most: int) -> LiveDocumentList:
        """Documents retrieved most in this hour and the last, of the pipelines that may be read."""
        with self._counts_lock:
            return self._counts.top(readable, most)

    def _observe(self, records: Sequence[QueryRecord]) -> None:
        """Count new queries; on the writer's thread."""
        with self._counts_lock:
            self._counts.observe(records)

    def _forget(self) -> None:
        """Count anew, without what was erased."""
        with self._counts_lock:
            self._counts.clear()

    async def documents(self, query: DocumentQuery) -> DocumentReport:
        """The report, over the pipelines that may be read.

        Raises:
            ReadTimeoutError: it takes longer than ``limits.query_timeout``.
            MemoryLimitError: it does not fit into ``limits.memory``.
        """
        async with self._turn:
            return await asyncio.to_thread(self._report, query)

    def _report(self, query: DocumentQuery) -> DocumentReport:
        check = read_deadline(self._clock, self._settings.limits.query_timeout, _HINT)
        newest = self._clock.now() + self._settings.max_clock_skew
        until = query.until if math.isfinite(query.until) else newest
        gathering = Gathering(Scope(query.by_source, query.k, query.changed, query.release))
        asked = QueryFilter(query.since, until, query.pipeline, (), 0, readable=query.readable)
        with self._memory.open() as memory, self._engine.store.reader() as reader:

            def step() -> None:
                check()
                memory.take(max(0, gathering.size_bytes - memory.size))

            gather(reader, self._engine.pipeline, asked, gathering, step)
            if query.release is not None and gathering.versions:
                _check_release(query.release, gathering)
            memory.take(gathering.compared.work_bytes)
            bounds = ReportBounds(
                query.since, min(until, self._clock.now()), query.rows, query.with_ids
            )
            return report_of(gathering, bounds, check)


def _check_release(release: str, gathering: Gathering) -> None:
    """Refuse a version that none of the queries has: everything would seem to have vanished.

    Raises:
        Problem: with the versions that there are.
    """
    if any(counts.after for counts in gathering.pipelines.values()):
        return
    names = sorted(gathering.versions - {""})
    listed = ", ".join(map(repr, names[:_NAMED]))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    there_are = f"there are {listed}{more}" if names else "none has any"
    raise Problem(
        400,
        f"release: none of these queries has version {release[:100]!r}, {there_are}; ask for one of"
        " them, or for an earlier since",
        reason="bad_parameter",
    )
