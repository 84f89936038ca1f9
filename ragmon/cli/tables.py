"""Reports as tables for a terminal."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.cli.alert_view import open_view
from ragmon.signals.failure_mode import FAILED
from ragmon.web.fragments import counted

_NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}  # fits into 80 columns
_SHOWN = (
    ("error", "error"),
    ("zero_result", "zero"),
    ("attribution", "attrib."),
    ("positive_feedback", "liked"),
)


def report_view(report: dict[str, Any]) -> RenderableType:
    """The whole report."""
    parts: list[RenderableType] = [
        Text.assemble((counted(report["queries"]), "bold"), f" in the last {report['window']}")
    ]
    if report["alerts"]:
        parts += [Text("Alerts", "bold"), open_view(report["alerts"])]
    for series in report["pipelines"]:
        parts += [_metrics(series), *_slices(series)]
    if not report["pipelines"]:
        parts.append(Text("Nothing was logged in this window.", "dim"))
    return Group(*parts)


def _metrics(series: dict[str, Any]) -> Table:
    title = f"{series['pipeline']}: {counted(series['queries'])}"
    table = Table(title=title, title_justify="left", title_style="bold", **_NARROW)
    table.add_column("metric")
    for name in ("mean", "95 % interval", "samples"):
        table.add_column(name, justify="right")
    parts = (_latency_rows, _ratio_rows, _mode_rows, _agreement_rows)
    for row in (row for part in parts for row in part(series)):
        table.add_row(*row)
    return table


def _latency_rows(series: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for stage, each in series["latency_ms"].items():
        samples = f"{each['samples']:,}"
        yield f"latency {stage}, ms", _ms(each["mean"]), _range(each, "mean_", _ms), samples
        yield "  p50/p95/p99", "/".join(_ms(each[q]) for q in ("p50", "p95", "p99")), "", ""


def _ratio_rows(series: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, each in series["metrics"].items():
        yield name, _number(each["estimate"]), _range(each, "", _number), f"{each['samples']:,}"


def _mode_rows(series: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for mode, each in series["failure_modes"].items():
        name = f"fails in {mode}" if mode in FAILED else f"failure mode {mode}"
        yield name, _number(each["estimate"]), _range(each, "", _number), f"{each['samples']:,}"


def _agreement_rows(series: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for judge, each in series.get("judge_agreement", {}).items():
        for measure in ("balanced_accuracy", "kappa"):
            figure = each[measure]
            if figure["estimate"] is not None:
                name = f"{judge} judge and labels, {measure.replace('_', ' ')}"
                shown = _range(figure, "", _number)
                yield name, _number(figure["estimate"]), shown, f"{each['labels']:,}"


def _slices(series: dict[str, Any]) -> Iterable[Table]:
    if not series["slices"]:
        return []
    table = Table(**_NARROW)
    table.add_column("slice", overflow="fold")
    table.add_column("queries", justify="right")
    hit = next((name for name in series["metrics"] if name.startswith("hit@3")), None)
    shown = [*_SHOWN, *([(hit, "hit@3")] if hit else [])]
    for _, title in shown:
        table.add_column(title, justify="right")
    for each in series["slices"]:
        cells = [ratio(each["metrics"].get(name)) for name, _ in shown]
        table.add_row(f"{each['dimension']}={each['value']}", f"{each['queries']:,}", *cells)
    return [table]


def ratio(each: dict[str, Any] | None) -> str:
    """An estimate in a narrow cell."""
    return "–" if each is None else f"{each['estimate']:.3f}"


def _range(each: dict[str, Any], prefix: str, text: Any) -> str:
    low, high = each[f"{prefix}lower"], each[f"{prefix}upper"]
    return "" if low is None or high is None else f"{text(low)} – {text(high)}"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
