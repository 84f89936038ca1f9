"""Progress of what takes longer than a moment: how much, how fast, and the time that is left."""

from collections.abc import Sequence

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from ragmon.cli.rich_output import standard_error


class RateColumn(ProgressColumn):
    """Pieces a second."""

    def render(self, task: Task) -> Text:
        """The rate; empty until it is known."""
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10.0 else f"{speed:.1f}/s")


def piece_bar(*, quiet: bool = False) -> Progress:
    """A bar of things that are counted."""
    return _bar([MofNCompleteColumn(), RateColumn()], quiet=quiet)


def byte_bar(*, quiet: bool = False) -> Progress:
    """A bar of bytes."""
    return _bar([DownloadColumn(), TransferSpeedColumn()], quiet=quiet)


def share_bar(*, quiet: bool = False) -> Progress:
    """A bar of what is neither counted nor measured."""
    return _bar([TaskProgressColumn()], quiet=quiet)


def _bar(columns: Sequence[ProgressColumn], *, quiet: bool) -> Progress:
    """A bar on standard error that disappears at the end; outside a terminal there is none."""
    console = standard_error()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
