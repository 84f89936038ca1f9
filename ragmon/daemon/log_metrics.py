"""Metrics of partitioned logs and of tracing tools that sources read."""

from collections.abc import Callable, Mapping, Sequence

from ragmon.exposition.own import OwnMetrics
from ragmon.sources import Source
from ragmon.sources.kafka.lag import LogFigures
from ragmon.sources.tracing_tools.source import ToolFigures

ByLabels = Mapping[tuple[str, ...], float]


def watch_logs(own: OwnMetrics, sources: Sequence[Source]) -> None:
    """Have the sources that read a log asked at each scrape."""
    logs = _figures(sources)
    own.watch_gauges(
        "ragmon_kafka_lag_records",
        "Messages of a partition that were written and are not read yet; partitions from 256 on "
        "are counted together as other. Growing for minutes: ragmon reads slower than "
        "others write, or not at all; see ragmon_loop_failures_total and "
        "ragmon_commit_failures_total.",
        ("topic", "partition"),
        lambda: _summed(logs, lambda log: {(name,): lag for name, lag in log.lag.items()}),
    )
    own.watch_gauges(
        "ragmon_kafka_lag_seconds",
        "Age of the message that was read last, in the partition that is furthest behind; 0 at the "
        "end of all. While it is high, windows and alerts are that late.",
        ("topic",),
        lambda: _summed(logs, lambda log: {(): log.lag_s}),
    )
    own.watch_labelled(
        "ragmon_log_lost",
        "Messages that Kafka deleted before they were read. Any is a loss: raise the retention of "
        "the topic above the longest time that ragmon may be behind or down.",
        ("topic",),
        lambda: _summed(logs, lambda log: {(): log.lost}),
    )
    own.watch_gauges(
        "ragmon_log_stopped_partitions",
        "Partitions that are not read, by reason: gap (messages were deleted and on_gap is stop), "
        "went_back (the log lost messages that were read), topic_made_anew or another_cluster. Any "
        "is bad; the runbook of RagmonLogWentBack says how to go on.",
        ("topic", "reason"),
        lambda: _summed(logs, lambda log: {(name,): n for name, n in log.stopped.items()}),
    )
    own.watch_gauges(
        "ragmon_kafka_partitions",
        "Partitions of a topic. More than before: repeats and feedback of queries from before may "
        "be in another partition than their query, and miss it.",
        ("topic",),
        lambda: _summed(logs, lambda log: {(): log.partitions} if log.partitions else {}),
    )
    own.watch_labelled(
        "ragmon_kafka_unkeyed",
        "Messages without a key. They count; as soon as several processes share the topic, "
        "feedback finds its query only where both have the query's id as their key.",
        ("topic",),
        lambda: _summed(logs, lambda log: {(): log.unkeyed}),
    )


def watch_tools(own: OwnMetrics, sources: Sequence[Source]) -> None:
    """Have the sources that ask a tracing tool asked at each scrape."""
    candidates = [getattr(source, "figures", None) for source in sources]
    tools = [figures for figures in candidates if isinstance(figures, ToolFigures)]
    own.watch_each(
        "ragmon_tracing_tool_lag_seconds",
        "Age of what was read last from a tracing tool, by the name of the source. Near settle_s "
        "and every_s of the source is good; growing: the tool refuses, throttles or does not "
        "answer (the log has the reason), or the history is still read.",
        "name",
        lambda: {tool.name: lag for tool in tools if (lag := tool.lag_s) is not None},
    )
    own.watch_labelled(
        "ragmon_tracing_tool_requests",
        "Requests to the API of a tracing tool, by the name of the source and outcome: answered, "
        "throttled (429: it asked for a pause) or failed. Nothing is lost: each is tried again.",
        ("name", "outcome"),
        lambda: {
            (tool.name, outcome): float(count)
            for tool in tools
            for outcome, count in tool.requests.items()
        },
    )


def _figures(sources: Sequence[Source]) -> list[LogFigures]:
    candidates = [getattr(source, "figures", None) for source in sources]
    return [figures for figures in candidates if isinstance(figures, LogFigures)]


def _summed(
    logs: Sequence[LogFigures], figures: Callable[[LogFigures], ByLabels]
) -> dict[tuple[str, ...], float]:
    """Figures by topic and further labels; two clusters may have topics of one name."""
    total: dict[tuple[str, ...], float] = {}
    for log in logs:
        for labels, number in figures(log).items():
            total[log.topic, *labels] = total.get((log.topic, *labels), 0.0) + number
    return total
