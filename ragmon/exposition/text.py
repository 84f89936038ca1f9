"""Families of samples, and the text formats, written by hand.

At 50,000 series prometheus_client holds the interpreter for half a second; lines whose labels
are built once and kept cost a thirtieth of that.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragmon.exposition.names import (
    is_plain_label,
    is_plain_metric,
    label_name,
    metric_name,
)
from ragmon.exposition.negotiation import Format

_SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
Labels = tuple[tuple[str, str], ...]


class Exemplar(NamedTuple):
    """One query behind a histogram bucket."""

    trace_id: str
    value: float
    timestamp: float


class Series(NamedTuple):
    """Identity of a series; made once by ``series`` and kept, because its text is what costs."""

    name: str
    labels: Labels  # none with an empty value
    text: str  # of its line up to the value: ``name{a="b"}``; empty if a name has to be escaped


Sample = tuple[Series, float]


class NativeBuckets(NamedTuple):
    """Exponential buckets: that of index i holds (2^((i-1)/2^schema), 2^(i/2^schema)]."""

    schema: int
    zero_threshold: float  # observations up to it are in no bucket, and counted as zero
    zero_count: int
    start: int  # index of the first of the counts
    counts: Sequence[int]


class HistogramText(NamedTuple):
    """Text of the lines of a histogram up to the values; made once, and kept."""

    buckets: tuple[str, ...]  # by bucket, the last is +Inf
    sum: str
    observations: str


class HistogramSample(NamedTuple):
    """Observations of one series of a family, by bucket."""

    labels: Labels
    edges: Sequence[float]  # upper bounds, ascending, without +Inf
    counts: Sequence[int]  # of each bucket by itself, one more than edges
    total: float  # sum of all observations; a negative one can fall, and is not shown
    exemplars: Mapping[int, Exemplar] = {}  # by bucket
    native: NativeBuckets | None = None  # the same observations, in finer buckets
    text: HistogramText | None = None  # None: put together each time

    @property
    def observations(self) -> int:
        """Observations of all buckets."""
        return sum(self.counts)

    @property
    def size(self) -> int:
        """Series that it is in text."""
        return len(self.counts) + (2 if self.total >= 0 else 0)


class Family(NamedTuple):
    """Samples of one metric; every format is made of it."""

    name: str
    kind: str  # counter, gauge, histogram or summary
    help: str
    samples: Sequence[Sample]  # of a histogram there are none
    histograms: Sequence[HistogramSample] = ()
    lines: Sequence[str] = ()  # of the samples in the text formats; none: put together each time

    @property
    def size(self) -> int:
        """Series of all samples, as text has them."""
        return len(self.samples) + sum(histogram.size for histogram in self.histograms)


def series(name: str, labels: Labels) -> Series:
    """A series; labels with an empty value are left out, as Prometheus reads them."""
    labels = tuple(label for label in labels if label[1])
    plain = is_plain_metric(name) and all(is_plain_label(key) for key, _ in labels)
    return Series(name, labels, labelled(name, labels) if plain else "")


def labelled(name: str, labels: Labels, escaping: str = "underscores") -> str:
    """``name{a="b"}``; labels with an empty value are left out."""
    pairs = [f'{label_name(key, escaping)}="{_escape(value)}"' for key, value in labels if value]
    shown = metric_name(name, escaping)
    if shown.startswith('"'):  # a quoted name stands between the braces
        return f"{{{','.join((shown, *pairs))}}}"
    return f"{shown}{{{','.join(pairs)}}}" if pairs else shown


def histogram_text(
    name: str, labels: Labels, edges: Sequence[float], escaping: str = "underscores"
) -> HistogramText:
    """The text of a histogram's lines up to the values."""
    buckets = (
        labelled(f"{name}_bucket", (*labels, ("le", bound(edge))), escaping)
        for edge in (*edges, math.inf)
    )
    total, count = (labelled(name + end, labels, escaping) for end in ("_sum", "_count"))
    return HistogramText(tuple(buckets), total, count)


def line(series: Series, value: float) -> str:
    """The line of a sample whose names no format escapes."""
    return f"{series.text} {number(value)}"


def number(value: float) -> str:
    """A sample value."""
    text = repr(float(value))  # of an int or of numpy, too
    if text.endswith(".0"):
        return text[:-2]
    return _SPECIAL.get(text, text)


def bound(edge: float) -> str:
    """Value of the label ``le``: canonical, the same in every format, as OpenMetrics asks."""
    return repr(float(edge)) if math.isfinite(edge) else "+Inf"


def render(families: Iterable[Family], form: Format) -> bytes:
    """The families as one text, without the closing ``# EOF`` of OpenMetrics."""
    out: list[str] = []
    openmetrics, escaping = form.kind == "openmetrics", form.escaping
    for family in families:
        if not family.samples and not family.histograms:
            continue
        name = family.name
        if openmetrics and family.kind == "counter":
            name = name.removesuffix("_total")
        name = metric_name(name, escaping)
        out.append(f"# HELP {name} {_escape_help(family.help, openmetrics=openmetrics)}")
        out.append(f"# TYPE {name} {family.kind}")
        out.extend(
            family.lines
            or [
                f"{text or labelled(name, labels, escaping)} {number(value)}"
                for (name, labels, text), value in family.samples
            ]
        )
        for histogram in family.histograms:
            out.extend(_histogram_lines(family.name, histogram, form))
    return ("\n".join(out) + "\n").encode() if out else b""


def _histogram_lines(name: str, histogram: HistogramSample, form: Format) -> Iterator[str]:
    """Cumulative buckets, sum and count; both are left out where the sum is negative."""
    text = histogram.text or histogram_text(name, histogram.labels, histogram.edges, form.escaping)
    below = 0
    for at, (bucket, count) in enumerate(zip(text.buckets, histogram.counts, strict=True)):
        below += count
        if form.kind == "openmetrics" and at in histogram.exemplars:
            yield f"{bucket} {below}{_exemplar(histogram.exemplars[at])}"
        else:
            yield f"{bucket} {below}"
    if histogram.total >= 0:
        yield f"{text.sum} {number(histogram.total)}"
        yield f"{text.observations} {below}"


def _exemplar(exemplar: Exemplar) -> str:
    trace_id = _escape(exemplar.trace_id)
    return f' # {{trace_id="{trace_id}"}} {number(exemplar.value)} {exemplar.timestamp:.3f}'


def _escape(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def _escape_help(text: str, *, openmetrics: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if openmetrics else text
