"""Reports as tables for a terminal."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.api_schema import Report
from ragmon.cli.alert_view import open_view
from ragmon.percentages import percent_range, precise_percent
from ragmon.report import MeanEstimate, PipelineReport, query_count
from ragmon.signals.failure_mode import FAILED
from ragmon.terminal import one_line_each
from ragmon.web.pages.headlines import shown_metric

_NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}  # fits into 80 columns
_SHOWN = (
    ("error", "error"),
    ("zero_result", "zero"),
    ("attribution", "attrib."),
    ("positive_feedback", "liked"),
)
_UNKNOWN = "–"


def report_view(report: Report) -> RenderableType:
    """The whole report."""
    report = one_line_each(report)
    parts: list[RenderableType] = [
        Text.assemble((query_count(report.queries), "bold"), f" in the last {report.window}")
    ]
    if report.alerts:
        parts += [Text("Alerts", "bold"), open_view(report.alerts)]
    for pipeline in report.pipelines:
        parts += [_metrics(pipeline), *_slices(pipeline)]
    if not report.pipelines:
        parts.append(Text("No queries were logged in this window.", "dim"))
    return Group(*parts)


def _metrics(pipeline: PipelineReport) -> Table:
    title = f"{pipeline.pipeline}: {query_count(pipeline.queries)}"
    if pipeline.repeats:
        title += f", {pipeline.repeats:,} of them repeats"
    # On one line: where a long name is wrapped, its rest looks like a line of ours.
    shown = Text(title, "bold", no_wrap=True, overflow="ellipsis")
    table = Table(title=shown, title_justify="left", **_NARROW)
    table.add_column("metric")
    for name in ("mean", "95 % interval", "samples"):
        table.add_column(name, justify="right")
    parts = (_latency_rows, _ratio_rows, _mode_rows, _agreement_rows)
    for row in (row for part in parts for row in part(pipeline)):
        table.add_row(*row)
    return table


def _latency_rows(pipeline: PipelineReport) -> Iterator[tuple[str, ...]]:
    for stage, figures in pipeline.latency_ms.items():
        interval = _interval(figures.mean_lower, figures.mean_upper, _ms)
        yield f"latency {stage}, ms", _ms(figures.mean), interval, f"{figures.samples:,}"
        quantiles = "/".join(map(_ms, (figures.p50, figures.p95, figures.p99)))
        yield "  p50/p95/p99", quantiles, "", ""


def _ratio_rows(pipeline: PipelineReport) -> Iterator[tuple[str, ...]]:
    for name, mean in pipeline.metrics.items():
        yield _row(name, mean, is_share=shown_metric(name).unit == "ratio")


def _mode_rows(pipeline: PipelineReport) -> Iterator[tuple[str, ...]]:
    for mode, mean in pipeline.failure_modes.items():
        name = f"fails in {mode}" if mode in FAILED else f"failure mode {mode}"
        yield _row(name, mean, is_share=True)


def _row(name: str, mean: MeanEstimate, *, is_share: bool) -> tuple[str, ...]:
    if is_share:
        return name, ratio(mean), ratio_interval(mean), f"{mean.samples:,}"
    interval = _interval(mean.lower, mean.upper, _number)
    return name, _number(mean.estimate), interval, f"{mean.samples:,}"


def _agreement_rows(pipeline: PipelineReport) -> Iterator[tuple[str, ...]]:
    for judge, agreement in pipeline.judge_agreement.items():
        measures = {"balanced accuracy": agreement.balanced_accuracy, "kappa": agreement.kappa}
        for measure, figure in measures.items():
            if figure.estimate is not None:
                name = f"{judge} judge and labels, {measure}"
                interval = _interval(figure.lower, figure.upper, _number)
                yield name, _number(figure.estimate), interval, f"{agreement.labels:,}"


def _slices(pipeline: PipelineReport) -> Iterable[Table]:
    if not pipeline.slices:
        return []
    table = Table(**_NARROW)
    table.add_column("slice", overflow="fold")
    table.add_column("queries", justify="right")
    hit = next((name for name in pipeline.metrics if name.startswith("hit@3")), None)
    shown = [*_SHOWN, *([(hit, "hit@3")] if hit else [])]
    for _, title in shown:
        table.add_column(title, justify="right")
    for part in pipeline.slices:
        cells = [ratio(part.metrics.get(name)) for name, _ in shown]
        table.add_row(f"{part.dimension}={part.value}", f"{part.queries:,}", *cells)
    return [table]


def ratio(mean: MeanEstimate | None) -> str:
    """A share in a narrow cell."""
    return _UNKNOWN if mean is None or mean.estimate is None else precise_percent(mean.estimate)


def ratio_interval(mean: MeanEstimate) -> str:
    """The interval of a share, ``61.0 – 70.2 %``; empty where there is none."""
    if mean.lower is None or mean.upper is None:
        return ""
    return percent_range(mean.lower, mean.upper, mean.estimate)


def _interval(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    return "" if low is None or high is None else f"{text(low)} – {text(high)}"


def _number(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _ms(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{decimals}f}"
