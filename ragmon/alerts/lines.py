"""Transitions as plain lines, for a backtest and for whatever reads its output."""

from datetime import UTC, datetime

from ragmon.alerts import AlertEvent
from ragmon.windows.series import VERSION

_EVENTS = {"firing": "open", "notified": "open", "resolved": "resolve"}
_METRICS = {"latency_p50": "latency"}


def line(event: AlertEvent) -> dict[str, str] | None:
    """A transition as one flat object; None where notifications do not name the alert."""
    kind = _EVENTS.get(event.change)
    if kind is None or not event.is_named:
        return None
    stream = event.alert.key.stream
    plain = {
        "ts": datetime.fromtimestamp(event.at, UTC).isoformat().replace("+00:00", "Z"),
        "pipeline": stream.pipeline,
        "metric": _METRICS.get(stream.metric, stream.metric),
        "alert": event.alert.name,
        "type": event.alert.key.kind,
        "version": stream.value if stream.dimension == VERSION else "",
        "event": kind,
        "incident": event.alert.incident_id,
    }
    if stream.dimension and stream.dimension != VERSION:
        plain |= {"dimension": stream.dimension, "value": stream.value}
    return plain
