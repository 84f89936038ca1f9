"""One incident or alert: what, since when, where, how sure, and what to try."""

import math
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ragmon.alerts import SliceShare
from ragmon.alerts.as_json import AlertView, IncidentView
from ragmon.alerts.example_texts import lookup_text, missing_text, topics_text
from ragmon.api_schema import AlertDetail, LostNotification
from ragmon.asgi import Problem
from ragmon.charts.line import Band, Mark
from ragmon.detectors.losses import loss_of
from ragmon.metric_series import QUERIES, metrics
from ragmon.web.alerts import AlertSource
from ragmon.web.api import Page
from ragmon.web.page_endpoints import ALERT_PAGE, INCIDENT_OF, INCIDENT_PAGE
from ragmon.web.pages.actions import DURATIONS, silence_choices, silences_of
from ragmon.web.pages.figures import ChartFigure, TimeSpan, known_names, metric_figure
from ragmon.web.pages.headlines import headlines, shown_metric
from ragmon.web.pages.rendering import HEADERS, Renderer
from ragmon.web.pages.sources import Course, CourseSource
from ragmon.web.permits import Readable, permit_of
from ragmon.web.series import SeriesQuery

_MOST_INCIDENTS, _MOST_ALERTS, _MOST_LETTERS = 1_000, 40, 200
_SHOWN_ALERTS, _SHOWN_STEPS = 6, 10  # others are folded
_LEAST_S, _MOST_S = 7_200.0, 86_400.0  # shown before the onset, and after the end
_LONGEST_S = 60 * 86_400.0
_POINTS = 120
_ENOUGH, _LONGEST_STEPS = 30.0, 4.0  # samples in a step, and how much longer it may be for them
_SERIES = {
    "traffic": QUERIES,
    "latency": "latency_ms@p95/total",
    "latency_p50": "latency_ms@p50/total",
    "mode_retrieval": "failure_mode/retrieval",
    "mode_ranking": "failure_mode/ranking",
    "mode_generation": "failure_mode/generation",
}
"""Metrics over time, by the metrics that detectors watch; the others have the same name."""


class TimelineEntry(NamedTuple):
    """One transition of one alert."""

    at: float  # unix seconds
    alert: AlertView
    change: str


class DrivingSlice(NamedTuple):
    """A slice's part in a change, in the numbers that people speak of."""

    dimension: str
    value: str
    before: float
    now: float
    samples: float
    share: float  # of what is too much
    probability: float


