"""The judges' report card as text: ``ragmon judge report``."""

import argparse
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.cli.console import say_json
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.progress import waiting
from ragmon.cli.rich_output import standard_output
from ragmon.counts import counted
from ragmon.judge_reports.advice import marks_sentence, slice_name
from ragmon.judge_reports.report import JudgeCost, JudgeFigures, JudgeReport
from ragmon.percentages import percent_text
from ragmon.report import AgreementEstimate, MeanEstimate
from ragmon.terminal import one_line_each

_UNKNOWN = "–"
_MOST_SLICES = 12  # of one judge


def show(args: argparse.Namespace, session: Connection) -> None:
    """Ask and print."""
    names = ("pipeline", "since", "limit")
    asked = {name: str(value) for name in names if (value := getattr(args, name))}
    with waiting("Judges are being compared"):
        report = remote.get(session, args.url, "/v1/judges/report", JudgeReport, **asked)
    if not report.labelled:
        check_pipeline(session, args.url, args.pipeline)
    if args.json:
        say_json(msgspec.to_builtins(report))
    else:
        standard_output(markup=False).print(view(one_line_each(report), args.url))


def view(report: JudgeReport, url: str) -> RenderableType:
    """The report as tables.

    Args:
        report: to show.
        url: of the daemon, for links.
    """
    start, end = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
        for at in (report.start, report.to)
    )
    parts: list[RenderableType] = [
        Text(report.trust, "bold"),
        Text(f"{start} to {end} UTC; {counted(report.labelled, 'labelled answer')}"),
    ]
    if report.judges:
        parts += [_judges(report), *_sentences(report)]
    parts += [_slices(judge) for judge in report.judges if len(judge.slices) > 1]
    if report.pairs:
        parts.append(_pairs(report))
    if report.disagreements:
        parts.append(_disagreements(report, url))
    return Group(*parts)


def _judges(report: JudgeReport) -> Table:
    table = _table("judge")
    names = (
        "labels",
        "balanced accuracy",
        "kappa",
        "AUROC",
        "bias",
        "ECE",
        "drift",
        "cost / 1,000",
    )
    for name in names:
        table.add_column(name, justify="right")
    for judge in report.judges:
        error, drift = judge.calibration, judge.drift
        table.add_row(
            judge.judge,
            f"{judge.labels:,}",
            _share(judge.agreement.balanced_accuracy),
            _number(judge.agreement.kappa),
            _number(judge.roc.auroc),
            _number(judge.bias, signed=True),
            f"{error.expected_error:.3f} ({error.by_chance:.3f})" if error else _UNKNOWN,
            _number(drift.change, signed=True) if drift else _UNKNOWN,
            cost_text(judge.cost),
        )
    return table


def _sentences(report: JudgeReport) -> list[Text]:
    notes = [
        Text(f"  {judge.judge}: {judge.text} {marks_sentence(judge.marks)}".rstrip())
        for judge in report.judges
    ]
    legend = (
        "Brackets: 95 % intervals. Bias: score minus label. ECE: expected calibration error, in "
        "brackets what chance alone would show. Drift: bias of the newer half of the labels minus "
        "the older. Cost: since the daemon began."
    )
    return [*notes, Text(legend, "dim")]


def _slices(judge: JudgeFigures) -> Table:
    table = _table(f"{judge.judge}, by slice")
    for name in ("labels", "balanced accuracy", "bias"):
        table.add_column(name, justify="right")
    for one in judge.slices[:_MOST_SLICES]:
        table.add_row(
            slice_name(one),
            f"{one.agreement.labels:,}",
            _share(one.agreement.balanced_accuracy),
            _number(one.bias, signed=True),
        )
    return table


def _pairs(report: JudgeReport) -> Table:
    table = _table("judges")
    for name in ("answers", "disagree", "mean distance"):
        table.add_column(name, justify="right")
    for pair in report.pairs:
        table.add_row(
            f"{pair.one}, {pair.other}",
            f"{pair.answers:,}",
            _share(pair.disagree),
            f"{pair.mean_distance:.2f}",
        )
    return table


def _disagreements(report: JudgeReport, url: str) -> Table:
    table = _table("at odds")
    table.add_column("people", justify="right")
    table.add_column("answer", overflow="fold")
    address = f"{url.rstrip('/')}/queries/"
    for answer in report.disagreements:
        scores = ", ".join(f"{judge} {score:.2f}" for judge, score in answer.scores.items())
        label = _UNKNOWN if answer.label is None else f"{answer.label:.2f}"
        table.add_row(scores, label, f"{address}{quote(answer.query_id, safe=':')}")
    return table


def cost_text(cost: JudgeCost | None) -> str:
    """Cost of 1,000 answers in words."""
    if cost is None:
        return _UNKNOWN
    parts = []
    if cost.dollars is not None:
        parts.append(f"${cost.dollars:.2f}")
    if cost.prompt_tokens is not None:
        tokens = cost.prompt_tokens + (cost.completion_tokens or 0.0)
        parts.append(f"{tokens:,.0f} tokens")
    if cost.cpu_seconds is not None:
        parts.append(f"{cost.cpu_seconds:.1f} s CPU")
    return ", ".join(parts) or _UNKNOWN


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    return table


def _share(figure: AgreementEstimate | MeanEstimate) -> str:
    if figure.estimate is None:
        return _UNKNOWN
    if figure.lower is None or figure.upper is None:
        return percent_text(figure.estimate)
    bounds = f"{100 * figure.lower:.0f}–{100 * figure.upper:.0f}"
    return f"{percent_text(figure.estimate, 0)} [{bounds}]"


def _number(figure: AgreementEstimate, *, signed: bool = False) -> str:
    if figure.estimate is None:
        return _UNKNOWN
    form = "+.2f" if signed else ".2f"
    if figure.lower is None or figure.upper is None:
        return f"{figure.estimate:{form}}"
    return f"{figure.estimate:{form}} [{figure.lower:{form}}, {figure.upper:{form}}]"
