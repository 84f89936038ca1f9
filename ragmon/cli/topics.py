"""Show topics: what people ask, grouped, the worst served first."""

import argparse
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from ragmon.cli import remote, window_flags
from ragmon.cli.console import say, say_json
from ragmon.cli.csv_output import say_csv
from ragmon.cli.evaluate import write
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.progress import waiting
from ragmon.cli.rich_output import standard_output
from ragmon.clock import Clock, SystemClock
from ragmon.counts import counted
from ragmon.errors import RemoteError
from ragmon.percentages import percent_text
from ragmon.report import MeanEstimate
from ragmon.terminal import one_line_each
from ragmon.topics.analysis import Topic, TopicList
from ragmon.topics.growth import TopicGrowth
from ragmon.topics.outcomes import BETTER_HIGH, OutcomeName

_SHOWN = 20
_MOST_TRIES = 30  # each of which waits half a minute at the daemon
_PAUSE_S = 1.0
_NAMES: tuple[OutcomeName, ...] = tuple(BETTER_HIGH)
_COLUMNS = (
    *("topic", "words", "queries", "share", "share_before", "share_after", "growth", "gap"),
    *("failures_in_excess",),
    *(f"{name}{part}" for name in _NAMES for part in ("", "_rest", "_false_discovery_rate")),
    *("question_1", "question_2", "question_3"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    window_flags.pipeline_argument(parser)
    window_flags.since_argument(parser, "7d")
    window_flags.until_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of a table")
    form.add_argument("--csv", action="store_true", help="print CSV, a line a topic")
    form.add_argument(
        "--golden",
        type=Path,
        metavar="FILE",
        help="write the typical questions of topics that fare worse as a golden set to label",
    )


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    asked = {"pipeline": args.pipeline, "since": args.since, "until": args.until}
    with waiting("Topics are being found"):
        listed = _ask(args, asked, SystemClock())
    if not listed.topics:
        check_pipeline(remote.session(args), args.url, args.pipeline)
    if args.json:
        say_json(listed)
    elif args.csv:
        say_csv(_COLUMNS, map(_cells, listed.topics))
    elif args.golden is not None:
        cases = golden_set(listed)
        write(args.golden, cases)
        gaps = counted(sum(topic.is_gap for topic in listed.topics), "topic")
        questions = counted(cases.count(b"\n"), "typical question")
        say(f"{args.golden}: {questions} of {gaps} worse than the rest, to label")
    else:
        _show(one_line_each(listed))
    return 0


def _ask(args: argparse.Namespace, asked: dict[str, str], clock: Clock) -> TopicList:
    """The topics; the daemon may be finding them for some minutes.

    Raises:
        RemoteError: there is no answer, or none after all that time.
    """
    session = remote.session(args)
    for _ in range(_MOST_TRIES - 1):
        try:
            return remote.get(session, args.url, "/v1/topics", TopicList, **asked)
        except RemoteError as error:
            if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            clock.sleep(_PAUSE_S)
    return remote.get(session, args.url, "/v1/topics", TopicList, **asked)


def golden_set(listed: TopicList) -> bytes:
    """Typical questions of the topics that fare worse, as cases without labels."""
    cases = [
        {
            "query": question.text,
            "case_id": question.query_id,
            "metadata": {"topic": " ".join(topic.words), "topic_id": topic.id},
        }
        for topic in listed.topics
        if topic.is_gap
        for question in topic.questions
    ]
    return b"".join(msgspec.json.encode(case) + b"\n" for case in cases)


def _cells(topic: Topic) -> list[Any]:
    trend = topic.trend
    outcomes: list[float | None] = []
    for name in _NAMES:
        outcome = topic.outcomes.get(name)
        outcomes += (
            [None, None, None]
            if outcome is None
            else [
                outcome.topic.estimate,
                outcome.rest.estimate,
                outcome.false_discovery_rate,
            ]
        )
    questions = [question.text for question in topic.questions] + ["", "", ""]
    return [
        topic.id,
        " ".join(topic.words),
        topic.queries,
        topic.share.estimate,
        trend and trend.before,
        trend and trend.after,
        topic.growth and topic.growth.ratio,
        int(topic.is_gap),
        round(topic.failures_in_excess, 1),
        *outcomes,
        *questions[:3],
    ]


def _show(listed: TopicList) -> None:
    output = standard_output(markup=False)
    if not listed.topics:
        output.print("No topics: too few questions, or none that share words.")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("")
    table.add_column("topic", overflow="ellipsis", no_wrap=True, max_width=32)
    for name in ("queries", "share", *(name.replace("_", " ") for name in _NAMES)):
        table.add_column(name, justify="right")
    table.add_column("for example", overflow="ellipsis", no_wrap=True)
    for topic in listed.topics[:_SHOWN]:
        table.add_row(*_row(topic))
    output.print(table)
    for topic in listed.topics:
        if topic.growth is not None and topic.growth.is_growing:
            output.print(_growth_line(topic, topic.growth))
    gaps = sum(topic.is_gap for topic in listed.topics)
    output.print(
        f"{len(listed.topics):,} topics of {listed.queries:,} queries; {gaps} marked ✗ fare worse"
        " than the rest (false-discovery rate 5 %). All of them: --json or --csv."
    )
    if listed.clear_share is not None:
        output.print(
            f"Of the queries with a topic {percent_text(listed.clear_share)} are clearly of one;"
            " the others lie between topics."
        )
    if listed.read_share < 1.0:
        output.print(
            f"Of the stored queries {percent_text(listed.read_share)} were read"
            " (topics.max_queries)."
        )


def _growth_line(topic: Topic, growth: TopicGrowth) -> str:
    return (
        f"Growing: {' '.join(topic.words) or topic.id} has {growth.ratio:.1f} times its share"
        f" ({growth.lower:.1f} to {growth.upper:.1f}) in the last seventh of the time."
    )


def _row(topic: Topic) -> list[str]:
    cells = ["✗" if topic.is_gap else "", " ".join(topic.words), f"{topic.queries:,}"]
    cells.append(_percent(topic.share))
    for name in _NAMES:
        outcome = topic.outcomes.get(name)
        mark = "✗ " if outcome and outcome.is_worse else ""
        cells.append(mark + _percent(outcome.topic) if outcome else "–")
    return [*cells, topic.questions[0].text if topic.questions else ""]


def _percent(mean: MeanEstimate) -> str:
    return "–" if mean.estimate is None else percent_text(mean.estimate)
