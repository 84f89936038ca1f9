"""The judges' report card as a page."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ragmon.charts import axes
from ragmon.charts.line import NARROW, Curve, line_chart
from ragmon.judge_reports.advice import marks_sentence, name_of, slice_name
from ragmon.judge_reports.report import Assessment, JudgeFigures, JudgeReport
from ragmon.web.api import Page
from ragmon.web.judge_report_endpoints import DEFAULT_SINCE, JUDGE_REPORT_PAGE
from ragmon.web.judge_reports import JudgeReportSource, report_query
from ragmon.web.pages.rendering import Renderer
from ragmon.web.permits import check_pipeline

SINCE = ("24h", "7d", "30d")
_LIMIT = 20  # answers on which judges are at odds

ASSESSMENTS: dict[Assessment, tuple[str, str]] = {
    "good": ("agrees with people", "well"),
    "biased": ("biased", "warning"),
    "no_better_than_chance": ("no better than chance", "critical"),
    "few_labels": ("too few labels", "quiet"),
}
"""Words and tone of an assessment."""


class JudgeCard(NamedTuple):
    """One judge with its curves as SVG; empty without labels of both kinds."""

    figures: JudgeFigures
    name: str
    word: str
    tone: str
    marks: str  # promise on answers marked grounded; empty: none
    roc: str
    calibration: str


class JudgeReportPageSection:
    """Endpoint of the page."""

    def __init__(self, source: JudgeReportSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(JUDGE_REPORT_PAGE, self.report),)

    async def report(self, request: Request) -> Response:
        """The page; a time that cannot be read is refused."""
        filled = {name: text for name, text in request.query_params.items() if text.strip()}
        permitted = check_pipeline(request, filled.get("pipeline", ""))
        query = report_query(filled, permitted, self._source.now())
        report = await self._source.report(query._replace(limit=_LIMIT))
        return self._renderer.page(
            "judge_report.html",
            pipeline=filled.get("pipeline", ""),
            since=filled.get("since", DEFAULT_SINCE),
            windows=[(name, _address(filled, name)) for name in SINCE],
            now=self._source.now(),
            report=report,
            cards=cards_of(report),
            slice_name=slice_name,
            as_json=f"/v1/judges/report?{urlencode(filled)}" if filled else "/v1/judges/report",
        )


def cards_of(report: JudgeReport) -> list[JudgeCard]:
    """Every judge with its curves."""
    return [
        JudgeCard(
            judge,
            name_of(judge),
            *ASSESSMENTS[judge.assessment],
            marks_sentence(judge.marks),
            _roc(judge),
            _bins(judge),
        )
        for judge in report.judges
    ]


def _roc(judge: JudgeFigures) -> str:
    points = judge.roc.points
    if not points:
        return ""
    return _chart(
        "ROC curve",
        judge,
        Curve(
            "the judge",
            [point.false_positive_rate for point in points],
            [point.true_positive_rate for point in points],
        ),
        "chance",
    )


def _bins(judge: JudgeFigures) -> str:
    if judge.calibration is None:
        return ""
    bins = judge.calibration.bins
    bounded = all(one.lower is not None and one.upper is not None for one in bins)
    return _chart(
        "Calibration curve",
        judge,
        Curve(
            "the judge",
            [one.mean_score for one in bins],
            [one.mean_label for one in bins],
            [one.lower or 0.0 for one in bins] if bounded else (),
            [one.upper or 0.0 for one in bins] if bounded else (),
        ),
        "calibrated perfectly",
    )


def _chart(title: str, judge: JudgeFigures, mine: Curve, diagonal: str) -> str:
    axis = axes.numbers(0.0, 1.0, "ratio", most=4)
    return line_chart(
        [mine, Curve(diagonal, (0.0, 1.0), (0.0, 1.0))],
        title=f"{title} of {name_of(judge)}",
        x_axis=axis,
        y_axis=axis,
        size=NARROW,
    )


def _address(filled: dict[str, str], since: str) -> str:
    return f"{JUDGE_REPORT_PAGE.path}?{urlencode({**filled, 'since': since})}"
