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

_MOST_EPISODES = 60
_COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}


class Bill(Struct, frozen=True):
    """What rules would have cost."""

    configured: Sequence[Cost]
    simpler: Sequence[Cost]  # that people start with
    pages: Sequence[tuple[str, int, float]]  # of alerts on single queries


def view(queries: Queries, history: History, bill: Bill) -> RenderableType:
    """Everything: what was read, what would have fired, what each rule costs."""
    return Group(
        _head(queries, history),
        Text(),
        *_fired(episodes(history.events), history),
        _costs(bill.configured),
        _simpler(bill),
    )


def refused(lines: int) -> str:
    """How many lines were no queries."""
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
        (f"{count:,} queries", "bold"),
        f" in {history.days:.1f} days, {_moment(history.first)} to {_moment(history.last)} UTC; ",
        ", ".join(notes),
    )


def _fired(found: Sequence[Episode], history: History) -> Iterator[RenderableType]:
    heard = [each for each in found if each.heard]
    if not heard:
        yield Text("Nothing would have fired.", "bold green")
        yield Text()
    else:
        yield _episodes(heard[:_MOST_EPISODES], history)
    if len(heard) > _MOST_EPISODES:
        more = len(heard) - _MOST_EPISODES
        yield Text(f"… and {more:,} more; --format jsonl lists all of them\n", "dim")
    unheard = len(found) - len(heard)
    if unheard:
        text = f"{unheard:,} more would not have been heard: effects of these, or silenced\n"
        yield Text(text, "dim")


def _episodes(heard: Sequence[Episode], history: History) -> Table:
    table = _table("What would have fired")
    for name in ("opened (UTC)", "lasted", "alert", "by", "why"):
        table.add_column(name, overflow="fold")
    for each in heard:
        still = each.ended is None
        lasted = length((history.last if each.ended is None else each.ended) - each.opened)
        stream = each.key.stream
        of = f"{stream.pipeline} {stream.dimension} {stream.value}".rstrip()
        table.add_row(
            _moment(each.opened),
            f"{lasted}, on" if still else lasted,
            Text.assemble((each.name, _COLOURS[each.severity]), f"\n{of}"),
            each.key.kind,
            each.sentence,
        )
    return table


def _costs(costs: Sequence[Cost]) -> Table:
    table = _table("What each rule comes to")
    table.add_column("rule", overflow="fold")
    for name in ("alerts", "unheard", "in 30 days", "firing"):
        table.add_column(name, justify="right")
    table.add_column("false ones in 30 days")
    for each in costs:
        firing = length(each.firing_s) if each.firing_s else "–"
        monthly = f"{each.per_month:.1f}"
        row = (f"{each.heard:,}", f"{each.unheard:,}", monthly, firing, each.promise)
        table.add_row(each.rule, *row)
    return table


def _simpler(bill: Bill) -> Table:
    table = _table("What simpler rules would have cost")
    table.add_column("rule", overflow="fold")
    for name in ("alerts", "in 30 days"):
        table.add_column(name, justify="right")
    for each in bill.simpler:
        table.add_row(each.rule, f"{each.heard:,}", f"{each.per_month:,.1f}")
    for rule, count, monthly in bill.pages:
        table.add_row(rule, f"{count:,}", f"{monthly:,.1f}")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _moment(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M")
