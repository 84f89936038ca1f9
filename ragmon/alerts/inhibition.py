"""Inhibition: an alert whose cause is open, not silenced and as grave is explained by it.

It is no news then: it belongs to the incident of its cause, which people are notified of.
"""

from collections.abc import Iterable

from ragmon.alerts import Alert, graver
from ragmon.detectors import AlertKey
from ragmon.detectors.losses import family

# From cause to symptom. An outage explains everything, an error an empty result, and so on;
# people and clients ask again where nothing, or nothing good, comes back.
_CHAIN = (
    ("traffic",),
    ("error",),
    ("zero_result",),
    ("hit", "low_score"),
    ("false_refusal",),
    ("refusal",),
    (
        "attribution",
        "uncited",
        "cited_unretrieved",
        "grounding",
        "faithfulness",
        "custom_score",
        "positive_feedback",
        "judged",
    ),
    ("repeat",),
)
# Slowness has causes and effects of its own, but for an outage; its metrics say the same.
_LATENCY_CHAIN = (("traffic",), ("latency", "latency_p50", "slow"), ("repeat",))
ANSWERS = frozenset(_CHAIN[-2]) - {"judged"}
"""Metrics of the answers themselves."""

_SLOWNESS = frozenset(_LATENCY_CHAIN[1])
DRIFT = "drift"
_SLOW_KINDS = (DRIFT, "regression")


def cause_of(alert: Alert, others: Iterable[Alert]) -> Alert | None:
    """The open alert that explains this one; the first cause of all."""
    causes = [each for each in others if each.is_loud and explains(each, alert)]
    return min(causes, key=lambda each: (stage(each.key), each.key), default=None)


def causal_order(alert: Alert) -> tuple[bool, int, bool, float, AlertKey]:
    """Sort key that puts every alert behind all that may explain it."""
    fired_at, key = _fired(alert)
    dimension = key.stream.dimension
    return dimension != "source", stage(key), bool(dimension), fired_at, key


def explains(cause: Alert, symptom: Alert) -> bool:
    """True when a notification of the cause makes one of the symptom superfluous.

    This is a strict order, so no two alerts can inhibit one another. Nothing is explained by
    something less grave: a warning would keep a critical from being notified. A drift lasts for
    weeks and explains nothing sudden.
    """
    if cause.key.kind == DRIFT and symptom.key.kind not in _SLOW_KINDS:
        return False
    return not graver(symptom.severity, cause.severity) and is_effect(symptom, cause)


def is_effect(symptom: Alert, cause: Alert) -> bool:
    """True for an alert that another one brings about, however grave they are."""
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
    chains, metric = (_CHAIN, _LATENCY_CHAIN), family(key.stream.metric)
    places = [at for chain in chains for at, names in enumerate(chain) if metric in names]
    return min(places, default=len(_CHAIN))


def _before(one: str, other: str) -> bool:
    one, other = family(one), family(other)
    for chain in (_CHAIN, _LATENCY_CHAIN):
        place = {metric: at for at, metrics in enumerate(chain) for metric in metrics}
        if one in place and other in place and place[one] < place[other]:
            return True
    return False


def _fired_before(cause: Alert, symptom: Alert) -> bool:
    """True when of two alerts that say the same this cause was first."""
    return _fired(cause) < _fired(symptom)


def _fired(alert: Alert) -> tuple[float, AlertKey]:
    return alert.fired_at or alert.began_at, alert.key
