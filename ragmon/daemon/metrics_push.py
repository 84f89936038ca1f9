"""Export of the families of ``/metrics`` as OTLP, for people without a scraper.

Sums are cumulative, so an export that failed is not sent again as it was: the next attempt says all
that it would have said.
"""

import socket
import zlib
from collections.abc import Callable
from pathlib import Path

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from ragmon.clock import Clock
from ragmon.config.metrics import OtlpMetricsSettings
from ragmon.daemon.monitor import FamilyGroups
from ragmon.errors import SinkError
from ragmon.exposition.otlp import ExportTimes, count_points, to_request
from ragmon.exposition.own import OwnMetrics
from ragmon.http_client import Poster, check_secrets
from ragmon.loops import Loop, LoopOptions, LoopOwner, pause_s

_RETRYABLE = frozenset({0, 429, 502, 503, 504})  # OTLP/HTTP; 0: no answer
_FIRST_PAUSE_S = 5.0
_GZIP_LEVEL = 3
_GZIP_WBITS = 31
_STARTED = "metrics_started"
# The endpoint is not ours, and the first export after a restart says all.
_LOOP = LoopOptions(is_vital=False, is_left_at_end=True, failed="metrics_export_failed")


class MetricsPush(LoopOwner):
    """Sends all families at an interval, and sooner after an attempt that may be repeated."""

    def __init__(
        self,
        settings: OtlpMetricsSettings,
        collect: Callable[[], FamilyGroups],
        clock: Clock,
        *,
        data_dir: Path,
        instance: str,
    ) -> None:
        check_secrets(settings)
        self.sent = self.retried = self.refused = self.rejected_points = 0
        self._settings = settings
        self._collect = collect
        self._clock = clock
        self._data_dir = data_dir
        self._instance = instance
        self._poster = Poster(settings, clock)
        self._process_started = clock.now()
        self._failures = 0
        self._log = structlog.get_logger("metrics_push")
        self.loop = Loop("metrics-push", self.step, self._log, options=_LOOP)

    def stop(self) -> None:
        """End; what was counted since the last export is told by the first after the restart."""
        self.loop.stop(0.0)

    def watch(self, own: OwnMetrics) -> None:
        """Count the attempts in ragmon's metrics of itself."""
        own.watch_each_total(
            "ragmon_metrics_exports",
            "Attempts to export metrics to metrics.otlp.endpoint: sent, retried (busy or not "
            "reachable, tried again soon) or refused (tried again after metrics.otlp.every; the "
            "log has the reason). Nothing is lost while refused stays 0: sums are cumulative.",
            "outcome",
            lambda: {
                "sent": self.sent,
                "retried": self.retried,
                "refused": self.refused,
            },
        )
        own.watch_total(
            "ragmon_metrics_export_rejected_points",
            "Data points that the endpoint of metrics.otlp answered not to have taken; its message "
            "is in the log.",
            lambda: self.rejected_points,
        )

    def step(self) -> float:
        """Send once; returns the seconds to wait before the next time."""
        began = self._clock.monotonic()
        try:
            answer = self._poster.post(self._settings.endpoint, self._body(), self._headers())
        except SinkError as error:
            return self._failed(error)
        self._failures = 0
        self.sent += 1
        self._read(answer)
        return max(0.1, self._settings.every - (self._clock.monotonic() - began))

    def _failed(self, error: SinkError) -> float:
        every_s = self._settings.every
        if error.status not in _RETRYABLE:
            self.refused += 1
            self._failures = 0
            self._log.warning("metrics_refused", error=str(error), again_s=every_s)
            return every_s
        self.retried += 1
        self._failures += 1
        pause = pause_s(self._failures, _FIRST_PAUSE_S, max(every_s, _FIRST_PAUSE_S))
        again_s = max(pause, error.retry_after_s)
        self._log.warning("metrics_not_sent", error=str(error), again_s=round(again_s, 1))
        return again_s

    def _body(self) -> bytes:
        now = self._clock.now()
        groups = self._collect()
        request = to_request(
            (
                (groups.windows, ExportTimes(self._store_started(), now)),
                (groups.own, ExportTimes(self._process_started, now)),
            ),
            self._instance,
            exponential=self._settings.histograms == "exponential",
        )
        self._log.debug("metrics_export", points=count_points(request))
        compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WBITS)
        return compressor.compress(request.SerializeToString()) + compressor.flush()

    def _headers(self) -> dict[str, str]:
        secrets = self._settings.headers
        configured = {name: value.get_secret_value() for name, value in secrets.items()}
        return {**configured, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}

    def _store_started(self) -> float:
        """Unix seconds at which export began with this store, whose counters outlive a restart."""
        path = self._data_dir / _STARTED
        try:
            return float(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            path.write_text(f"{self._process_started:.3f}\n", encoding="ascii")
            return self._process_started

    def _read(self, answer: bytes) -> None:
        """Look for points that were not taken."""
        try:
            partial = ExportMetricsServiceResponse.FromString(answer).partial_success
        except DecodeError:  # the status counts
            return
        if partial.rejected_data_points > 0 or partial.error_message:
            self.rejected_points += max(0, partial.rejected_data_points)
            self._log.warning(
                "metrics_partly_rejected",
                points=partial.rejected_data_points,
                error=partial.error_message[:200],
            )


def build(
    settings: OtlpMetricsSettings,
    collect: Callable[[], FamilyGroups],
    own: OwnMetrics,
    clock: Clock,
    *,
    data_dir: Path,
    port: int,
) -> MetricsPush | None:
    """The export; None unless an endpoint is configured.

    Raises:
        SettingsError: a secret cannot be read.
    """
    if not settings.endpoint:
        return None
    instance = f"{socket.gethostname()}:{port}"
    push = MetricsPush(settings, collect, clock, data_dir=data_dir, instance=instance)
    push.watch(own)
    return push
