"""Terminal tables."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragmon.evaluate.comparison import Comparison
from ragmon.evaluate.document import Evaluation
from ragmon.evaluate.gate import Decision
from ragmon.evaluate.generation import noise_sensitivity
from ragmon.evaluate.preference import Preferences
from ragmon.evaluate.report.text import agreement, grouped, headlines, interval, number, signed

_BAND = {"good": "green", "fair": "yellow", "poor": "red", "": "default"}
_VERDICT = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


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
        console.print(_strata(evaluation))
    if evaluation.curves is not None and evaluation.curves.enough_k is not None:
        console.print(f"recall hardly rises after k = {evaluation.curves.enough_k}")
    for account in evaluation.judges:
        colour = "yellow" if account.failed else "dim"
        console.print(f"[{colour}]judge: {escape(str(account))}[/]")
        if account.example:
            console.print(f"[yellow]  such as: {escape(account.example)}[/]")
    for found in evaluation.agreement:
        console.print(escape(agreement(found)))
    for name, reason in evaluation.absent.items():
        console.print(f"[dim]absent: {escape(name)}: {escape(reason)}[/]")
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
    if found.account is not None:
        console.print(f"[dim]judge: {escape(str(found.account))}[/]")


def show_decision(console: Console, decision: Decision) -> None:
    """What the gate found, the failures first."""
    table = _table(
        f"{decision.current} against {decision.baseline}, {decision.cases:,} cases",
        *("metric", "baseline", "now", "change", "95 % interval", "verdict", "why"),
    )
    order = ("fail", "inconclusive", "pass")
    for check in sorted(decision.checks, key=lambda each: order.index(each.verdict)):
        where = f"{check.metric} [{check.stratum}]" if check.stratum else check.metric
        bounds = "" if check.lower is None else f"{signed(check.lower)} … {signed(check.upper)}"
        table.add_row(
            escape(where),
            number(check.baseline),
            number(check.current),
            signed(check.change),
            bounds,
            f"[{_VERDICT[check.verdict]}]{check.verdict}[/]",
            escape(check.reason),
        )
    console.print(table)
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
    table = _table(
        f"{comparison.cases:,} shared cases",
        *("metric", comparison.first, comparison.second, "change", "95 % interval"),
        *("p (Holm)", "wins / losses / ties", ""),
    )
    colours = {"better": "green", "worse": "red", "": "default"}
    for each in comparison.contrasts:
        table.add_row(
            each.name,
            number(each.first),
            number(each.second),
            signed(each.change),
            f"{signed(each.lower)} … {signed(each.upper)}",
            f"{each.p_adjusted:.3g}",
            f"{each.wins} / {each.losses} / {each.ties}",
            f"[{colours[each.verdict]}]{each.verdict}[/]",
        )
    console.print(table)
    moves = _table("cases that moved most", "case", "query", "metric", "was", "is")
    for move in comparison.moves:
        query = move.query if len(move.query) <= 60 else move.query[:59] + "…"
        cells = (escape(query), move.metric, number(move.first), number(move.second))
        moves.add_row(escape(move.case_id), *cells)
    console.print(moves)
    for metric, text in comparison.reversals.items():
        console.print(f"[yellow]Simpson's paradox in {metric}: {escape(text)}[/]")
    for note in comparison.notes:
        console.print(f"[yellow]note: {escape(note)}[/]")
    if comparison.only_first or comparison.only_second:
        console.print(
            f"[dim]{comparison.only_first} cases only in {escape(comparison.first)}, "
            f"{comparison.only_second} only in {escape(comparison.second)}[/]"
        )


def _strata(evaluation: Evaluation) -> Table:
    shown = [each.name for each in headlines(evaluation)][:6]
    table = _table("By stratum", "stratum", "cases", *shown)
    for each in evaluation.strata:
        cells = [number(each.metrics[name].mean) if name in each.metrics else "–" for name in shown]
        cases = f"{each.cases:,}{' (few)' if each.small else ''}"
        table.add_row(escape(f"{each.key}={each.value}"), cases, *cells)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left")
    for at, column in enumerate(columns):
        plain = at == 0 or column in ("", "why", "query", "metric", "verdict")
        table.add_column(escape(column), justify="left" if plain else "right")
    return table
