"""The report of topics: found, named, compared with the rest, the worst first."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.report import MeanEstimate
from ragmon.stats.differences import Interval95, difference
from ragmon.stats.intervals import wilson_cc
from ragmon.topics.growth import PARTS, TopicGrowth, growths
from ragmon.topics.identity import Change
from ragmon.topics.outcomes import OutcomeName, TopicOutcome, impact, order, outcomes

STEPS = 14
"""Parts of the time for which a topic's queries are counted."""

Labels = NDArray[np.int32]
Floats = NDArray[np.float64]


class TopicGroup(Struct, frozen=True, kw_only=True):
    """A topic as it was found: its name and where its typical questions are stored."""

    id: str
    first_seen: float  # unix seconds
    change: Change
    of: tuple[str, ...]
    words: tuple[str, ...]
    sequences: tuple[int, ...]  # of queries that ask typical questions


class GroupedQueries(Struct, frozen=True, kw_only=True):
    """Topics, and the one of each query that was read."""

    groups: tuple[TopicGroup, ...]
    labels: bytes  # int32 by query; -1: no topic, -2: no question was recorded
    distinct: int  # questions
    sampled: int  # distinct ones in which topics were looked for
    clear: int  # queries that are clearly of one topic
    by_vectors: bool  # made of embeddings, not of words


class TypicalQuestion(Struct, frozen=True, kw_only=True):
    """A question of a topic, and the newest query known to ask it."""

    query_id: str
    text: str


class TopicTrend(Struct, frozen=True, kw_only=True):
    """Share of a topic in the second half of the time, less that in the first."""

    before: float
    after: float
    lower: float  # 95 % interval of the difference
    upper: float
    is_more_than_chance: bool


class Topic(Struct, frozen=True, kw_only=True):
    """A group of queries that ask about the same, and how they fare."""

    id: str  # the same from day to day
    words: tuple[str, ...]  # that name it
    questions: tuple[TypicalQuestion, ...]
    first_seen: float  # unix seconds
    change: Change  # since the topics of an earlier day
    of: tuple[str, ...]  # ids of the topics that it was part of, or took in
    queries: int
    share: MeanEstimate  # of the queries with a question
    trend: TopicTrend | None  # null: one half had too few queries
    growth: TopicGrowth | None  # null: too few queries to tell
    by_step: tuple[int, ...]  # queries in equal parts of the time
    outcomes: dict[OutcomeName, TopicOutcome]
    is_gap: bool  # an outcome is worse than that of the rest, at a false-discovery rate of 5 %
    failures_in_excess: float  # queries that would not have failed at the rate of the rest


class TopicList(Struct, frozen=True, kw_only=True):
    """Topics of some time: first what fails most, most often."""

    start: float = msgspec.field(name="from")  # unix seconds
    to: float
    queries: int  # that were read
    read_share: float  # of the stored ones in that time; below 1 blocks were drawn evenly
    without_question: int  # their text was not recorded
    without_topic: int  # their question is like no other
    clear_share: float | None  # of those with a topic: not between two; null: none has any
    distinct_questions: int
    made_of: Literal["words", "embeddings"]
    topics: list[Topic]


class QueriesRead(NamedTuple):
    """Queries that were read, in the order in which they were grouped."""

    start: float  # unix seconds, of the time that was asked for
    end: float
    timestamps: Floats
    values: Mapping[OutcomeName, Floats]
    read_share: float


class _Counted(NamedTuple):
    """Queries of a topic."""

    steps: NDArray[np.int64]  # by part of the time
    total: int  # of all topics, and of none
    trend: TopicTrend | None
    growth: TopicGrowth | None


