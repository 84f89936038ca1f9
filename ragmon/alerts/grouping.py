"""One message a pipeline: its open alerts together, the cause first."""

from collections.abc import Iterable

from msgspec import Struct

from ragmon.alerts import SEVERITIES, Alert
from ragmon.alerts.inhibition import stage
from ragmon.detectors import Severity


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
    found = [_group(pipeline, held) for pipeline, held in by_pipeline.items()]
    return tuple(sorted(found, key=lambda each: (-SEVERITIES.index(each.severity), each.pipeline)))


def _group(pipeline: str, held: list[Alert]) -> AlertGroup:
    ordered = sorted(
        held,
        key=lambda each: (
            not each.heard,
            stage(each.key),
            -SEVERITIES.index(each.severity),
            each.key,
        ),
    )
    severity = max((each.severity for each in held), key=SEVERITIES.index)
    more = f" and {len(ordered) - 1} more" if len(ordered) > 1 else ""
    return AlertGroup(pipeline, severity, f"{ordered[0].name} in {pipeline}{more}", tuple(ordered))
