"""Topics that drive a change: those of which more queries fail than before, and than of others."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.topics.corpus import Corpus, CorpusBuilder, sample_of
from ragmon.topics.grouping import SEED
from ragmon.topics.model import fit
from ragmon.topics.naming import names
from ragmon.topics.outcomes import outcomes

MOST_SAMPLED = 1_500
"""Distinct questions that topics are found in: some tenths of a second."""

MOST_DRIVING = 3
_LEAST_SHARE = 0.1  # of the failures in excess, below which a topic drives nothing
_LEAST_DISTINCT = 2  # questions of a topic
_FAILING_WEIGHS = 4  # as often as others, failing questions are sampled

Bools = NDArray[np.bool_]


class AskedQueries(NamedTuple):
    """Queries from before and since a change."""

    corpus: Corpus
    text_of: Callable[[Sequence[int]], list[str]]
    is_since: Bools  # by query, as is the next
    fails: Bools


class Driver(NamedTuple):
    """A topic that drives a change."""

    words: tuple[str, ...]  # that name it
    of_failing: float  # its share of the queries that fail since the change
    of_queries: float  # its share of all queries since
    failing: int  # queries


class _TopicCounts(NamedTuple):
    """Queries by topic."""

    before: NDArray[np.int64]
    failed_before: NDArray[np.int64]
    since: NDArray[np.int64]
    failed_since: NDArray[np.int64]


def drivers(asked: AskedQueries) -> tuple[Driver, ...]:
    """The topics that drive a change, the largest part first; none where all fail alike.

    A topic drives it when its queries fail more often than all others since the change, at a
    false-discovery rate of 5 %, and a tenth or more of the failures beyond those of before are
    its own.
    """
    corpus = asked.corpus
    texts = corpus.asked >= 0
    failing = texts & asked.is_since & asked.fails
    if not failing.any():
        return ()
    labels, topics = _topics(corpus, failing)
    if not topics.topics:
        return ()
    of_query = np.where(texts, labels[corpus.asked], np.int32(-2))
    counts = _counts(of_query, topics.topics, asked)
    known = texts & asked.is_since
    fares = outcomes(
        of_query[known], topics.topics, {"zero_result": asked.fails[known].astype(np.float64)}
    )
    excess, is_surely = _excess(counts)
    most = max(float(excess.clip(0.0).sum()), 1.0)
    driving = [
        at
        for at in np.argsort(-excess, kind="stable").tolist()
        if is_surely[at]
        and excess[at] / most >= _LEAST_SHARE
        and "zero_result" in fares[at]
        and fares[at]["zero_result"].is_worse
    ][:MOST_DRIVING]
    words = names(
        asked.text_of(topics.places.tolist()),
        topics.labels.tolist(),
        topics.topics,
        corpus.askers[topics.places].tolist(),
    )
    return tuple(
        Driver(
            words[at],
            int(counts.failed_since[at]) / int(failing.sum()),
            int(counts.since[at]) / int(known.sum()),
            int(counts.failed_since[at]),
        )
        for at in driving
        if words[at]
    )


class _SampleTopics(NamedTuple):
    """Topics of a sample."""

    places: NDArray[np.int64]
    labels: NDArray[np.int32]
    topics: int


def _topics(corpus: Corpus, failing: Bools) -> tuple[NDArray[np.int32], _SampleTopics]:
    """The topic of each distinct question, found in a sample in which failing ones abound."""
    fails = np.bincount(corpus.asked[failing], minlength=len(corpus.keys))
    weighed = corpus._replace(counts=corpus.counts + _FAILING_WEIGHS * fails)
    places = sample_of(weighed, SEED, MOST_SAMPLED)
    model, labels = fit(corpus.questions.select(places), SEED, least=_LEAST_DISTINCT, in_haste=True)
    return model.assign(corpus.questions), _SampleTopics(places, labels, model.topics)


def _counts(of_query: NDArray[np.int32], topics: int, asked: AskedQueries) -> _TopicCounts:
    has_topic = of_query >= 0

    def counted(chosen: Bools) -> NDArray[np.int64]:
        return np.bincount(of_query[has_topic & chosen], minlength=topics)

    before, since = ~asked.is_since, asked.is_since
    return _TopicCounts(
        counted(before), counted(before & asked.fails), counted(since), counted(since & asked.fails)
    )


def _excess(counts: _TopicCounts) -> tuple[NDArray[np.float64], Bools]:
    """Queries of each topic that fail beyond its own share of before, and if by more than chance.

    A topic that was seldom asked before is expected to fail as all did.
    """
    overall = counts.failed_before.sum() / max(int(counts.before.sum()), 1)
    expected = (counts.failed_before + 2.0 * overall) / (counts.before + 2.0)
    excess = np.asarray(counts.failed_since - counts.since * expected)
    deviation = np.sqrt(counts.since * expected * (1.0 - expected))
    return excess, excess > 2.0 * deviation + 1.0


def asked_queries(
    texts: Sequence[str | None],
    is_since: Sequence[bool],
    fails: Sequence[bool],
    askers: Sequence[int] | None = None,
) -> AskedQueries:
    """Queries as they come from a store; for those who ask see ``CorpusBuilder.add``."""
    builder = CorpusBuilder()
    builder.add(range(len(texts)), texts, askers)
    return AskedQueries(
        builder.corpus(),
        builder.texts,
        np.array(is_since, dtype=np.bool_),
        np.array(fails, dtype=np.bool_),
    )
