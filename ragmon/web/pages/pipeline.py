"""One pipeline: its metrics over time with what happened, failure modes, latencies, slices."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ragmon.alerts.as_json import IncidentView
from ragmon.asgi import Problem
from ragmon.charts.line import Mark
from ragmon.metric_series import metrics
from ragmon.web.alerts import AlertSource
from ragmon.web.api import Page
from ragmon.web.page_endpoints import PIPELINE_PAGE
from ragmon.web.pages.changes import ChangeSource, recent_changes
from ragmon.web.pages.figures import (
    ChartFigure,
    TimeSpan,
    known_names,
    latency_figure,
    mark_text,
    metric_figure,
    modes_figure,
)
from ragmon.web.pages.headlines import TRAFFIC, ShownMetric, headlines, shown_metric
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.slices import slice_rows, sort_rows
from ragmon.web.pages.sources import Course, CourseSource, PageSource
from ragmon.web.pages.stretch import DEFAULT_WINDOW, WINDOWS, stretch_of
from ragmon.web.permits import permit_of
from ragmon.web.series import SeriesQuery

_POINTS = 120
_MOST_INCIDENTS = 20


class View(NamedTuple):
    """Everything that the address of the page says."""

    name: str
    window: str  # empty: from and to
    start: float
    end: float
    metric: str  # empty: the headline metrics
    dimension: str  # empty: the pipeline as a whole
    value: str
    sort: str

    def address(self, **changed: str) -> str:
        """The same page with other parameters; an empty one is left out."""
        known = {
            "window": self.window if self.window != DEFAULT_WINDOW else "",
            "from": "" if self.window else f"{self.start:.0f}",
            "to": "" if self.window else f"{self.end:.0f}",
            "metric": self.metric,
            "slice": f"{self.dimension}={self.value}" if self.dimension else "",
            "sort": self.sort,
        }
        if "window" in changed:
            known |= {"from": "", "to": ""}
        if "from" in changed:
            known["window"] = ""
        asked = {name: value for name, value in (known | changed).items() if value}
        path = f"/pipelines/{quote(self.name, safe='')}"
        return f"{path}?{urlencode(asked)}" if asked else path


class PipelineSection:
    """Endpoint of one pipeline."""

    def __init__(
        self,
        source: PageSource,
        courses: CourseSource,
        alerts: AlertSource,
        changes: ChangeSource,
        renderer: Renderer,
    ) -> None:
        self._source = source
        self._courses = courses
        self._alerts = alerts
        self._changes = changes
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(PIPELINE_PAGE, self.pipeline),)

    async def pipeline(self, request: Request) -> Response:
        """The page."""
        readable = permit_of(request).pipelines
        now = self._source.now()
        view = view_of(request, now)
        if readable is not None and not readable(view.name):
            raise permit_of(request).refusal(f"pipeline {view.name[:100]!r} is none of them")
        course = await self._course(view)
        incidents = await self._alerts.incidents(
            "all", view.name, view.start, _MOST_INCIDENTS, readable
        )
        incidents = [one for one in incidents if one.began_at <= view.end]
        changes = await recent_changes(self._changes, self._source, self._alerts, readable)
        versions = [change for change in changes if change.pipeline in ("", view.name)]
        marks = _incident_marks(incidents, now) + [
            Mark(change.at, mark_text(change.subject), change.kind)
            for change in versions
            if change.kind != "note"
        ]
        names = known_names(course)
        shown = headlines(names)
        figures = _figures(view, course, shown, marks)
        slices = await self._source.slices(view.name, view.start, view.end)
        rows = sort_rows(slice_rows(slices, shown), view.sort or _worst_first(shown), shown)
        return self._renderer.page(
            "pipeline.html",
            view=view,
            windows=WINDOWS,
            now=now,
            figures=figures,
            metrics=shown,
            names=sorted({TRAFFIC.name, *names}),
            incidents=incidents,
            open_incidents=[one for one in incidents if one.state == "open"],
            rows=rows,
            queries=float(np.nansum(course.estimates.queries)),
            choices=sorted({(row.dimension, row.value) for row in rows}),
        )

    async def _course(self, view: View) -> Course:
        step_s = (view.end - view.start) / _POINTS
        query = SeriesQuery("", view.name, view.dimension, view.value, view.start, view.end, step_s)
        try:
            return await self._courses.course(query)
        except KeyError as error:
            raise Problem(404, str(error.args[0]), reason="not_found") from None


def view_of(request: Request, now: float) -> View:
    """The state that the address of a request holds.

    Raises:
        Problem: a parameter makes no sense.
    """
    asked = request.query_params
    dimension, sign, value = asked.get("slice", "").partition("=")
    if asked.get("slice") and not (sign and dimension and value):
        raise _bad("slice: write it as dimension=value, such as version=v2")
    window, start, end = stretch_of(request, now)
    return View(
        name=request.path_params["name"],
        window=window,
        start=start,
        end=end,
        metric=asked.get("metric", ""),
        dimension=dimension,
        value=value,
        sort=asked.get("sort", ""),
    )


def _figures(
    view: View,
    course: Course,
    shown: Sequence[ShownMetric],
    marks: Sequence[Mark],
) -> list[ChartFigure]:
    known = metrics(course.columns)
    span = TimeSpan(view.start, view.end)
    if view.metric:
        if view.metric not in known:
            raise _bad(f"metric: {view.metric[:100]!r} is unknown; choose one on the page")
        chosen = [shown_metric(view.metric)]
    else:
        chosen = [TRAFFIC, *shown]
    figures = [metric_figure(metric, course, span, marks) for metric in chosen]
    if not view.metric:
        figures += [modes_figure(known, course, span), latency_figure(known, course, span, marks)]
    return [figure for figure in figures if figure is not None]


def _incident_marks(incidents: Sequence[IncidentView], now: float) -> list[Mark]:
    return [
        Mark(
            incident.began_at,
            mark_text(incident.cause.text if incident.cause.dimension else "incident"),
            "incident",
            now if incident.ended_at is None else incident.ended_at,
        )
        for incident in incidents
    ]


def _worst_first(shown: Sequence[ShownMetric]) -> str:
    """The first headline metric orders the slices, unless another order is asked for."""
    return shown[0].name if shown else "queries"


def _bad(detail: str) -> Problem:
    return Problem(400, detail, reason="bad_parameter")
