"""A backtest as tables for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.alerts.sentences import length
from ragmon.backtest.costs import Cost
from ragmon.backtest.queries import Queries
from ragmon.backtest.run import Episode, History, episodes
from ragmon.counts import counted
from ragmon.durations import days_text

_MOST_EPISODES = 60
_COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}


class Bill(Struct, frozen=True):
    """Costs of all rules over one log."""

    configured: Sequence[Cost]
    simpler: Sequence[Cost]  # plain rules that people start with
    pages: Sequence[tuple[str, int, float]]  # of alerts on single queries


def view(queries: Queries, history: History, bill: Bill) -> RenderableType:
    """The whole report: queries read, alerts that would have fired, cost of each rule."""
    return Group(
        _head(queries, history),
        Text(),
        *_fired(episodes(history.events), history),
        _costs(bill.configured),
        _simpler(bill),
    )


def refused(lines: int) -> str:
    """Count of the lines that were no queries, in words."""
    return f"{lines:,} line{'s' if lines != 1 else ''} refused"


def _head(queries: Queries, history: History) -> Text:
    count = len(queries.observations)
    pipelines = {dims[0] for dims in queries.observations.dims}
    notes = [f"{len(pipelines):,} pipeline{'s' if len(pipelines) != 1 else ''}"]
    if queries.duplicates:
        notes.append(f"{queries.duplicates:,} repeated and left out")
    if queries.refused:
        notes.append(refused(queries.refused))
    return Text.assemble(
        (counted(count, "query", "queries"), "bold"),
        f" in {days_text(history.days)}, {_moment(history.first)} to {_moment(history.last)} UTC; ",
        ", ".join(notes),
    )


def _fired(alerts: Sequence[Episode], history: History) -> Iterator[RenderableType]:
    notified = [alert for alert in alerts if alert.notified]
    if not notified:
        yield Text("Nothing would have fired.", "bold green")
        yield Text()
    else:
        yield _episodes(notified[:_MOST_EPISODES], history)
    if len(notified) > _MOST_EPISODES:
        more = len(notified) - _MOST_EPISODES
        yield Text(f"… and {more:,} more; --format jsonl lists all of them\n", "dim")
    suppressed = len(alerts) - len(notified)
    if suppressed:
        text = f"{suppressed:,} more would have sent no notification: effects of these, or silenced"
        yield Text(f"{text}\n", "dim")


def _episodes(alerts: Sequence[Episode], history: History) -> Table:
    table = _table("What would have fired")
    for name in ("opened (UTC)", "lasted", "alert", "by", "why"):
        table.add_column(name, overflow="fold")
    for alert in alerts:
        lasted = length((history.last if alert.ended is None else alert.ended) - alert.opened)
        stream = alert.key.stream
        of = f"{stream.pipeline} {stream.dimension} {stream.value}".rstrip()
        table.add_row(
            _moment(alert.opened),
            f"{lasted}, still firing" if alert.ended is None else lasted,
            Text.assemble((alert.name, _COLOURS[alert.severity]), f"\n{of}"),
            alert.key.kind,
            alert.sentence,
        )
    return table


def _costs(costs: Sequence[Cost]) -> Table:
    table = _table("Alerts of each rule")
    table.add_column("rule", overflow="fold")
    for name in ("alerts", "suppressed", "in 30 days", "firing"):
        table.add_column(name, justify="right")
    table.add_column("false alarms in 30 days")
    for cost in costs:
        firing = length(cost.firing_s) if cost.firing_s else "–"
        monthly = f"{cost.per_month:.1f}"
        row = (f"{cost.notified:,}", f"{cost.suppressed:,}", monthly, firing, cost.promise)
        table.add_row(cost.rule, *row)
    return table


def _simpler(bill: Bill) -> Table:
    table = _table("What simpler rules would have cost")
    table.add_column("rule", overflow="fold")
    for name in ("alerts", "in 30 days"):
        table.add_column(name, justify="right")
    for cost in bill.simpler:
        table.add_row(cost.rule, f"{cost.notified:,}", f"{cost.per_month:,.1f}")
    for rule, count, monthly in bill.pages:
        table.add_row(rule, f"{count:,}", f"{monthly:,.1f}")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _moment(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M")
