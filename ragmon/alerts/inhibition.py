"""Inhibition: an alert whose cause is open, or just over, sends no notification of its own."""

from collections.abc import Iterable

from ragmon.alerts import SEVERITIES, Alert
from ragmon.detectors import AlertKey

# From cause to symptom. An outage explains everything, an error an empty result, and so on.
_CHAIN = (
    ("traffic",),
    ("error",),
    ("zero_result",),
    ("hit", "low_score"),
    (
        "attribution",
        "uncited",
        "cited_unretrieved",
        "grounding",
        "faithfulness",
        "positive_feedback",
        "judged",
    ),
)
# Slowness has causes and effects of its own, but for an outage; its metrics say the same.
_LATENCY_CHAIN = (("traffic",), ("latency", "latency_p50", "slow"))
_SLOWNESS = frozenset(_LATENCY_CHAIN[1])
_AFTERMATH_S = 900.0  # or the symptom's own window: what began in an incident may outlast it


def cause_of(alert: Alert, others: Iterable[Alert]) -> Alert | None:
    """The alert that explains this one, open or just over; the first cause of all."""
    causes = [each for each in others if explains(each, alert) and _at_work(each, alert)]
    return min(causes, key=lambda each: (stage(each.key), each.key), default=None)


def explains(cause: Alert, symptom: Alert) -> bool:
    """True when a notification of the cause makes one of the symptom superfluous.

    This is a strict order, so no two alerts can inhibit one another. Nothing is explained by
    something less grave: a warning would keep a critical from being notified.
    """
    if _graver(symptom, cause):
        return False
    one, other = cause.key, symptom.key
    if one.stream.dimension == "source" and other.kind == "no_data":
        return other.stream.dimension != "source"  # pipelines are silent when their source is
    # A bad version is an alert of its own in any incident.
    apart = (one.kind == "canary") != (other.kind == "canary")
    if apart or one.stream.pipeline != other.stream.pipeline:
        return False
    whole_of = not one.stream.dimension and bool(other.stream.dimension)
    if whole_of or one.stream[2:] == other.stream[2:]:
        same_in_slice = whole_of and one.stream.metric == other.stream.metric
        if same_in_slice or _before(one.stream.metric, other.stream.metric):
            return True
        if {one.stream.metric, other.stream.metric} <= _SLOWNESS or one.stream == other.stream:
            return _fired_before(cause, symptom)
    return False


def stage(key: AlertKey) -> int:
    """Distance of a metric from the root cause; 0 is an outage."""
    chains = (_CHAIN, _LATENCY_CHAIN)
    places = [
        at for chain in chains for at, names in enumerate(chain) if key.stream.metric in names
    ]
    return min(places, default=len(_CHAIN))


def _before(one: str, other: str) -> bool:
    for chain in (_CHAIN, _LATENCY_CHAIN):
        place = {metric: at for at, metrics in enumerate(chain) for metric in metrics}
        if one in place and other in place and place[one] < place[other]:
            return True
    return False


def _fired_before(cause: Alert, symptom: Alert) -> bool:
    """True when of two alerts that say the same this cause was first."""
    first, second = ((each.fired_at or each.began_at, each.key) for each in (cause, symptom))
    return first < second


def _graver(one: Alert, other: Alert) -> bool:
    return SEVERITIES.index(one.severity) > SEVERITIES.index(other.severity)


def _at_work(cause: Alert, symptom: Alert) -> bool:
    """True when a cause fires, or fired when the symptom did and may still show in it."""
    if cause.state == "pending":
        return False
    if cause.ended_at is None:
        return True
    if symptom.began_at > cause.ended_at:
        return False
    window = max(_AFTERMATH_S, symptom.finding.window_s or 0.0)
    # The fewer queries a symptom has the longer it takes to see that it is over, too.
    return symptom.finding.recovered > 0.0 or symptom.bad_at - cause.ended_at <= window
