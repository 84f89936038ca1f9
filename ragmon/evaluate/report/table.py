"""Terminal tables."""

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
)
from ragmon.evaluate.score.generation import noise_sensitivity
from ragmon.evaluate.score.metric_text import UNKNOWN, change_text, signed, value_text
from ragmon.percentages import percent_range, percent_text, precise_percent

_BAND = {"good": "green", "fair": "yellow", "poor": "red", "": "default"}
_WIDE = 110  # columns of a terminal
_NUMBER = 6  # columns that a number takes
_MOST_LOST = 5
_ONLY_WIDE = ("95 % interval", "p (Holm)", "won / lost / tied")
_VERDICT = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def show(console: Console, evaluation: Evaluation) -> None:
    """One evaluation: every metric, then the headline ones by stratum."""
    for group, metrics in grouped(evaluation.metrics).items():
        table = _table(group, "metric", "mean", "95 % interval", "cases", "")
        for metric in metrics:
            band = f"[{_BAND[metric.band]}]{metric.band}[/]"
            mean = value_text(metric.name, metric.mean)
            table.add_row(metric.name, mean, interval(metric), f"{metric.samples:,}", band)
        console.print(table)
    if evaluation.strata:
        console.print(_strata(evaluation, console.width))
    if evaluation.curves is not None and evaluation.curves.enough_k is not None:
        console.print(f"recall gains less than 5 % after k = {evaluation.curves.enough_k}")
    _judges(console, evaluation)
    for line in evaluation.absences():
        console.print(f"[dim]absent: {escape(line)}[/]")
    for note in evaluation.notes:
        console.print(f"[yellow]note: {escape(note)}[/]")


def show_preferences(console: Console, preferences: Preferences) -> None:
    """Pairwise preferences of the LLM judge: counts, win share, position bias."""
    table = _table("pairwise preference, each pair judged in both orders", "", "pairs")
    for name, count in (
        ("the second is better", preferences.wins),
        ("the first is better", preferences.losses),
        ("tie", preferences.ties),
        ("  of which the choice followed the position", preferences.inconsistent),
        ("could not be judged", preferences.failed),
    ):
        table.add_row(name, f"{count:,}")
    console.print(table)
    if preferences.win_share is not None and preferences.interval is not None:
        bounds = percent_range(*preferences.interval, preferences.win_share)
        share = f"{precise_percent(preferences.win_share)} ({bounds})"
        console.print(f"the second wins {share} of the decided pairs")
    if preferences.position_bias is not None:
        console.print(
            f"position bias {signed(preferences.position_bias)} over "
            f"{preferences.inconsistent:,} pairs "
            "(+1: always the first shown, −1: always the second)"
        )
    for query in preferences.lost[:_MOST_LOST]:
        console.print(f"the first is better: {escape(_short(query))}")
    if preferences.usage is not None:
        console.print(f"[dim]judge: {escape(str(preferences.usage))}[/]")


def show_decision(console: Console, decision: Decision) -> None:
    """Checks of the gate, the failures first, then its verdict."""
    title = f"{decision.current} against {decision.baseline}, {decision.cases:,} cases"
    order = ("fail", "inconclusive", "pass")
    rows = [
        {
            "metric": escape(
                f"{check.metric} [{check.stratum}]" if check.stratum else check.metric
            ),
            "baseline": value_text(check.metric, check.baseline),
            "now": value_text(check.metric, check.current),
            "change": change_text(check.metric, check.change),
            "95 % interval": between(check.metric, check.lower, check.upper),
            "verdict": f"[{_VERDICT[check.verdict]}]{check.verdict}[/]",
            "why": escape(check.reason),
        }
        for check in sorted(decision.checks, key=lambda check: order.index(check.verdict))
    ]
    console.print(_fitting(console, title, rows))
    for note in decision.notes:
        console.print(f"[dim]{escape(note)}[/]")
    console.print("[green]gate passed[/]" if decision.passed else "[red]gate failed[/]")


def show_noise(console: Console, comparison: Comparison) -> None:
    """Noise sensitivity, where the second run answered with irrelevant chunks mixed in."""
    table = _table("noise sensitivity: 1 − noisy / clean", "metric", "clean", "noisy", "share lost")
    for contrast in comparison.contrasts:
        clean, noisy = contrast.first, contrast.second
        if contrast.better == "higher" and clean > 0 and contrast.name != "failure_mode/none":
            lost = noise_sensitivity(clean, noisy)
            means = (value_text(contrast.name, mean) for mean in (clean, noisy))
            table.add_row(contrast.name, *means, percent_text(lost))
    console.print(table)


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Both systems side by side, then the cases that moved."""
    colours = {"better": "green", "worse": "red", "": "default"}
    rows = [
        {
            "metric": contrast.name,
            escape(comparison.first): value_text(contrast.name, contrast.first),
            # The blank: they may have one name.
            f"{escape(comparison.second)} ": value_text(contrast.name, contrast.second),
            "change": change_text(contrast.name, contrast.change),
            "95 % interval": between(contrast.name, contrast.lower, contrast.upper),
            "p (Holm)": f"{contrast.p_adjusted:.3g}",
            "won / lost / tied": f"{contrast.wins} / {contrast.losses} / {contrast.ties}",
            "": f"[{colours[contrast.verdict]}]{contrast.verdict}[/]",
        }
        for contrast in comparison.contrasts
    ]
    console.print(_fitting(console, f"{comparison.cases:,} shared cases", rows))
    moves = _table("cases that moved most", "case", "query", "metric", "was", "is")
    for move in comparison.moves:
        means = (value_text(move.metric, mean) for mean in (move.first, move.second))
        moves.add_row(escape(move.case_id), escape(_short(move.query)), move.metric, *means)
    console.print(moves)
    for text in dict.fromkeys(comparison.reversals.values()):
        metrics = ", ".join(name for name, other in comparison.reversals.items() if other == text)
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
    for usage in evaluation.judges:
        if usage.judged or usage.failed:
            colour = "yellow" if usage.failed else "dim"
            console.print(f"[{colour}]judge: {escape(str(usage))}[/]")
        if usage.example:
            console.print(f"[yellow]  first error: {escape(usage.example)}[/]")
    for judge in evaluation.agreement:
        console.print(escape(agreement(judge)))


def _strata(evaluation: Evaluation, width: int) -> Table:
    """As many headline metrics as a terminal has room for."""
    shown = [metric.name for metric in headlines(evaluation)][: max(2, min(6, (width - 30) // 14))]
    table = _table("By stratum", "stratum", "cases", *shown)
    for stratum in evaluation.strata:
        means = {name: stratum.metrics.get(name) for name in shown}
        cells = [
            UNKNOWN if mean is None else value_text(name, mean.mean) for name, mean in means.items()
        ]
        cases = f"{stratum.cases:,}{' (few)' if stratum.small else ''}"
        table.add_row(escape(f"{stratum.key}={stratum.value}"), cases, *cells)
    return table


def _fitting(console: Console, title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """A table; a narrow terminal leaves columns out, which the JSON file has."""
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
        # Metric names are never cut off; the other columns fold instead.
        table.add_column(
            column,
            justify="left" if plain else "right",
            no_wrap=at == 0 or column in ("metric", "verdict"),
            overflow="fold",
            min_width=None if plain else _NUMBER,
        )
    return table
