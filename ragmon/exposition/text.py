"""Prometheus text, written by hand where the client library would take seconds.

At 50,000 series prometheus_client holds the interpreter for half a second; lines whose labels
are built once and kept cost a thirtieth of that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_EXACT = 2.0**53
Labels = tuple[tuple[str, str], ...]


class Exemplar(NamedTuple):
    """One query behind a histogram bucket."""

    trace_id: str
    value: float
    timestamp: float


class Family(NamedTuple):
    """Lines of one metric; ``lines`` are finished samples."""

    name: str
    kind: str  # counter, gauge, histogram or summary
    help: str
    lines: Sequence[str]
    exemplars: Mapping[int, Exemplar] = {}  # by line; only OpenMetrics can say them


def labelled(name: str, labels: Labels) -> str:
    """``name{a="b"}``; labels with an empty value are left out, as Prometheus reads them."""
    inner = ",".join(f'{key}="{_escape(value)}"' for key, value in labels if value)
    return f"{name}{{{inner}}}" if inner else name


def number(value: float) -> str:
    """A sample value."""
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return repr(value)


def histogram_lines(
    name: str, labels: Labels, edges: Sequence[float], counts: Sequence[int], total: float
) -> list[str]:
    """Cumulative buckets, sum and count; a negative sum can fall, so both are then left out.

    Args:
        name: metric name.
        labels: of the series.
        edges: upper bounds, ascending, without +Inf.
        counts: observations of each bucket, one more than edges.
        total: sum of all observations.
    """
    lines = []
    below = 0
    for at, count in enumerate(counts):
        below += count
        bound = number(edges[at]) if at < len(edges) else "+Inf"
        lines.append(f"{labelled(name + '_bucket', (*labels, ('le', bound)))} {below}")
    if total >= 0:
        lines.append(f"{labelled(name + '_sum', labels)} {number(total)}")
        lines.append(f"{labelled(name + '_count', labels)} {below}")
    return lines


def render(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """The families as one text, without the closing ``# EOF`` of OpenMetrics."""
    out: list[str] = []
    for family in families:
        if not family.lines:
            continue
        name = family.name
        if openmetrics and family.kind == "counter":
            name = name.removesuffix("_total")
        out.append(f"# HELP {name} {_escape_help(family.help)}")
        out.append(f"# TYPE {name} {family.kind}")
        start = len(out)
        out.extend(family.lines)
        if openmetrics:
            for line, exemplar in family.exemplars.items():
                out[start + line] += _exemplar(exemplar)
    return ("\n".join(out) + "\n").encode() if out else b""


def _exemplar(exemplar: Exemplar) -> str:
    trace_id = _escape(exemplar.trace_id)
    return f' # {{trace_id="{trace_id}"}} {number(exemplar.value)} {exemplar.timestamp:.3f}'


def _escape(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
