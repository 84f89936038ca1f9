"""Topics: what people ask, and which topics are served worse than the rest."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.charts.line import sparkline
from ragmon.topics.analysis import Topic, TopicList
from ragmon.topics.outcomes import OutcomeName, TopicOutcome
from ragmon.web.api import Page
from ragmon.web.pages.rendering import Renderer
from ragmon.web.parameters import duration_of
from ragmon.web.permits import check_pipeline
from ragmon.web.topic_endpoints import TOPIC_PAGE
from ragmon.web.topics import LONGEST_S, SHORTEST_S, TopicQuery, TopicSource

WINDOWS = ("24h", "7d", "30d")
_DEFAULT = "7d"
_WAIT_S = 5.0
_MOST = 100  # topics
_TITLES: dict[OutcomeName, str] = {
    "hit_rate": "Hit rate",
    "zero_result": "Zero results",
    "grounding": "Grounding",
    "disliked": "Disliked",
}


class TopicRow(NamedTuple):
    """A topic as the page shows it."""

    topic: Topic
    name: str
    curve: str  # SVG
    outcomes: list[TopicOutcome | None]  # in the order of the columns


class TopicPages:
    """Endpoint of the page."""

    def __init__(self, source: TopicSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(TOPIC_PAGE, self.topics),)

    async def topics(self, request: Request) -> Response:
        """The page; it says so while the topics are still being found."""
        asked, now = request.query_params, self._source.now()
        pipeline, readable = check_pipeline(request, asked.get("pipeline", ""))
        window = asked.get("window") or _DEFAULT
        length_s = duration_of(window)
        if length_s is None or not SHORTEST_S <= length_s <= LONGEST_S:
            detail = f"window: {window[:40]!r} is no duration from 5m to 90d"
            raise Problem(400, detail, reason="bad_parameter")
        query = TopicQuery(pipeline, now - length_s, None, readable)
        topics = await self._source.topics(query, _WAIT_S)
        columns = _columns(topics) if topics else []
        return self._renderer.page(
            "topics.html",
            pipeline=pipeline,
            window=window,
            windows=WINDOWS,
            default=_DEFAULT,
            now=now,
            topics=topics,
            titles=[_TITLES[name] for name in columns],
            rows=[_row(topic, columns) for topic in topics.topics[:_MOST]] if topics else [],
            gaps=sum(topic.is_gap for topic in topics.topics) if topics else 0,
        )


def topic_name(topic: Topic) -> str:
    """The words that name a topic."""
    return " · ".join(topic.words) or f"topic {topic.id}"


def _columns(topics: TopicList) -> list[OutcomeName]:
    """Outcomes that any topic has."""
    return [name for name in _TITLES if any(name in topic.outcomes for topic in topics.topics)]


def _row(topic: Topic, columns: Sequence[OutcomeName]) -> TopicRow:
    curve = sparkline([float(count) for count in topic.by_step], title="Queries over time")
    outcomes = [topic.outcomes.get(name) for name in columns]
    return TopicRow(topic, topic_name(topic), curve, outcomes)
