"""OpenTelemetry in and out, by the settings."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ragmon.asgi import BodyLimits
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.tls import Certificates
from ragmon.errors import SettingsError, extra_hint
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Loop
from ragmon.plugins import check_options
from ragmon.privacy import redact_text
from ragmon.records import QueryRecord, Verdict
from ragmon.signals.evidence import BELIEVED
from ragmon.sources.otlp import export
from ragmon.sources.otlp.receiver.assembly import Assembly, TraceTimeouts
from ragmon.sources.otlp.receiver.batch import MappingOptions
from ragmon.sources.otlp.receiver.source import DATA_POINTS, LOG_RECORDS, Options, OtlpSource
from ragmon.web.auth import Authorizer


class OtlpIn:
    """The HTTP routes, the thread that completes traces and, when set, the gRPC server."""

    def __init__(
        self,
        settings: Settings,
        source: OtlpSource,
        authorizer: Authorizer,
        certificates: Certificates | None = None,
    ) -> None:
        self._certificates = certificates
        self.source = source
        self._address = settings.otlp.grpc
        self._authorizer = authorizer
        self._server_type = _grpc_server() if self._address else None
        self._server: Any = None

    @property
    def loops(self) -> Sequence[Loop]:
        """The one that maps traces, and the one that interrupts it."""
        return (self.source.worker.loop, self.source.worker.limit.loop)

    @property
    def grpc_port(self) -> int | None:
        """The port for OTLP over gRPC, once it was started; None where there is none."""
        return None if self._server is None else int(self._server.port)

    def start(self) -> None:
        """Begin; called on the event loop."""
        self.source.start()
        certificates = self._certificates
        if self._server_type is not None:
            self._server = self._server_type(
                self._address,
                self.source,
                self._authorizer,
                asyncio.get_running_loop(),
                limits=self.source.limits,
                pem=None if certificates is None else lambda: certificates.pem,
            )
            self._server.start()

    def stop(self) -> None:
        """End; what is not complete stays in the store."""
        if self._server is not None:
            self._server.stop()
        self.source.stop()


def build_source(
    *,
    settings: Settings,
    limits: BodyLimits,
    engine: Engine,
    own: OwnMetrics,
    authorizer: Authorizer,
    clock: Clock,
) -> OtlpSource:
    """The source and its gauges; it starts when the windows are restored."""
    otlp = settings.otlp
    source = OtlpSource(
        Options(
            limits=limits,
            records=settings.limits.records,
            mapping=MappingOptions(
                retention_s=settings.retention.records,
                max_skew_s=settings.max_clock_skew,
                timeout_s=otlp.mapping_timeout,
                text=settings.privacy.text,
                ends_frozen=True,
                newest=lambda: engine.windows.watermark,
            ),
            redact=None if settings.privacy.text == "keep" else redact_text,
            timeouts=_timeouts(settings),
        ),
        sink=engine.writer,
        counters=own,
        authorize=authorizer,
        clock=clock,
        spans=engine.thread.bind(engine.shard.spans()),
    )
    _watch(own, source.worker.assembly)
    own.watch_each_total(
        "ragmon_otlp_ignored",
        "Log records and metric data points that were taken and not kept, by kind: log_record (of "
        "logs only evaluations and the content of model calls are read) or metric_point (metrics "
        "are never read). Not bad, but sent in vain: set OTEL_METRICS_EXPORTER=none, and send logs "
        "only of instrumentations that log content.",
        "kind",
        lambda: {LOG_RECORDS: 0, DATA_POINTS: 0} | source.ignored,
    )
    return source


def _watch(own: OwnMetrics, assembly: Assembly) -> None:
    """Have it asked at each scrape what became of traces."""
    own.watch(
        "ragmon_otlp_pending_traces",
        "Traces that wait for more spans.",
        lambda: len(assembly),
    )
    own.watch_total(
        "ragmon_otlp_evicted_traces",
        "Traces taken as complete early because otlp.max_traces was reached.",
        lambda: assembly.counts.complete.get("evicted", 0),
    )
    own.watch_total(
        "ragmon_otlp_late_spans",
        "Spans, and log events with content, that came after their trace was mapped. The trace is "
        "mapped again with them, unless otlp.late_for is over (ragmon_rejected_total, reason "
        "too_late). Many cost CPU: raise otlp.linger above the export interval of your SDKs.",
        lambda: assembly.counts.late,
    )
    own.watch_total(
        "ragmon_otlp_restated_queries",
        "Queries that were mapped again because spans of their trace came late.",
        lambda: assembly.counts.restated,
    )
    own.watch_each_total(
        "ragmon_otlp_traces_without_query",
        "Traces in which no query was found, by reason: embeddings (an indexing run), evaluation, "
        "only_logs (log events with content, without their spans), recorded_twice (a model call "
        "that another instrumentation recorded with its content), or no_step: no span retrieves "
        "or generates. If that is your RAG service, see `ragmon trace-doctor --last`.",
        "reason",
        lambda: (
            {"embeddings": 0, "evaluation": 0, "only_logs": 0, "recorded_twice": 0, "no_step": 0}
            | assembly.counts.without_query
        ),
    )


def _timeouts(settings: Settings) -> TraceTimeouts:
    otlp, most_disk = settings.otlp, settings.retention.max_disk
    return TraceTimeouts(
        linger_s=otlp.linger,
        idle_s=otlp.idle_timeout,
        most_traces=otlp.max_traces,
        late_s=otlp.late_for,
        late_bytes=otlp.late_size if most_disk is None else min(otlp.late_size, most_disk // 4),
    )


def build_exporter(settings: Settings) -> export.Exporter | None:
    """The exporter of ragmon's verdicts to the user's tracing tool; None unless it is configured.

    Raises:
        SettingsError: ``otlp_export`` holds something unknown.
    """
    if settings.otlp_export is None:
        return None
    return export.Exporter(check_options(export.ExportOptions, "otlp_export", settings.otlp_export))


def watch_exporter(own: OwnMetrics, exporter: export.Exporter | None) -> None:
    """Have it asked at each scrape, where there is one, what became of the verdicts."""
    if exporter is None:
        return
    own.watch_total(
        "ragmon_otlp_exported_verdicts",
        "Verdicts sent to the endpoint of otlp_export.",
        lambda: exporter.sent,
    )
    own.watch_total(
        "ragmon_otlp_dropped_verdicts",
        "Verdicts not sent to otlp_export: refused by its endpoint, or dropped from a full queue.",
        lambda: exporter.dropped,
    )


def judged(record: QueryRecord, verdict: Verdict) -> export.ExportedVerdict | None:
    """A verdict as it is exported; None when it has no score."""
    if verdict.score is None:
        return None
    explanation = "; ".join(f"{each.reason}: {each.detail}" for each in verdict.doubts)
    return export.ExportedVerdict(
        verdict.query_id,
        verdict.judge,
        "faithfulness" if verdict.judge in BELIEVED else verdict.judge,
        verdict.score,
        explanation,
        verdict.timestamp,
        record.span_id or "",
    )


def _grpc_server() -> type[Any]:
    try:
        from ragmon.sources.otlp.receiver.grpc_server import GrpcServer  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise SettingsError(f"otlp.grpc needs {error.name}", hint=extra_hint("grpc")) from error
    return GrpcServer
