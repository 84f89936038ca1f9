"""Judges: what they read and cost, and how far people agree with them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import Report
from ragmon.asgi import Problem
from ragmon.charts import axes
from ragmon.charts.line import NARROW, Curve, line_chart
from ragmon.report import LabelAgreement, MeanEstimate, PipelineReport
from ragmon.signals.verdict_sums import CORRECTED_SUFFIX, CUSTOM
from ragmon.web.api import Page
from ragmon.web.page_endpoints import JUDGES
from ragmon.web.pages.judge_source import CalibrationFacts, JudgePageSource
from ragmon.web.pages.rendering import Renderer
from ragmon.web.permits import permit_of

_WINDOWS = ("24h", "7d")
_DEFAULT = "7d"
_MOST = 60  # pipelines, those with the most queries
_JUDGES = {"llm": "language model", "local": "local model", "grounding": "embedded judge"}
_FAITHFUL = {
    "faithfulness/grounding": "embedded judge",
    "faithfulness/local": "local model",
    "faithfulness/local_corrected": "local model, corrected by labels",
    "faithfulness/llm": "language model",
    "faithfulness/llm_corrected": "language model, corrected by labels",
    "faithfulness/human": "people",
}


_CUSTOM = f"{CUSTOM}/"


def _custom_name(judge: str) -> str:
    name = judge.removesuffix(CORRECTED_SUFFIX)
    return judge if name == judge else f"{name}, corrected by labels"


class JudgedPipeline(NamedTuple):
    """A pipeline as each judge sees it."""

    name: str
    queries: int
    coverage: MeanEstimate | None  # share of answers with context that the embedded judge read
    scores: list[tuple[str, MeanEstimate]]  # judge and mean faithfulness
    custom: list[tuple[str, MeanEstimate]]  # judge of judge.custom and mean score


class AgreementRow(NamedTuple):
    """A judge beside the labels of people, in one pipeline."""

    pipeline: str
    judge: str
    agreement: LabelAgreement


class CalibrationRow(NamedTuple):
    """A calibration and its curve."""

    facts: CalibrationFacts
    svg: str  # empty where it is not in force


class JudgePageSection:
    """Endpoint of the judges."""

    def __init__(self, source: JudgePageSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(JUDGES, self.judges),)

    async def judges(self, request: Request) -> Response:
        """The page."""
        window = request.query_params.get("window") or _DEFAULT
        readable = permit_of(request).pipelines
        try:
            report = await self._source.report(window, readable)
        except ValueError as error:
            raise Problem(400, str(error), reason="bad_parameter") from None
        facts = await self._source.judging(readable)
        rows = judged_pipelines(report)
        return self._renderer.page(
            "judge.html",
            window=window,
            windows=_WINDOWS,
            default=_DEFAULT,
            now=self._source.now(),
            facts=facts,
            rows=rows,
            has_custom=any(row.custom for row in rows),
            agreements=agreement_rows(report),
            calibrations=[CalibrationRow(one, _curve(one)) for one in facts.calibrations],
        )


def judged_pipelines(report: Report) -> list[JudgedPipeline]:
    """The pipelines with the most queries."""
    busiest = sorted(report.pipelines, key=lambda one: -one.queries)[:_MOST]
    return [_judged(one) for one in busiest if one.queries]


def _judged(pipeline: PipelineReport) -> JudgedPipeline:
    known: Mapping[str, MeanEstimate] = pipeline.metrics
    return JudgedPipeline(
        pipeline.pipeline,
        pipeline.queries,
        known.get("grounding_coverage"),
        [(judge, known[name]) for name, judge in _FAITHFUL.items() if name in known],
        [
            (_custom_name(name.removeprefix(_CUSTOM)), known[name])
            for name in sorted(known)
            if name.startswith(_CUSTOM)
        ],
    )


def agreement_rows(report: Report) -> list[AgreementRow]:
    """Every judge that has labels beside its verdicts, in each pipeline."""
    return [
        AgreementRow(pipeline.pipeline, _JUDGES.get(judge, judge), agreement)
        for pipeline in report.pipelines
        for judge, agreement in pipeline.judge_agreement.items()
        if agreement.labels
    ][:_MOST]


def _curve(facts: CalibrationFacts) -> str:
    """The calibrated score over the raw one, beside the line on which both are equal."""
    if not facts.points:
        return ""
    x, y = zip(*facts.points, strict=True)
    axis = axes.numbers(0.0, 1.0, "ratio", most=4)
    return line_chart(
        [Curve("calibrated", x, y), Curve("as shipped", (0.0, 1.0), (0.0, 1.0))],
        title=f"Calibration of {facts.pipeline}",
        x_axis=axis,
        y_axis=axis,
        size=NARROW,
    )
