"""Progress of what takes longer than a moment: how much, how fast, and the time that is left."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from rich import filesize
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from ragmon.cli.rich_output import standard_error


class RateColumn(ProgressColumn):
    """Pieces a second, or bytes where the task has a field ``bytes`` that is true."""

    def render(self, task: Task) -> Text:
        """The rate; empty until it is known."""
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        if task.fields.get("bytes"):
            return Text(f"{filesize.decimal(int(speed))}/s")
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


class StageBar:
    """A bar of stages that follow one another: its share, how fast, and the time that is left."""

    def __init__(self, byte_stages: Container[str] = (), *, quiet: bool = False) -> None:
        """Take the stages that count bytes; the others count pieces."""
        self._byte_stages = byte_stages
        self.progress = _bar([TaskProgressColumn(), RateColumn()], quiet=quiet)
        self._task: TaskID | None = None
        self._stage = ""

    def show(self, stage: str, done: int, total: int) -> None:
        """Take in how much of a stage is done; of none (0) it is not known how much there is."""
        if stage != self._stage:
            self._begin(stage)
        if self._task is not None:
            self.progress.update(self._task, completed=done, total=total or None)

    def _begin(self, stage: str) -> None:
        """A new task, since the rate of one stage says nothing of the next."""
        if self._task is not None:
            self.progress.remove_task(self._task)
        self._stage = stage
        self._task = self.progress.add_task(stage, total=None, bytes=stage in self._byte_stages)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A bar for an answer of the daemon, which does not say how far it is: the time that passed."""
    with _bar([], quiet=False) as progress:
        progress.add_task(what, total=None)
        yield


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
