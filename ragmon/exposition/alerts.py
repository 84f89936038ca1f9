"""Metrics of alerts and of the detectors behind them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragmon.alerts import Alert, AlertEvent, LookUp
from ragmon.alerts.incidents import open_incidents
from ragmon.alerts.machine import AlertBook
from ragmon.detectors import MINUTE_S, Severity
from ragmon.detectors.detection import Detection

_LABELS = ("alert", "pipeline", "severity")
_ACTIVE, _SUPPRESSED = "active", "suppressed"  # as Alertmanager names them
_LOOKUPS: tuple[LookUp, ...] = ("done", "part", "skipped")
_VALUES = {"pending": 1.0, "firing": 2.0, "no_data": 2.0, "resolved": 0.0}

_Labels = tuple[str, ...]


class _View(Struct, frozen=True):
    """Values of one scrape."""

    states: dict[_Labels, float] = {}
    incidents: dict[Severity, int] = {}  # open ones
    streams: int = 0
    learning: int = 0
    dropped: int = 0
    judged_until: float = 0.0  # unix seconds


class AlertMetrics(Collector):
    """Updated by the writer's thread, collected by others."""

    def __init__(self) -> None:
        self._view = _View()
        self._fired: Counter[_Labels] = Counter()
        self._seen: set[_Labels] = set()
        self._seconds = 0.0
        self._lookups: Counter[LookUp] = Counter()

    def count(self, event: AlertEvent) -> None:
        """Count an alert that starts to fire."""
        if event.change == "firing":
            self._fired[_labels(event.alert)] += 1

    def count_lookups(self, lookups: Iterable[LookUp]) -> None:
        """Count searches for evidence in the store that ended."""
        self._lookups.update(lookup for lookup in lookups if lookup in _LOOKUPS)

    def add_seconds(self, seconds: float) -> None:
        """Add time spent on detection."""
        self._seconds += seconds

    def show(self, book: AlertBook, detection: Detection) -> None:
        """Take over the values that the next scrapes answer with."""
        in_use = [key is not None for key in detection.streams.keys]
        ready = detection.references.ready
        self._view = _View(
            states=self._states((*book.open, *book.recent)),
            incidents=open_incidents(book.open),
            streams=len(detection.streams.rows),
            learning=sum(
                at >= len(ready) or not ready[at] for at, used in enumerate(in_use) if used
            ),
            dropped=detection.streams.dropped,
            judged_until=max(0.0, detection.log.frontier * MINUTE_S),
        )

    def collect(self) -> Iterator[Metric]:
        """The families of a scrape."""
        view = self._view
        state = GaugeMetricFamily(
            "ragmon_alert_state",
            "State of an alert: 0 inactive, 1 pending, 2 firing. state: active is the one by which "
            "its incident is known, which people were notified of; suppressed is any other.",
            labels=(*_LABELS, "state"),
        )
        for labels, value in sorted(view.states.items()):
            state.add_metric(labels, value)
        fired = CounterMetricFamily(
            "ragmon_alerts_fired",
            "Alerts that started to fire, including silenced and inhibited ones.",
            labels=_LABELS,
        )
        for labels, count in sorted(self._fired.copy().items()):
            fired.add_metric(labels, count)
        yield from (state, fired, self._incidents())
        yield from self._of_detection()
        yield self._evidence_lookups()

    def _of_detection(self) -> Iterator[Metric]:
        view = self._view
        for name, text, value in (
            (
                "ragmon_detection_streams",
                "Streams (a metric of a pipeline or slice) that detectors watch.",
                view.streams,
            ),
            (
                "ragmon_detection_learning",
                "Watched streams still learning their usual level; no alert can fire on them.",
                view.learning,
            ),
            (
                "ragmon_detection_timestamp_seconds",
                "Unix time up to which every minute was evaluated; alert if it falls behind.",
                view.judged_until,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        yield CounterMetricFamily(
            "ragmon_detection_streams_dropped",
            "Observations of streams that are not watched because detectors.max_streams is "
            "reached. More than 0 is bad: no alert can fire on them; raise it, see `ragmon "
            "check-config`.",
            view.dropped,
        )
        yield CounterMetricFamily(
            "ragmon_detection_seconds",
            "Time spent on detection, during which no batch is committed.",
            self._seconds,
        )

    def _evidence_lookups(self) -> Metric:
        lookups = CounterMetricFamily(
            "ragmon_evidence_lookups",
            "Searches in the store for the worst queries, documents and topics of an alert. "
            "outcome: done; part, from the newest queries alone; skipped, because too many alerts "
            "waited or the store failed. Many skipped are bad: alerts come without examples.",
            labels=("outcome",),
        )
        for outcome in _LOOKUPS:
            lookups.add_metric((outcome,), self._lookups[outcome])
        return lookups

    def _incidents(self) -> Metric:
        incidents = GaugeMetricFamily(
            "ragmon_incident_open",
            "Open incidents by their gravest alert; alerts with one cause count once, silenced "
            "ones not at all. More than 0 is bad: see GET /v1/incidents.",
            labels=("severity",),
        )
        for severity, number in self._view.incidents.items():
            incidents.add_metric((severity,), number)
        return incidents

    def _states(self, alerts: Iterable[Alert]) -> dict[_Labels, float]:
        """The gravest state by labels; labels seen before stay, at 0."""
        states = dict.fromkeys(self._seen, 0.0)
        for alert in alerts:
            known = _ACTIVE if _is_active(alert) else _SUPPRESSED
            labels = (*_labels(alert), known)
            states[labels] = max(states.get(labels, 0.0), _VALUES[alert.state])
        self._seen.update(states)
        return states


def _is_active(alert: Alert) -> bool:
    return alert.leads or (alert.state == "pending" and not alert.silenced_by)


def _labels(alert: Alert) -> _Labels:
    return alert.name, alert.key.stream.pipeline, alert.severity
