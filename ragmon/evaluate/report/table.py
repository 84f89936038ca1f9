"""Terminal tables."""

import os
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragmon.evaluate.compare.comparison import Comparison
from ragmon.evaluate.compare.gate import Decision
from ragmon.evaluate.compare.preference import Preferences
from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.report.text import (
    agreement,
    between,
    grouped,
    headlines,
    interval,
    number,
    signed,
)
from ragmon.evaluate.score.generation import noise_sensitivity

_BAND = {"good": "green", "fair": "yellow", "poor": "red", "": "default"}
_WIDE = 110  # columns of a terminal
_LOG_WIDTH = 140  # columns, where nobody says how many there are
_NUMBER = 6  # columns that a number takes
_MOST_LOST = 5
_ONLY_WIDE = ("95 % interval", "p (Holm)", "won / lost / tied")
_VERDICT = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def standard_output(*, markup: bool = True) -> Console:
    """As wide as its terminal; a pipe, or the log of a CI job, has room for every column.

    Args:
        markup: False shows brackets as they are, also those that users wrote.
    """
    console = Console(markup=markup, emoji=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(width=_LOG_WIDTH, markup=markup, emoji=False)


def show(console: Console, evaluation: Evaluation) -> None:
    """One evaluation: every metric, then the headline ones by stratum."""
    for group, metrics in grouped(evaluation.metrics).items():
        table = _table(group, "metric", "mean", "95 % interval", "cases", "")
        for each in metrics:
            band = f"[{_BAND[each.band]}]{each.band}[/]"
            cells = (number(each.mean), interval(each), f"{each.samples:,}", band)
            table.add_row(each.name, *cells)
        console.print(table)
    if evaluation.strata:
        console.print(_strata(evaluation, console.width))
    if evaluation.curves is not None and evaluation.curves.enough_k is not None:
        console.print(f"recall hardly rises after k = {evaluation.curves.enough_k}")
    _judges(console, evaluation)
    for line in evaluation.absences():
        console.print(f"[dim]absent: {escape(line)}[/]")
    for note in evaluation.notes:
        console.print(f"[yellow]note: {escape(note)}[/]")


def show_preferences(console: Console, found: Preferences) -> None:
    """What a judge made of the answers themselves."""
    table = _table("pairwise preference, asked both ways round", "", "pairs")
    for name, count in (
        ("the second is better", found.wins),
        ("the first is better", found.losses),
        ("tie", found.ties),
        ("  of which the choice followed the position", found.inconsistent),
        ("could not be judged", found.failed),
    ):
        table.add_row(name, f"{count:,}")
    console.print(table)
    if found.win_share is not None and found.interval is not None:
        low, high = found.interval
        share = f"{number(found.win_share)} ({number(low)} – {number(high)})"
        console.print(f"the second wins {share} of what was decided")
    if found.position_bias is not None:
        console.print(
            f"position bias {signed(found.position_bias)} over {found.inconsistent:,} pairs "
            "(+1: always the first shown, −1: always the second)"
        )
    for query in found.lost[:_MOST_LOST]:
        console.print(f"the first is better: {escape(_short(query))}")
    if found.account is not None:
        console.print(f"[dim]judge: {escape(str(found.account))}[/]")


def show_decision(console: Console, decision: Decision) -> None:
    """What the gate found, the failures first."""
    title = f"{decision.current} against {decision.baseline}, {decision.cases:,} cases"
    order = ("fail", "inconclusive", "pass")
    rows = [
        {
            "metric": escape(f"{each.metric} [{each.stratum}]" if each.stratum else each.metric),
            "baseline": number(each.baseline),
            "now": number(each.current),
            "change": signed(each.change),
            "95 % interval": between(each.lower, each.upper),
            "verdict": f"[{_VERDICT[each.verdict]}]{each.verdict}[/]",
            "why": escape(each.reason),
        }
        for each in sorted(decision.checks, key=lambda each: order.index(each.verdict))
    ]
    console.print(_fitting(console, title, rows))
    for note in decision.notes:
        console.print(f"[dim]{escape(note)}[/]")
    console.print("[green]gate passed[/]" if decision.passed else "[red]gate failed[/]")


def show_noise(console: Console, comparison: Comparison) -> None:
    """What irrelevant context costs, where the second run answered with noise in it."""
    table = _table("noise sensitivity: 1 − noisy / clean", "metric", "clean", "noisy", "share lost")
    for each in comparison.contrasts:
        if each.better == "higher" and each.first > 0 and each.name != "failure_mode/none":
            lost = noise_sensitivity(each.first, each.second)
            table.add_row(each.name, number(each.first), number(each.second), signed(lost))
    console.print(table)


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Both systems side by side, then the cases that moved."""
    colours = {"better": "green", "worse": "red", "": "default"}
    rows = [
        {
            "metric": each.name,
            escape(comparison.first): number(each.first),
            f"{escape(comparison.second)} ": number(each.second),  # they may have one name
            "change": signed(each.change),
            "95 % interval": between(each.lower, each.upper),
            "p (Holm)": f"{each.p_adjusted:.3g}",
            "won / lost / tied": f"{each.wins} / {each.losses} / {each.ties}",
            "": f"[{colours[each.verdict]}]{each.verdict}[/]",
        }
        for each in comparison.contrasts
    ]
    console.print(_fitting(console, f"{comparison.cases:,} shared cases", rows))
    moves = _table("cases that moved most", "case", "query", "metric", "was", "is")
    for move in comparison.moves:
        cells = (escape(_short(move.query)), move.metric, number(move.first), number(move.second))
        moves.add_row(escape(move.case_id), *cells)
    console.print(moves)
    for text in dict.fromkeys(comparison.reversals.values()):
        metrics = ", ".join(name for name, said in comparison.reversals.items() if said == text)
        console.print(f"[yellow]Simpson's paradox in {metrics}: {escape(text)}[/]")
    for note in comparison.notes:
        console.print(f"[yellow]note: {escape(note)}[/]")
    if comparison.only_first or comparison.only_second:
        console.print(
            f"[dim]{comparison.only_first} cases only in {escape(comparison.first)}, "
            f"{comparison.only_second} only in {escape(comparison.second)}[/]"
        )


def _short(query: str) -> str:
    return query if len(query) <= 60 else query[:59] + "…"


def _judges(console: Console, evaluation: Evaluation) -> None:
    for account in evaluation.judges:
        if account.judged or account.failed:
            colour = "yellow" if account.failed else "dim"
            console.print(f"[{colour}]judge: {escape(str(account))}[/]")
        if account.example:
            console.print(f"[yellow]  such as: {escape(account.example)}[/]")
    for found in evaluation.agreement:
        console.print(escape(agreement(found)))


def _strata(evaluation: Evaluation, width: int) -> Table:
    """As many headline metrics as a terminal has room for."""
    shown = [each.name for each in headlines(evaluation)][: max(2, min(6, (width - 30) // 14))]
    table = _table("By stratum", "stratum", "cases", *shown)
    for each in evaluation.strata:
        cells = [number(each.metrics[name].mean) if name in each.metrics else "–" for name in shown]
        cases = f"{each.cases:,}{' (few)' if each.small else ''}"
        table.add_row(escape(f"{each.key}={each.value}"), cases, *cells)
    return table


def _fitting(console: Console, title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """A table without what a narrow terminal has no room for; the files hold everything."""
    names = [
        name
        for name in (rows[0] if rows else ())
        if console.width >= _WIDE or name not in _ONLY_WIDE
    ]
    table = _table(title, *names)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left")
    for at, column in enumerate(columns):
        plain = at == 0 or column in ("", "why", "query", "metric", "verdict")
        # A name that is cut off names nothing: the other columns give way.
        table.add_column(
            column,
            justify="left" if plain else "right",
            no_wrap=at == 0 or column in ("metric", "verdict"),
            overflow="fold",
            min_width=None if plain else _NUMBER,
        )
    return table
