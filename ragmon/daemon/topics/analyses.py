"""Analyses of topics for the API and the pages: one at a time, kept for a while."""

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import structlog

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.sections import TopicSettings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.read_deadline import read_deadline
from ragmon.daemon.topics.kept import KeptTopics
from ragmon.daemon.topics.process import TopicProcess, TopicsFailedError
from ragmon.daemon.topics.worker import AddedQueries
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.topic_blocks import TopicBlock, plan, read_blocks, typical_questions
from ragmon.topics.analysis import QueriesRead, TopicList, topic_list
from ragmon.topics.grouping import Grouping
from ragmon.topics.outcomes import BETTER_HIGH
from ragmon.web.topics import TopicQuery

_MOST_KEPT = 8  # analyses
_DAY_S = 86_400.0
_ANY = QueryFilter(0.0, 0.0, "", (), 0)


class _Key(NamedTuple):
    """Analyses that are the same for whoever asks."""

    pipeline: str
    span_s: float
    until: float | None


class _Made(NamedTuple):
    at: float  # unix seconds
    topics: TopicList


class TopicAnalyses:
    """Implements ``ragmon.web.topics.TopicSource``, and ends with the daemon as a component."""

    def __init__(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._settings: TopicSettings = settings.topics
        self._newest_s = settings.max_clock_skew
        self._clock = clock
        self._kept = KeptTopics(settings.data_dir)
        self._made: OrderedDict[_Key, _Made] = OrderedDict()
        self._under_way: dict[_Key, asyncio.Task[TopicList]] = {}
        self._turn = threading.Lock()  # one process at a time
        self._process: TopicProcess | None = None
        self._stopping = threading.Event()
        self._erasures = 0
        engine.on_erased.append(self._forget)

    def start(self) -> None:
        """Nothing runs until somebody asks."""

    def stop(self) -> None:
        """End what is under way."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.kill()

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    async def topics(self, query: TopicQuery, wait_s: float) -> TopicList | None:
        """See ``TopicSource``."""
        if query.readable is not None and not query.pipeline:
            return await asyncio.to_thread(self._find, query)  # of this token alone
        # ``since`` moves with the clock: what counts is how far back it lies.
        span_s = round((query.until or self.now()) - query.since, -1)
        key = _Key(query.pipeline, span_s, query.until)
        made = self._made.get(key)
        if made is not None and self.now() - made.at < self._settings.keep:
            return made.topics
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, query))
            task.add_done_callback(_seen)
            self._under_way[key] = task
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(task), wait_s)
        return None

    def find(self, query: TopicQuery) -> TopicList:
        """The topics, on this thread.

        Raises:
            RagmonError: they cannot be found.
        """
        return self._find(query)

    def _forget(self) -> None:
        """Let go of what quotes questions, also of what is being made."""
        self._erasures += 1
        self._made.clear()

    async def _make(self, key: _Key, query: TopicQuery) -> TopicList:
        before = self._erasures
        try:
            topics = await asyncio.to_thread(self._find, query)
        finally:
            self._under_way.pop(key, None)
        if before == self._erasures:
            self._made[key] = _Made(self.now(), topics)
        while len(self._made) > _MOST_KEPT:
            self._made.popitem(last=False)
        return topics

    def _find(self, query: TopicQuery) -> TopicList:
        """The topics, by a process of their own."""
        with self._turn:
            if self._stopping.is_set():
                raise TopicsFailedError("ragmon is ending")
            both = 2.0 * self._settings.max_time  # to be sent the questions, and to find topics
            with TopicProcess(self._settings.max_cpu, both) as process:
                self._process = process
                if self._stopping.is_set():  # meanwhile: ``stop`` saw no process to end
                    raise TopicsFailedError("ragmon is ending")
                try:
                    return self._found_by(process, query)
                finally:
                    self._process = None

    def _found_by(self, process: TopicProcess, query: TopicQuery) -> TopicList:
        now = self._clock.now()
        until = now + self._newest_s if query.until is None else query.until
        asked = _ANY._replace(
            since=query.since, until=until, pipeline=query.pipeline, readable=query.readable
        )
        hint = "Ask for less time, or lower topics.max_queries or raise topics.max_time"
        check = read_deadline(self._clock, self._settings.max_time, hint)
        with self._engine.store.reader() as reader:
            blocks = plan(reader, query.since, until, self._settings.max_queries)
            parts: list[TopicBlock] = []
            for block in read_blocks(
                reader, self._engine.pipeline, blocks.first_sequences, asked, check
            ):
                process.add(
                    AddedQueries(block.sequences, block.texts, block.askers, block.sketches)
                )
                parts.append(block._replace(sequences=[], texts=[], askers=[], sketches={}))
            earlier = self._kept.of(query.pipeline)
            grouping = process.find(earlier, now, self._settings.max_time)
            sequences = [at for group in grouping.grouped.groups for at in group.sequences]
            questions = typical_questions(reader, sequences)
        self._keep(query, grouping, now)
        read = _joined(parts, query.since, min(until, now), blocks.share)
        return topic_list(grouping.grouped, read, questions)

    def _keep(self, query: TopicQuery, grouping: Grouping, now: float) -> None:
        """Keep the topics of a day or more until now, whoever asked; others are only shown."""
        whole = query.until is None and now - query.since >= _DAY_S - 1.0
        if not whole or (query.readable is not None and not query.pipeline):
            return
        try:
            self._kept.keep(query.pipeline, grouping.kept)
        except OSError as error:
            structlog.get_logger("topics").warning(
                "topics_not_kept",
                error=str(error),
                remedy="make data_dir writable; until then topics get new ids",
            )


def _joined(parts: list[TopicBlock], start: float, end: float, share: float) -> QueriesRead:
    empty = np.zeros(0)
    return QueriesRead(
        start,
        end,
        np.concatenate([empty, *(part.timestamps for part in parts)]),
        {
            name: np.concatenate([empty, *(part.values[name] for part in parts)])
            for name in BETTER_HIGH
        },
        share,
    )


def _seen(task: "asyncio.Task[TopicList]") -> None:
    """Look at the error of a task, so that one that nobody waits for is not reported as lost."""
    if not task.cancelled():
        task.exception()