def topic_list(
    grouped: GroupedQueries,
    read: QueriesRead,
    questions: Mapping[int, TypicalQuestion],
) -> TopicList:
    """The report.

    Args:
        grouped: topics of the queries.
        read: times and outcomes of the same queries.
        questions: typical ones by sequence number; those that expired are missing.
    """
    labels = np.frombuffer(grouped.labels, dtype=np.int32)
    asked = labels > -2
    count = len(grouped.groups)
    fares = outcomes(labels, count, read.values)
    steps = _steps(labels, count, read)
    queries = steps.sum(axis=1).tolist()
    total = int(asked.sum())
    halves = _halves(labels, count, read)
    grown = growths(_parts(steps), _parts(_all_steps(labels, read))[0])
    counted = [_Counted(steps[at], total, halves[at], grown[at]) for at in range(count)]
    topics = [
        _topic(grouped.groups[at], counted[at], fares[at], questions)
        for at in order(fares, queries)
        if queries[at]
    ]
    return TopicList(
        start=read.start,
        to=read.end,
        queries=len(labels),
        read_share=read.read_share,
        without_question=int((~asked).sum()),
        without_topic=int((labels == -1).sum()),
        clear_share=grouped.clear / int((labels >= 0).sum()) if (labels >= 0).any() else None,
        distinct_questions=grouped.distinct,
        made_of="embeddings" if grouped.by_vectors else "words",
        topics=topics,
    )


def _topic(
    group: TopicGroup,
    counted: _Counted,
    fares: dict[OutcomeName, TopicOutcome],
    questions: Mapping[int, TypicalQuestion],
) -> Topic:
    queries, total = int(counted.steps.sum()), counted.total
    share = queries / total
    lower, upper = wilson_cc(share, float(total))
    return Topic(
        id=group.id,
        words=group.words,
        questions=tuple(questions[at] for at in group.sequences if at in questions),
        first_seen=group.first_seen,
        change=group.change,
        of=group.of,
        queries=queries,
        share=MeanEstimate(estimate=share, lower=lower, upper=upper, samples=total),
        trend=counted.trend,
        growth=counted.growth,
        by_step=tuple(counted.steps.tolist()),
        outcomes=fares,
        is_gap=any(outcome.is_worse for outcome in fares.values()),
        failures_in_excess=impact(fares),
    )


def _steps(labels: Labels, topics: int, read: QueriesRead) -> NDArray[np.int64]:
    """Queries of each topic in each part of the time; shape (topics, STEPS)."""
    part = _step(read)
    known = labels >= 0
    cells = labels[known].astype(np.int64) * STEPS + part[known]
    return np.bincount(cells, minlength=topics * STEPS).reshape(topics, STEPS)


def _step(read: QueriesRead) -> NDArray[np.int64]:
    """The part of the time of each query."""
    length = max(read.end - read.start, 1e-9)
    part = (read.timestamps - read.start) / length * STEPS
    return part.astype(np.int64).clip(0, STEPS - 1)


def _all_steps(labels: Labels, read: QueriesRead) -> NDArray[np.int64]:
    """Queries with a question in each part of the time; shape (1, STEPS)."""
    return np.bincount(_step(read)[labels > -2], minlength=STEPS)[None, :]


def _parts(steps: NDArray[np.int64]) -> Floats:
    """The same in the parts in which growth is looked for."""
    summed: Floats = steps.reshape(len(steps), PARTS, STEPS // PARTS).sum(axis=2).astype(np.float64)
    return summed


def _halves(labels: Labels, topics: int, read: QueriesRead) -> list[TopicTrend | None]:
    """Shares of each topic before and after the middle of the queries that were read."""
    if not len(read.timestamps):
        return [None] * topics
    middle = (float(read.timestamps.min()) + float(read.timestamps.max())) / 2.0
    late = read.timestamps > middle
    asked = labels > -2
    totals = [float((asked & side).sum()) for side in (~late, late)]
    if min(totals) < 1.0:
        return [None] * topics
    counts = [np.bincount(labels[(labels >= 0) & side], minlength=topics) for side in (~late, late)]
    return [_trend(float(one), float(other), totals) for one, other in zip(*counts, strict=True)]


def _trend(before: float, after: float, totals: Sequence[float]) -> TopicTrend:
    sides = []
    for queries, total in zip((after, before), reversed(totals), strict=True):
        share = queries / total
        lower, upper = wilson_cc(share, total)
        sides.append(Interval95(share, lower, upper))
    apart = difference(*sides)
    return TopicTrend(
        before=sides[1].value,
        after=sides[0].value,
        lower=apart.lower,
        upper=apart.upper,
        is_more_than_chance=apart.is_more_than_chance,
    )
