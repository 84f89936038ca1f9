"""Client library for RAG applications written in Python.

    from ragmon.client import Monitor

    monitor = Monitor("http://ragmon:8321", token="…")
    query_id = monitor.log_query("Who pays?", answer, documents, latency_ms=412.0)
    monitor.log_feedback(query_id, "positive")

A record passes: snapshot (on the caller's thread) → inbox → encode → outbox → delivery, and,
while the server is away, the spool. Only the standard library and msgspec are imported.
"""

from __future__ import annotations

from ragmon.client.counters import Stats
from ragmon.client.monitor import Monitor
from ragmon.client.options import Options
from ragmon.client.timing import TimedQuery

__all__ = ["Monitor", "Options", "Stats", "TimedQuery"]
