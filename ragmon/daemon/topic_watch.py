"""Topics watched from day to day: analysed on the schedule, exported, and alerted on."""

import structlog

from ragmon import privacy
from ragmon.daemon.component import Context
from ragmon.daemon.topics.analyses import TopicAnalyses
from ragmon.exposition.topics import TopicMetrics, TopicSample, WatchedTopics
from ragmon.topics.analysis import Topic
from ragmon.web.topics import TopicQuery

WEEK_S = 7 * 86_400.0


class TopicWatch:
    """A component; it does nothing unless ``topics.watch`` is set."""

    def __init__(self, context: Context, analyses: TopicAnalyses) -> None:
        self._context = context
        self._analyses = analyses
        self._watched: WatchedTopics | None = None
        context.engine.on_erased.append(self._forget)
        context.own.registry.register(TopicMetrics(lambda: self._watched))

    def start(self) -> None:
        """Begin with an analysis at once."""
        settings = self._context.settings.topics
        if settings.watch is not None:
            self._context.schedule.every(
                settings.watch, "topics", self.look, stall_s=settings.max_time + 600.0
            )

    def stop(self) -> None:
        """Nothing: the analyses end what is under way."""

    def look(self) -> None:
        """Find the topics of the last 7 days."""
        now = self._context.clock.now()
        topics = self._analyses.find(TopicQuery("", now - WEEK_S, None, None))
        self._watched = WatchedTopics(now, [self._sample(topic) for topic in topics.topics])
        growing = [topic for topic in topics.topics if topic.growth and topic.growth.is_growing]
        structlog.get_logger("topics").info(
            "topics_found", topics=len(topics.topics), growing=[topic.id for topic in growing]
        )

    def _forget(self) -> None:
        """Let go of everything: counts and words are made anew without what was erased."""
        self._watched = None

    def _sample(self, topic: Topic) -> TopicSample:
        growth = topic.growth
        is_growing = growth is not None and growth.is_growing
        return TopicSample(
            topic.id,
            self._words(topic),
            topic.share.estimate or 0.0,
            growth.ratio if growth is not None and is_growing else None,
        )

    def _words(self, topic: Topic) -> str:
        """The words that name it, as far as alerts may show texts."""
        texts = self._context.settings.alerts.texts
        words = " ".join(topic.words)
        if texts == "drop":
            return ""
        return privacy.redact_text(words) if texts == "redact" else words
