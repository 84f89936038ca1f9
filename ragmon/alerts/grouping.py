"""One message a pipeline: its open alerts together, the cause first."""

from collections.abc import Iterable

from msgspec import Struct

from ragmon.alerts import SEVERITIES, Alert
from ragmon.alerts.inhibition import stage
from ragmon.detectors import AlertKey, Severity


class AlertGroup(Struct, frozen=True):
    """The open alerts of one pipeline."""

    pipeline: str
    severity: Severity  # the gravest
    title: str
    alerts: tuple[Alert, ...]  # the cause first; inhibited ones last


def groups(alerts: Iterable[Alert]) -> tuple[AlertGroup, ...]:
    """Alerts by pipeline, the gravest group first."""
    by_pipeline: dict[str, list[Alert]] = {}
    for alert in alerts:
        by_pipeline.setdefault(alert.key.stream.pipeline, []).append(alert)
    unordered = [_group(pipeline, members) for pipeline, members in by_pipeline.items()]
    return tuple(
        sorted(unordered, key=lambda each: (-SEVERITIES.index(each.severity), each.pipeline))
    )


def _group(pipeline: str, alerts: list[Alert]) -> AlertGroup:
    ordered = sorted(alerts, key=_order)
    severity = max((alert.severity for alert in alerts), key=SEVERITIES.index)
    more = f" and {len(ordered) - 1} more" if len(ordered) > 1 else ""
    return AlertGroup(pipeline, severity, f"{ordered[0].name} in {pipeline}{more}", tuple(ordered))


def _order(alert: Alert) -> tuple[bool, int, int, AlertKey]:
    return not alert.is_notifying, stage(alert.key), -SEVERITIES.index(alert.severity), alert.key