class IncidentSection:
    """Endpoints of one incident and of one alert."""

    def __init__(self, courses: CourseSource, alerts: AlertSource, renderer: Renderer) -> None:
        self._courses = courses
        self._alerts = alerts
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(INCIDENT_OF, self.incident_of),
            Page(INCIDENT_PAGE, self.incident),
            Page(ALERT_PAGE, self.alert),
        )

    async def incident_of(self, request: Request) -> Response:
        """The incident of an alert: a metric has no id of it, for it would have no bound."""
        pipeline, name = (request.query_params.get(key, "") for key in ("pipeline", "alert"))
        readable = permit_of(request).pipelines
        newest = await self._alerts.incidents("all", pipeline, 0.0, _MOST_INCIDENTS, readable)
        for one in newest:  # the open ones first
            if not name or any(alert.name == name for alert in one.alerts):
                return RedirectResponse(f"/incidents/{quote(one.id, safe='')}", 303, HEADERS)
        page = f"/pipelines/{quote(pipeline, safe='')}" if pipeline else "/"
        return RedirectResponse(page, 303, HEADERS)

    async def incident(self, request: Request) -> Response:
        """An incident with all of its alerts."""
        readable = permit_of(request).pipelines
        incident = await self._incident_named(request.path_params["name"], readable)
        alerts = [await self._alerts.alert(each.id) for each in incident.alerts[:_MOST_ALERTS]]
        return await self._page(alerts, incident, readable)

    async def alert(self, request: Request) -> Response:
        """An alert alone, by its id or, for the newest of its kind, its fingerprint."""
        name = request.path_params["name"]
        readable = permit_of(request).pipelines
        try:
            alert = await self._alerts.alert(name)
        except KeyError:
            raise _unknown("alert", name) from None
        if readable is not None and not readable(alert.pipeline):
            raise _unknown("alert", name)
        return await self._page([alert], None, readable)

    async def _incident_named(self, name: str, readable: Readable | None) -> IncidentView:
        known = await self._alerts.incidents("all", "", 0.0, _MOST_INCIDENTS, readable)
        incident = next((one for one in known if one.id == name), None)
        if incident is None:
            raise _unknown("incident", name)
        return incident

    async def _page(
        self, alerts: list[AlertDetail], incident: IncidentView | None, readable: Readable | None
    ) -> Response:
        main = next((alert for alert in alerts if alert.evidence is not None), alerts[0])
        now = self._alerts.now()
        queue = await self._alerts.undelivered(_MOST_LETTERS)
        lost: list[LostNotification] = [
            one for one in queue.dead_letters if one.incident == main.incident_id
        ]
        missing, topics = _missing((main, *alerts)), _topics((main, *alerts))
        # Silences may name other pipelines.
        silences = await self._alerts.silences() if readable is None else []
        return self._renderer.page(
            "incident.html",
            silences=silences_of(alerts, silences),
            silence_choices=silence_choices(main),
            durations=DURATIONS,
            incident=incident,
            alerts=alerts,
            main=main,
            evidence=main.evidence,
            began_at=incident.began_at if incident else onset(main),
            ended_at=incident.ended_at if incident else main.ended_at,
            is_open=incident.state == "open" if incident else main.ended_at is None,
            now=now,
            figures=await self._figures(main, incident, now),
            shown_alerts=_SHOWN_ALERTS,
            shown_steps=_SHOWN_STEPS,
            slices=driving_slices(main),
            missing=missing,
            topics=topics,
            lookup="" if missing or topics or not main.evidence else lookup_text(main.evidence),
            timeline=timeline(alerts),
            sent=list(reversed(incident.notifications)) if incident else [],
            lost=lost,
            failing=_path(main.evidence.failing_queries if main.evidence else None),
            left_out=len(incident.alerts) - len(alerts) if incident else 0,
        )

    async def _figures(
        self, main: AlertView, incident: IncidentView | None, now: float
    ) -> list[ChartFigure]:
        """The metric around its onset, on what the alert is about and on what is blamed."""
        span = around(main, incident, now)
        places = [(main.dimension, main.value)]
        if incident is not None and incident.cause.dimension:
            places.append((incident.cause.dimension, incident.cause.value))
        places.append(("", ""))  # the pipeline as a whole, to compare with
        figures = []
        for dimension, value in dict.fromkeys(places):
            course = await self._course(main, (dimension, value), span)
            own = (dimension, value) == places[0]
            figure = None if course is None else _figure(main, course, span, with_band=own)
            if figure is not None:
                where = f"{dimension} {value}" if dimension else main.pipeline
                figures.append(
                    figure._replace(note=where, zoom=_zoom(main, dimension, value, figure))
                )
        return figures

    async def _course(
        self, alert: AlertView, place: tuple[str, str], span: TimeSpan
    ) -> Course | None:
        """The metrics around the onset, in steps long enough to say something."""
        step_s = (span.end - span.start) / _POINTS
        query = SeriesQuery("", alert.pipeline, *place, *span, step_s)
        try:
            course = await self._courses.course(query)
            if (times := longer_steps(alert, course)) > 1.0:
                course = await self._courses.course(query._replace(step_s=times * step_s))
        except KeyError:  # forgotten since
            return None
        return course


def longer_steps(alert: AlertView, course: Course) -> float:
    """Factor by which steps are longer, so that most of them hold enough samples."""
    name = _series_name(alert.metric, known_names(course))
    if name is None:
        return 1.0
    samples = metrics(course.columns)[name].values(course.estimates).samples
    typical = float(np.median(samples[samples > 0]))
    return min(max(_ENOUGH / typical, 1.0), _LONGEST_STEPS)


def onset(alert: AlertView) -> float:
    """The estimated time of the change, or that of the first bad minute."""
    return alert.began_at if alert.changed_at is None else alert.changed_at


