"""Consoles of rich for tables and progress; importing it takes a tenth of a second."""

import os
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragmon.terminal import printable

_LOG_WIDTH = 140  # columns, where there is no terminal


def standard_output(*, markup: bool = True) -> Console:
    """Standard output; as wide as its terminal, and 140 columns in a pipe or the log of a CI job.

    Args:
        markup: False prints brackets as they are, which user text may contain.
    """
    console = _SafeConsole(markup=markup, emoji=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return _SafeConsole(width=_LOG_WIDTH, markup=markup, emoji=False)


def standard_error() -> Console:
    """Standard error, for progress and remarks."""
    return _SafeConsole(stderr=True)


class _SafeConsole(Console):
    """A console on which no text can control the terminal; rich passes escape sequences on."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments of anything, from the inside out."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)
