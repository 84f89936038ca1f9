"""Metrics of watched topics: at most twenty series, whatever is asked."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

MOST_TOPICS = 10
"""Topics whose share is exported; of those that grow one less, as one series tells the time."""

_LABELS = ("topic", "words")


class TopicSample(NamedTuple):
    """A topic as the metrics show it."""

    topic: str  # its id, the same from day to day
    words: str
    share: float  # of the queries
    growth: float | None  # times its former share; None: it does not grow


class WatchedTopics(NamedTuple):
    """The topics of the last analysis."""

    made_at: float  # unix seconds
    topics: Sequence[TopicSample]


class TopicMetrics(Collector):
    """Asks for the topics at each scrape; before the first analysis there are none."""

    def __init__(self, watched: Callable[[], WatchedTopics | None]) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """The largest topics, and those that grow most."""
        watched = self._watched()
        topics = [] if watched is None else watched.topics
        share = GaugeMetricFamily(
            "ragmon_topic_queries_ratio",
            "Share of a topic in the queries of the last 7 days, for the largest ten.",
            None,
            _LABELS,
        )
        for topic in sorted(topics, key=lambda topic: -topic.share)[:MOST_TOPICS]:
            share.add_metric((topic.topic, topic.words), topic.share)
        yield share
        growth = GaugeMetricFamily(
            "ragmon_topic_growth_ratio",
            "Share of a topic in the last day over that in the six days before, for those that "
            "grow (a false-discovery rate of 5 %); at most nine.",
            None,
            _LABELS,
        )
        growing = [topic for topic in topics if topic.growth is not None]
        for topic in sorted(growing, key=lambda topic: -(topic.growth or 0.0))[: MOST_TOPICS - 1]:
            growth.add_metric((topic.topic, topic.words), topic.growth or 0.0)
        yield growth
        made = GaugeMetricFamily(
            "ragmon_topics_timestamp_seconds", "Unix time of the last analysis of topics."
        )
        if watched is not None:
            made.add_metric((), watched.made_at)
        yield made
