"""Versions: two slices side by side over the same hours, and the questions asked of both."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ragmon.comparisons import ComparedMetric, SliceComparison
from ragmon.counts import counted
from ragmon.shared_questions import SharedQuestions
from ragmon.web.api import Page
from ragmon.web.comparison import ComparedSides, ComparisonQuery, ComparisonSource, SliceTraffic
from ragmon.web.page_endpoints import VERSIONS
from ragmon.web.pages import words
from ragmon.web.pages.figures import ChartFigure, TimeSpan, mark_text, sides_figure
from ragmon.web.pages.headlines import TRAFFIC, ShownMetric, headlines, shown_metric
from ragmon.web.pages.rendering import HEADERS, Renderer
from ragmon.web.pages.shared_rows import question_rows, summary_of
from ragmon.web.pages.sources import WEEK_S, PageSource
from ragmon.web.pages.stretch import DEFAULT_WINDOW, WINDOWS, Stretch, stretch_of
from ragmon.web.permits import Readable, check_pipeline
from ragmon.windows.series import VERSION

_MOST_CHOICES = 200
_MOST_FIGURES = 6


class ComparisonView(NamedTuple):
    """Everything that the address of the page says."""

    pipeline: str
    dimension: str
    reference: str
    candidate: str
    stretch: Stretch

    def address(self, **changed: str) -> str:
        """The same page with other parameters; an empty one is left out."""
        window, start, end = self.stretch
        known = {
            "pipeline": self.pipeline,
            "dimension": self.dimension,
            "reference": self.reference,
            "candidate": self.candidate,
            "window": window if window != DEFAULT_WINDOW else "",
            "from": "" if window else f"{start:.0f}",
            "to": "" if window else f"{end:.0f}",
        }
        if "window" in changed:
            known |= {"from": "", "to": ""}
        asked = {name: value for name, value in (known | changed).items() if value}
        return f"/versions?{urlencode(asked)}"


class MetricRow(NamedTuple):
    """One metric of both."""

    metric: ShownMetric
    reference: str
    reference_interval: str
    reference_samples: int
    candidate: str
    candidate_interval: str
    candidate_samples: int
    difference: str
    difference_interval: str
    tone: str  # good, bad or same; empty where it was not tested
    p_value: str  # corrected; empty where it was not tested


class VersionsSection:
    """Endpoint of the comparison."""

    def __init__(
        self, source: PageSource, comparisons: ComparisonSource, renderer: Renderer
    ) -> None:
        self._source = source
        self._comparisons = comparisons
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(VERSIONS, self.versions),)

    async def versions(self, request: Request) -> Response:
        """The page, or the way to one that names two values."""
        asked = request.query_params
        pipeline, readable = check_pipeline(request, asked.get("pipeline", ""))
        stretch = stretch_of(request, self._source.now())
        pipelines = await self._source.pipelines(readable)
        view = ComparisonView(
            pipeline or await self._busiest(pipelines, stretch),
            asked.get("dimension") or VERSION,
            asked.get("reference", ""),
            asked.get("candidate", ""),
            stretch,
        )
        slices = await self._comparisons.slices_of(view.pipeline, stretch.start, stretch.end)
        if not (pipeline and view.reference and view.candidate):
            chosen = await self._chosen(view, slices, readable)
            if chosen is not None:
                return RedirectResponse(chosen.address(), 303, HEADERS)
        return await self._page(view, pipelines, slices)

    async def _page(
        self, view: ComparisonView, pipelines: Sequence[str], slices: Sequence[SliceTraffic]
    ) -> Response:
        start, end = view.stretch.start, view.stretch.end
        query = ComparisonQuery(*view[:4], start, end)
        sides, missing = await self._sides(query)
        shared = await self._comparisons.shared_questions(query) if sides else SharedQuestions()
        rows = metric_rows(sides.comparison) if sides else []
        values = [one for one in slices if one.dimension == view.dimension]
        return self._renderer.page(
            "versions.html",
            view=view,
            windows=WINDOWS,
            now=self._source.now(),
            missing=missing,
            pipelines=pipelines,
            dimensions=sorted({VERSION, view.dimension, *(one.dimension for one in slices)}),
            values=_choices(values[:_MOST_CHOICES], view),
            comparison=sides.comparison if sides else None,
            verdict=verdict(rows),
            rows=rows[: _headline_count(rows)],
            others=rows[_headline_count(rows) :],
            figures=_figures(sides, view) if sides else [],
            shared=shared,
            questions=question_rows(shared),
            summary=summary_of(shared),
            as_json=f"/v1/compare?{_api_parameters(view)}",
        )

    async def _sides(self, query: ComparisonQuery) -> tuple[ComparedSides | None, str]:
        """Both sides, or why there are none."""
        if not (query.reference and query.candidate):
            return None, "Fewer than two are known in this time."
        if query.reference == query.candidate:
            return None, "Both are the same: choose another."
        try:
            return await self._comparisons.compare(query), ""
        except KeyError as error:
            return None, str(error.args[0])

    async def _busiest(self, pipelines: Sequence[str], stretch: Stretch) -> str:
        """The first pipeline of which two versions are known, or else the first of all."""
        for pipeline in pipelines:
            slices = await self._comparisons.slices_of(pipeline, stretch.start, stretch.end)
            if sum(one.dimension == VERSION and one.queries > 0 for one in slices) > 1:
                return pipeline
        return pipelines[0] if pipelines else ""

    async def _chosen(
        self, view: ComparisonView, slices: Sequence[SliceTraffic], readable: Readable | None
    ) -> ComparisonView | None:
        """The view with the values that say most; None where there are none."""
        values = [one.value for one in slices if one.dimension == view.dimension and one.queries]
        if view.dimension == VERSION:
            seen = [
                one.version
                for one in await self._source.new_versions(WEEK_S, readable)
                if one.pipeline == view.pipeline and one.version in values
            ]
            values = [*(one for one in values if one not in seen[:1]), *seen[:1]]
            values = values[:1] + values[-1:] if seen else values
        reference = view.reference or next((one for one in values if one != view.candidate), "")
        candidate = view.candidate or next((one for one in values if one != reference), "")
        if not (reference and candidate):
            return None
        return view._replace(reference=reference, candidate=candidate)


def metric_rows(comparison: SliceComparison) -> list[MetricRow]:
    """A row a metric: the headlines first, then those that surely differ, then all others."""
    first = [metric.name for metric in headlines([one.metric for one in comparison.metrics])]
    order = {name: at for at, name in enumerate(first)}
    ranked = sorted(
        comparison.metrics,
        key=lambda one: (order.get(one.metric, len(order)), not one.differs, one.metric),
    )
    return [_row(shown_metric(one.metric), one) for one in ranked]


def _headline_count(rows: Sequence[MetricRow]) -> int:
    return len(headlines([row.metric.name for row in rows]))


def _row(metric: ShownMetric, compared: ComparedMetric) -> MetricRow:
    reference, candidate = compared.reference, compared.candidate
    factor, unit = metric.factor, metric.unit
    tone, p_value = "", ""
    if compared.p_corrected is not None:
        worse = (compared.difference or 0.0) * metric.better < 0.0
        tone = ("bad" if worse else "good") if metric.better and compared.differs else "same"
        p_value = "<0.001" if compared.p_corrected < 0.001 else f"{compared.p_corrected:.3f}"
    return MetricRow(
        metric,
        words.figure(_times(reference.estimate, factor), unit),
        words.span(_times(reference.lower, factor), _times(reference.upper, factor), unit),
        reference.samples,
        words.figure(_times(candidate.estimate, factor), unit),
        words.span(_times(candidate.lower, factor), _times(candidate.upper, factor), unit),
        candidate.samples,
        _signed(_times(compared.difference, factor), metric),
        _interval(compared, metric),
        tone,
        p_value,
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _signed(value: float | None, metric: ShownMetric) -> str:
    if value is None:
        return ""
    if metric.unit == "ratio":
        return f"{100.0 * value:+.1f} pt"
    return f"{'-' if value < 0.0 else '+'}{words.figure(abs(value), metric.unit)}"


def _interval(compared: ComparedMetric, metric: ShownMetric) -> str:
    if compared.lower is None or compared.upper is None:
        return ""
    bounds = (compared.lower * metric.factor, compared.upper * metric.factor)
    return " to ".join(_signed(bound, metric).removesuffix(" pt") for bound in bounds) + (
        " pt" if metric.unit == "ratio" else ""
    )


def verdict(rows: Sequence[MetricRow]) -> str:
    """The comparison in one sentence."""
    parts = [
        f"{word} in {_named(rows, tone)}"
        for word, tone in (("worse", "bad"), ("better", "good"))
        if any(row.tone == tone for row in rows)
    ]
    if not parts:
        return "No metric differs by more than chance."
    return f"The candidate is {' and '.join(parts)}."


def _named(rows: Sequence[MetricRow], tone: str) -> str:
    """The headlines of a tone by their names, and how many others there are."""
    first = _headline_count(rows)
    named = [row.metric.title.lower() for row in rows[:first] if row.tone == tone]
    others = sum(row.tone == tone for row in rows[first:])
    more = counted(others, "metric" if not named else "other metric")
    return ", ".join(named) + (" and " if named and others else "") + (more if others else "")


def _figures(sides: ComparedSides, view: ComparisonView) -> list[ChartFigure]:
    """Traffic and the headlines of both over time."""
    both = [
        (mark_text(view.reference), sides.reference),
        (mark_text(view.candidate), sides.candidate),
    ]
    span = TimeSpan(view.stretch.start, view.stretch.end)
    names = [one.metric for one in sides.comparison.metrics]
    figures = [sides_figure(metric, both, span) for metric in (TRAFFIC, *headlines(names))]
    return [figure for figure in figures if figure is not None][:_MOST_FIGURES]


def _choices(values: Sequence[SliceTraffic], view: ComparisonView) -> list[SliceTraffic]:
    """The values to choose from, with those that the address names."""
    known = {one.value for one in values}
    more = [
        SliceTraffic(view.dimension, name, 0.0)
        for name in dict.fromkeys((view.reference, view.candidate))
        if name and name not in known
    ]
    return [*values, *more]


def _api_parameters(view: ComparisonView) -> str:
    return urlencode(
        {
            "pipeline": view.pipeline,
            "dimension": view.dimension,
            "reference": view.reference,
            "candidate": view.candidate,
            "from": f"{view.stretch.start:.0f}",
            "to": f"{view.stretch.end:.0f}",
        }
    )
