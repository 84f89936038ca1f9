"""Values and changes of metrics as people read them: shares in percent, the rest as numbers."""

from ragmon.evaluate.score.metrics import base_of, metric
from ragmon.percentages import points_text, precise_percent

UNKNOWN = "–"
_COSINES = frozenset({"semantic_similarity", "query_similarity"})
_RECIPROCALS = frozenset({"reciprocal_rank", "keyword_rr", "err"})  # of ranks


def is_share(name: str) -> bool:
    """True for a metric that is read in percent: most are shares of queries, chunks or facts."""
    return metric(name).kind != "quantity" and base_of(name) not in _COSINES | _RECIPROCALS


def value_text(name: str, value: float | None) -> str:
    """A value of a metric: ``33.1 %`` of a share, ``1,461`` milliseconds."""
    if value is None or not is_share(name):
        return number(value)
    return precise_percent(value)


def limit_text(name: str, limit: float) -> str:
    """A limit that people set, without decimals that they did not write: ``90 %``."""
    return f"{100.0 * limit:.6g} %" if is_share(name) else f"{limit:.6g}"


def change_text(name: str, change: float | None) -> str:
    """A change of a metric: ``-3.4 points`` of a share, ``+120`` milliseconds."""
    if change is None or not is_share(name):
        return signed(change)
    return points_text(change)


def points_or_number(name: str, change: float) -> str:
    """The size of a change without its direction: ``3.4 points``, ``120``."""
    return change_text(name, abs(change)).removeprefix("+")


def number(value: float | None) -> str:
    """Three digits behind the point below ten, none above."""
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """A change of a number."""
    if value is None:
        return UNKNOWN
    return f"{round(value, 3) + 0.0:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"
