"""An application instrumented by the OpenTelemetry SDK, with all three signals."""

from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

SERVICE = Resource.create({"service.name": "shop"})
DETAILS = "gen_ai.client.inference.operation.details"
CONTENT = {
    "gen_ai.input.messages": [{"role": "user", "parts": [{"content": "What is the fee?"}]}],
    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"content": "Ten euros."}]}],
}


def exporters(transport, url, address):
    """Exporters of spans, logs and metrics."""
    if transport == "grpc":
        options = {"endpoint": address, "insecure": True}
        return GrpcSpans(**options), GrpcLogs(**options), GrpcMetrics(**options)
    return (
        HttpSpans(f"{url}/v1/traces"),
        HttpLogs(f"{url}/v1/logs"),
        HttpMetrics(f"{url}/v1/metrics"),
    )


def ask(spans, logs, metrics):
    """One answer of an instrumented application, exported; returns the id of its trace."""
    tracers = TracerProvider(resource=SERVICE)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    loggers = LoggerProvider(resource=SERVICE)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs))
    meters = MeterProvider([PeriodicExportingMetricReader(metrics)], resource=SERVICE)
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    with tracers.get_tracer("app").start_as_current_span("chat", attributes=chat) as span:
        logger = loggers.get_logger("app")
        logger.emit(LogRecord(event_name=DETAILS, attributes=CONTENT))
        logger.emit(LogRecord(body="asked"))
        meters.get_meter("app").create_counter("asked").add(1)
    assert tracers.force_flush()
    assert loggers.force_flush()
    assert meters.force_flush()
    for provider in (tracers, loggers, meters):
        provider.shutdown()
    return f"{span.get_span_context().trace_id:032x}"
