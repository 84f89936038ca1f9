"""Queries that arrive over HTTP into the topic that a source says, in place of the store."""

from collections.abc import Callable, Mapping

from prometheus_client import Histogram

from ragmon.config import Settings
from ragmon.daemon.component import Context
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import instant
from ragmon.plugins import resolve
from ragmon.sources.kafka.producing import TopicWriter

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def produced_to(settings: Settings) -> int | None:
    """Index of the source to whose topic queries over HTTP are written; None: there is none.

    Raises:
        SettingsError: several say so.
    """
    chosen = []
    for at, source in enumerate(settings.sources):
        _, options = resolve("ragmon.sources", f"sources.{at}", source)
        if getattr(options, "produce", False):
            chosen.append(at)
    if len(chosen) > 1:
        raise SettingsError(
            f"sources.{chosen[1]}.produce: sources.{chosen[0]} has it already",
            hint="Leave produce with one source: a query goes to one topic",
        )
    return chosen[0] if chosen else None


def build_topic_writer(context: Context) -> TopicWriter | None:
    """The writer of queries over HTTP to a topic; None: they go to the store.

    Raises:
        SettingsError: several sources produce, or the client of Kafka is missing.
    """
    settings = context.settings
    at = produced_to(settings)
    if at is None:
        return None
    module, options = resolve("ragmon.sources", f"sources.{at}", settings.sources[at])
    seconds = watch_produced(context.own, lambda: writer.produced)
    writer: TopicWriter = module.build_writer(
        options,
        context.engine.pipeline.admit,
        context.clock,
        queue_bytes=settings.limits.queue,
        on_batch=seconds.observe,
    )
    return writer


def problem_of(writer: TopicWriter) -> Callable[[], list[str]]:
    """A function that tells why nothing can be written to the topic; nothing while it can."""

    def problems() -> list[str]:
        error = writer.last_error
        return [] if error is None else [f"{error} (since {instant(writer.failing_since)})"]

    return problems


def watch_produced(own: OwnMetrics, produced: Callable[[], Mapping[str, int]]) -> Histogram:
    """Show counts of messages, by outcome; returns the times of batches, to be added to."""
    own.watch_each_total(
        "ragmon_produced",
        "Queries over HTTP written to the topic, by outcome: delivered, failed (nobody was told "
        "200 for them; /readyz and the brokers' log say why) or too_large (refused: see "
        "max.message.bytes of the topic).",
        "outcome",
        produced,
    )
    return Histogram(
        "ragmon_produce_duration_seconds",
        "Time until all queries of a request were in the topic; near 20 s brokers do not answer.",
        buckets=_SECONDS,
        registry=own.registry,
    )
