"""The newest traced query of each latency bucket, so that a slow bar in a graph leads to one."""

from bisect import bisect_left
from collections.abc import Collection, Sequence

from ragmon.exposition.text import Exemplar
from ragmon.records import QueryRecord
from ragmon.signals.latency import STAGES
from ragmon.windows.totals import LATENCY_EDGES_MS

_EDGES = LATENCY_EDGES_MS.tolist()
_MOST_CHARACTERS = 100  # OpenMetrics allows 128 for names and values together
_MOST_SERIES = 1_000


class ExemplarStore:
    """By (pipeline, stage), then by bucket."""

    def __init__(self) -> None:
        self.latest: dict[tuple[str, str], dict[int, Exemplar]] = {}

    def observe(self, records: Sequence[QueryRecord]) -> None:
        """Keep what these records show."""
        for record in records:
            trace_id, latency = record.trace_id, record.latency_ms
            if not trace_id or latency is None or len(trace_id) > _MOST_CHARACTERS:
                continue
            for stage in STAGES:
                value_ms = getattr(latency, stage)
                if value_ms is not None:
                    self._keep(record, stage, value_ms)

    def let_go(self, trace_ids: Collection[str]) -> None:
        """Remove what shows these traces, because their queries were erased."""
        for buckets in self.latest.values():
            for bucket in [at for at, kept in buckets.items() if kept.trace_id in trace_ids]:
                del buckets[bucket]

    def _keep(self, record: QueryRecord, stage: str, value_ms: float) -> None:
        key = (record.pipeline, stage)
        if key not in self.latest and len(self.latest) >= _MOST_SERIES:
            return
        bucket = bisect_left(_EDGES, value_ms)
        exemplar = Exemplar(record.trace_id or "", value_ms / 1000, record.timestamp)
        self.latest.setdefault(key, {})[bucket] = exemplar
