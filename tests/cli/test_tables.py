"""Reports as a terminal shows them."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from ragmon.api_schema import Report
from ragmon.cli.progress import StageBar, byte_bar, piece_bar, share_bar, waiting
from ragmon.cli.rich_output import standard_output
from ragmon.cli.tables import report_view
from ragmon.report import LatencyFigures, MeanEstimate, PipelineReport, SliceReport

COUNT = 1_234_567


def mean(estimate, lower, upper) -> MeanEstimate:
    return MeanEstimate(estimate=estimate, lower=lower, upper=upper, samples=COUNT)


LATENCY = LatencyFigures(
    mean=12_345.6,
    mean_lower=12_300.0,
    mean_upper=12_400.0,
    p50=1_234.0,
    p90=12_345.0,
    p95=23_456.0,
    p99=123_456.0,
    samples=COUNT,
)
METRICS = {
    "zero_result": mean(0.0123, 0.0111, 0.0133),
    "hit@3/citation": mean(0.9123, 0.9111, 0.9133),
    "retrieved_chunks": mean(1_234.5, 1_233.1, 1_236.1),
    "faithfulness/grounding": mean(0.8, 0.7, 0.9),
    "positive_feedback": mean(0.5, 0.4, 0.6),
}
FIGURES = {
    "queries": COUNT,
    "repeats": 0,
    "latency_ms": {"total": LATENCY, "generation": replace(LATENCY, mean=12.34)},
    "metrics": METRICS,
    "failure_modes": {"generation": mean(0.1, 0.05, 0.2)},
    "judge_agreement": {},
}
SLICE = SliceReport(dimension="version", value="2026-11-21-canary", **FIGURES)
LONG = replace(SLICE, value="v" * 256, queries=7)
PIPELINE = PipelineReport(pipeline="support-search", slices=[SLICE], **FIGURES)


def report(*pipelines: PipelineReport, queries: int = COUNT) -> Report:
    return Report(
        window="24h", window_seconds=86_400.0, start=0.0, to=86_400.0, watermark=None, alerts=[],
        pipelines=[*pipelines], **FIGURES | {"queries": queries},
    )  # fmt: skip


def shown(content):
    """Lines of a terminal with 80 columns, without alignment."""
    console = Console(width=80)
    with console.capture() as captured:
        console.print(report_view(content))
    return [" ".join(line.split()) for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    "row",
    [
        "latency total, ms 12,346 12,300 – 12,400 1,234,567",
        "p50/p95/p99 1,234/23,456/123,456",
        "latency generation, ms 12.3 12,300 – 12,400 1,234,567",
        "retrieved_chunks 1,234.5 1,233.1 – 1,236.1 1,234,567",
        "faithfulness/grounding 80.0 % 70.0 – 90.0 % 1,234,567",
        "fails in generation 10.0 % 5.0 – 20.0 % 1,234,567",
        "version=2026-11-21-canary 1,234,567 – 1.2 % – 50.0 % 91.2 %",
    ],
)
def test_a_row_of_a_report_stands_on_one_line_of_80_columns(row):
    assert row in shown(report(PIPELINE))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0.00"), (1.234, "1.23"), (12.34, "12.3"), (99.97, "100"), (999.7, "1,000")],
)
def test_a_latency_has_three_digits_and_no_exponent(value, expected):
    figures = FIGURES | {"latency_ms": {"total": replace(LATENCY, mean=value)}}
    lines = shown(report(PipelineReport(pipeline="p", slices=[], **figures)))
    assert f"latency total, ms {expected} 12,300 – 12,400 1,234,567" in lines


def test_no_line_ends_with_blanks(capsys):
    standard_output(markup=False).print(report_view(report(PIPELINE)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_long_slice_is_folded_and_its_numbers_are_not():
    lines = shown(report(replace(PIPELINE, slices=[LONG])))
    assert sum("v" * 20 in line for line in lines) > 3
    assert any(line.endswith("v 7 – 1.2 % – 50.0 % 91.2 %") for line in lines)


def test_one_query_is_one():
    lines = shown(report(replace(PIPELINE, queries=1), queries=1))
    assert lines[0] == "1 query in the last 24h"
    assert any(line.startswith("support-search: 1 query") for line in lines)
    assert not any("1 queries" in line for line in lines)


def test_an_empty_report_says_so():
    lines = shown(report(queries=0))
    assert lines == ["0 queries in the last 24h", "No queries were logged in this window."]


@pytest.mark.parametrize("bar", [byte_bar, piece_bar, share_bar])
def test_a_progress_bar_writes_nothing_where_nobody_looks(capsys, bar):
    with bar() as progress:
        progress.advance(progress.add_task("A day of traffic", total=2))
    assert capsys.readouterr() == ("", "")


def test_a_progress_bar_shows_the_rate_and_the_time_that_is_left(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with piece_bar() as progress:
        task = progress.add_task("Exporting", total=10)
        progress.update(task, completed=4)
        progress.tasks[0].finished_speed = 1_234.0
        (table,) = progress.get_renderables()
        console = Console(width=120, color_system=None)
        with console.capture() as seen:
            console.print(table)
    assert "Exporting" in seen.get()
    assert "4/10 1,234/s" in seen.get()
    assert seen.get().count(":") >= 4  # elapsed and left
    capsys.readouterr()


def test_a_bar_of_stages_has_the_unit_the_share_and_the_time_left_of_each(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")

    def seen(bar: StageBar) -> str:
        bar.progress.tasks[0].finished_speed = 12_300_000.0
        console = Console(width=120, color_system=None)
        with console.capture() as shown:
            console.print(*bar.progress.get_renderables())
        return shown.get()

    with StageBar(["Copying"]) as bar:
        bar.show("Copying", 40, 100)
        text = seen(bar)
        assert "Copying" in text
        assert " 40% 12.3 MB/s" in text
        assert text.count(":") >= 3  # elapsed and left
        bar.show("blocks", 1, 4)
        text = seen(bar)
        assert "Copying" not in text
        assert " 25% 12,300,000/s" in text
    capsys.readouterr()


def test_waiting_for_an_answer_shows_the_time_that_passed_and_leaves_nothing(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with waiting("Topics are being found"):
        pass
    shown = capsys.readouterr()
    assert "Topics are being found" in shown.err
    assert "0:00:00" in shown.err
    assert shown.out == ""
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    monkeypatch.delenv("FORCE_COLOR")
    with waiting("Topics are being found"):
        pass
    assert capsys.readouterr().err == ""