def around(alert: AlertView, incident: IncidentView | None, now: float) -> TimeSpan:
    """The time to look at: the incident, and some time before and after it."""
    began = min(onset(alert), incident.began_at) if incident else onset(alert)
    ended = incident.ended_at if incident else alert.ended_at
    last = now if ended is None else ended
    beside = min(max(last - began, _LEAST_S), _MOST_S)
    end = min(last + (0.0 if ended is None else beside / 2.0), now)
    return TimeSpan(max(began - beside, end - _LONGEST_S), max(end, began + 600.0))


def timeline(alerts: Sequence[AlertDetail]) -> list[TimelineEntry]:
    """Every transition of some alerts, the newest first."""
    entries = [
        TimelineEntry(step.at, alert, step.change) for alert in alerts for step in alert.transitions
    ]
    return sorted(entries, key=lambda entry: -entry.at)


def _missing(alerts: Sequence[AlertView]) -> str:
    """The documents whose absence may explain the first alert that knows of any; else empty."""
    known = (alert.evidence.missing for alert in alerts if alert.evidence is not None)
    missing = next((one for one in known if one is not None), None)
    return "" if missing is None else missing_text(missing)


def _topics(alerts: Sequence[AlertView]) -> str:
    """The topics that drive the first alert that has any; else empty."""
    for alert in alerts:
        if alert.evidence is not None and alert.evidence.topics:
            return topics_text(alert.evidence.topics, alert.metric)
    return ""


def driving_slices(alert: AlertView) -> list[DrivingSlice]:
    """The slices that drive a change, the likeliest first."""
    parts: Sequence[SliceShare] = alert.evidence.slices if alert.evidence else ()
    good = bool(loss_of(alert.metric).good)
    rows = [
        DrivingSlice(
            part.dimension,
            part.value,
            1.0 - part.expected if good else part.expected,
            1.0 - part.mean if good else part.mean,
            part.n,
            part.share,
            part.probability,
        )
        for part in parts
    ]
    return sorted(rows, key=lambda row: (-row.probability, -row.share))


def _figure(
    alert: AlertView, course: Course, span: TimeSpan, *, with_band: bool
) -> ChartFigure | None:
    """The metric that the alert is about, with its change point and the level expected of it."""
    names = known_names(course)
    name = _series_name(alert.metric, names)
    if name is None:
        return None
    marks = [Mark(onset(alert), "began", "incident")]
    if alert.fired_at is not None:
        marks.append(Mark(alert.fired_at, "detected", "note"))
    if alert.ended_at is not None:
        marks.append(Mark(alert.ended_at, "ended", "note"))
    metric = shown_metric(name)
    band = None
    if with_band and metric.unit == "ratio" and alert.reference is not None:
        level = alert.reference
        bounds = (level.lower, level.upper)
        if all(math.isfinite(bound) for bound in bounds):
            ends = [span.start, span.end]
            band = Band(ends, [max(level.lower, 0.0)] * 2, [min(level.upper, 1.0)] * 2)
    return metric_figure(metric, course, span, marks, band, is_close=True)


def _series_name(metric: str, names: Sequence[str]) -> str | None:
    """The name that a metric of detectors has over time; None where it has no samples."""
    if metric in ("hit", "faithfulness"):
        title = {"hit": "hit@", "faithfulness": "faithfulness"}[metric]
        return next((one.name for one in headlines(names) if one.name.startswith(title)), None)
    name = _SERIES.get(metric, metric)
    return name if name in names else None


def _zoom(alert: AlertView, dimension: str, value: str, figure: ChartFigure) -> str:
    """The page on which a part of the chart is shown in full."""
    asked = {"metric": figure.metric}
    if dimension:
        asked["slice"] = f"{dimension}={value}"
    return f"/pipelines/{quote(alert.pipeline, safe='')}?{urlencode(asked)}"


def _path(address: str | None) -> str:
    """An address of ragmon without its host, so that it works wherever the page was opened."""
    if not address:
        return ""
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


def _unknown(what: str, name: str) -> Problem:
    return Problem(404, f"no {what} has the id {name[:100]!r}", reason="not_found")
