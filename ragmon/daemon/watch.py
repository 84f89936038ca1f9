"""Gauges and counters of parts that know nothing of Prometheus."""

from ragmon.daemon.engine import Engine
from ragmon.exposition.own import OwnMetrics


def watch(own: OwnMetrics, engine: Engine) -> None:
    """Have the engine asked at each scrape."""
    own.watch(
        "ragmon_ingest_queue_bytes",
        "Accepted and not yet committed.",
        lambda: engine.writer.queued_bytes,
    )
    own.watch("ragmon_store_bytes", "Size of the store on disk.", engine.store.size_bytes)
    own.watch(
        "ragmon_watermark_timestamp_seconds",
        "Timestamp of the newest query counted.",
        lambda: engine.windows.watermark,
    )
    own.watch(
        "ragmon_waiting_changes",
        "Queries that feedback or labels wait for.",
        engine.store.waiting_count,
    )
    own.watch_total(
        "ragmon_window_restatements",
        "Queries counted anew after late feedback or labels.",
        lambda: engine.windows.restatements,
    )
    own.watch_total(
        "ragmon_series_dropped",
        "Observations counted under other because max_series was reached.",
        lambda: engine.windows.dropped,
    )
    own.watch_total(
        "ragmon_commit_failures",
        "Groups of batches that the store refused.",
        lambda: engine.writer.stats.failures,
    )
