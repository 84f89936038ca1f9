"""Overview: every pipeline in a row, open incidents on top, what changed lately below."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ragmon.alerts import SEVERITIES
from ragmon.alerts.as_json import AlertView, IncidentView
from ragmon.asgi import Problem
from ragmon.charts.axes import Axis
from ragmon.charts.line import sparkline
from ragmon.metric_series import SeriesMetric, Values, metrics
from ragmon.stats.differences import Interval95, difference
from ragmon.web.alerts import AlertSource
from ragmon.web.api import Page
from ragmon.web.page_endpoints import OVERVIEW, WINDOWS
from ragmon.web.pages import words
from ragmon.web.pages.changes import ChangeSource, recent_changes
from ragmon.web.pages.headlines import TRAFFIC, ShownMetric, headlines
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.sources import WEEK_S, PageSource, Trends
from ragmon.web.parameters import duration_of
from ragmon.web.permits import Readable, permit_of

_SPANS = ((300.0, "1h"), (3_600.0, "24h"), (WEEK_S, "7d"))
"""Time that the small curves show, for windows up to a length."""

_SHORTEST_S = 10.0
_MOST_INCIDENTS = 10
_LEAST_RANGE = 0.1  # of a small curve of a share: less would make a mountain of noise

Tone = Literal["good", "bad", "same", ""]


class ChangeSince(NamedTuple):
    """Difference from the same time a week ago."""

    text: str
    tone: Tone
    title: str


class MetricCell(NamedTuple):
    """One metric of one pipeline."""

    metric: ShownMetric
    value: str
    interval: str
    samples: str
    change: ChangeSince | None
    curve: str  # SVG


class PipelineRow(NamedTuple):
    """One pipeline."""

    name: str
    state: str  # a word
    tone: str  # class of the style sheet
    cells: list[MetricCell]


class OverviewSection:
    """Endpoint of the overview."""

    def __init__(
        self,
        source: PageSource,
        alerts: AlertSource,
        changes: ChangeSource,
        renderer: Renderer,
    ) -> None:
        self._source = source
        self._alerts = alerts
        self._changes = changes
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(OVERVIEW, self.overview),)

    async def overview(self, request: Request) -> Response:
        """The page."""
        window = request.query_params.get("window", "1h")
        length, span = _lengths(window)
        readable = permit_of(request).pipelines
        trends = await self._source.trends(length, duration_of(span) or WEEK_S, readable)
        incidents = await self._alerts.incidents("open", "", 0.0, _MOST_INCIDENTS, readable)
        pending = await self._pending(readable)
        changes = await recent_changes(self._changes, self._source, self._alerts, readable)
        shown = _headlines(trends)
        return self._renderer.page(
            "overview.html",
            window=window,
            windows=WINDOWS,
            span=span,
            now=self._source.now(),
            watermark=trends.watermark,
            problems=self._source.problems(),
            quarantined=self._source.quarantined() if readable is None else 0,
            incidents=incidents,
            pending=pending,
            changes=changes,
            metrics=shown,
            rows=pipeline_rows(trends, shown, incidents, pending),
            left_out=trends.left_out,
        )

    async def _pending(self, readable: Readable | None) -> list[AlertView]:
        """Alerts that may fire within minutes."""
        alerts = await self._alerts.alerts("open", "", 0.0, 1_000, readable)
        return [alert for alert in alerts if alert.state == "pending"]


def _lengths(window: str) -> tuple[float, str]:
    """Seconds of a window, and the time that the curves show.

    Raises:
        Problem: it is no duration in range.
    """
    length = duration_of(window)
    if length is None or not _SHORTEST_S <= length <= WEEK_S:
        detail = f"window: {window[:40]!r} is not between 10s and 7d, such as 1h"
        raise Problem(400, detail, reason="bad_parameter")
    return length, next(span for longest, span in _SPANS if length <= longest)


def _headlines(trends: Trends) -> list[ShownMetric]:
    """Traffic, and the metrics that some pipeline has samples of."""
    names = [
        name
        for name, metric in metrics(trends.columns).items()
        if any(
            np.isfinite(metric.values(part).value).any()
            for part in (trends.now, trends.before, trends.steps)
        )
    ]
    return [TRAFFIC, *headlines(names)]


def pipeline_rows(
    trends: Trends,
    shown: Sequence[ShownMetric],
    incidents: Sequence[IncidentView],
    pending: Sequence[AlertView],
) -> list[PipelineRow]:
    """The pipelines, those that are worst first, then those with the most traffic."""
    known = metrics(trends.columns)
    columns = [list(_cells(trends, metric, known[metric.name])) for metric in shown]
    rows = [
        PipelineRow(
            name,
            *_state(name, trends.now.queries[at], incidents, pending),
            cells=[cells[at] for cells in columns],
        )
        for at, name in enumerate(trends.pipelines)
    ]
    return sorted(rows, key=lambda row: _TONES.index(row.tone))


_TONES = ("critical", "warning", "info", "waiting", "quiet", "well")


def _state(
    name: str, queries: float, incidents: Sequence[IncidentView], pending: Sequence[AlertView]
) -> tuple[str, str]:
    """A word for the state of a pipeline, and the tone that goes with it."""
    severities = [
        incident.severity
        for incident in incidents
        if incident.pipeline == name and any(not alert.silenced_by for alert in incident.alerts)
    ]
    if severities:
        gravest = max(severities, key=SEVERITIES.index)
        return gravest, gravest
    if any(alert.pipeline == name for alert in pending):
        return "pending", "waiting"
    return ("well", "well") if queries else ("no traffic", "quiet")


def _cells(trends: Trends, metric: ShownMetric, series: SeriesMetric) -> Iterator[MetricCell]:
    """The cells of one column, a pipeline each."""
    now, before, steps = (series.values(part) for part in (trends.now, trends.before, trends.steps))
    length = len(steps.value) // max(len(trends.pipelines), 1)
    for at, _ in enumerate(trends.pipelines):
        curve = steps.value[at * length : (at + 1) * length] * metric.factor
        if metric is TRAFFIC:
            curve = curve[:-1]  # the step in progress would look like a fall
        scaled = [float(part[at]) * metric.factor for part in now[:3]]
        yield MetricCell(
            metric=metric,
            value=words.figure(scaled[0], metric.unit),
            interval=words.span(scaled[1], scaled[2], metric.unit),
            samples=f"{now.samples[at]:,.0f}",
            change=change_since(metric, now, before, at),
            curve=_sparkline(metric, curve.tolist()),
        )


def change_since(metric: ShownMetric, now: Values, before: Values, at: int) -> ChangeSince | None:
    """The change of one row since a week ago; None where either has no samples."""
    value, earlier = float(now.value[at]), float(before.value[at])
    if not (math.isfinite(value) and math.isfinite(earlier)) or not before.samples[at]:
        return None
    then = f"a week ago {words.figure(earlier * metric.factor, metric.unit)}"
    if metric.unit != "ratio" or not math.isfinite(float(now.lower[at])):
        if not earlier:
            return None
        return ChangeSince(f"{100.0 * (value / earlier - 1.0):+.0f} %", "", then)
    apart = difference(_interval(now, at), _interval(before, at))
    text = f"{100.0 * apart.value:+.1f} pt"
    if not apart.is_more_than_chance:
        return ChangeSince(text, "same", f"{then}: no more than chance")
    tone: Tone = "good" if apart.value * metric.better > 0 else "bad" if metric.better else ""
    return ChangeSince(text, tone, f"{then}: more than chance")


def _interval(values: Values, at: int) -> Interval95:
    return Interval95(float(values.value[at]), float(values.lower[at]), float(values.upper[at]))


def _sparkline(metric: ShownMetric, curve: list[float]) -> str:
    return sparkline(curve, title=f"{metric.title} over time", y_axis=_scale(metric, curve))


def _scale(metric: ShownMetric, curve: list[float]) -> Axis | None:
    known = [value for value in curve if math.isfinite(value)]
    if not known:
        return None
    low, high = min(known), max(known)
    if metric.unit != "ratio":
        return Axis(0.0, high or 1.0, ())
    if high - low < _LEAST_RANGE:
        low = max(0.0, min((low + high - _LEAST_RANGE) / 2.0, 1.0 - _LEAST_RANGE))
        high = low + _LEAST_RANGE
    return Axis(low, high, ())
