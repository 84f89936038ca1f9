"""Paths of topics, as ``ragmon.web.endpoints`` has those of everything else."""

from ragmon.topics.analysis import TopicList
from ragmon.web.endpoint import HTML, PIPELINE, Endpoint, Parameter

_SINCE = Parameter(
    "since", "Start: Unix seconds, RFC 3339, or how long ago, such as `1d`.", str, "7d"
)
_UNTIL = Parameter("until", "End, exclusive; in the forms of `since`. Empty: now.", str, "")
TOPICS = Endpoint(
    name="topics",
    method="GET",
    path="/v1/topics",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Queries",
    summary="Topics: what people ask, grouped, the worst served first",
    help="Questions are grouped by their words. Each topic has its share, its trend, and its hit "
    "rate, zero results, grounding and dislikes beside those of all other queries, with 95 % "
    "intervals; `is_gap` where one is worse at a false-discovery rate of 5 %. Repeats are left "
    "out. An analysis takes up to some minutes: 503 with Retry-After until it is made, then it is "
    "kept for a while.",
    parameters=(PIPELINE, _SINCE, _UNTIL),
    answer=TopicList,
    problems=(400, 503),
)
TOPIC_PAGE = Endpoint(
    name="topicPage",
    method="GET",
    path="/topics",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="Topics for a browser: what people ask, and what is served worse than the rest",
    parameters=(
        PIPELINE,
        Parameter("window", "Length of the time, such as `24h`, at most 90 days.", str, "7d"),
    ),
    media=(HTML,),
    problems=(400,),
)

EVERY = (TOPICS, TOPIC_PAGE)
"""All of them, in the order of the document."""
