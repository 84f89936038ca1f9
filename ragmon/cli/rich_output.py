"""Consoles of rich for tables and progress; importing it takes a tenth of a second."""

import os
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragmon.terminal import printable

# Before the end of a line, also coloured; in linear time, as it starts only where blanks begin.
_BLANKS = re.compile(r"(?<! ) ++((?:\x1b\[[0-9;]*+m)*+)\n")
_LOG_WIDTH = 140  # columns, where there is no terminal


def standard_output(*, markup: bool = True) -> Console:
    """Standard output; as wide as its terminal, and 140 columns in a pipe or the log of a CI job.

    Args:
        markup: False prints brackets as they are, which user text may contain.
    """
    console = _SafeConsole(markup=markup, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = _SafeConsole(width=_LOG_WIDTH, markup=markup, emoji=False)
    console.file = cast("IO[str]", _WithoutTrailingBlanks(sys.stdout))
    return console


def standard_error() -> Console:
    """Standard error, for progress and remarks."""
    return _SafeConsole(stderr=True)


class _WithoutTrailingBlanks:
    """A stream whose lines end with their last sign: rich fills those of a table with blanks."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, as rich does at the end of each print."""
        return self._stream.write(_BLANKS.sub(r"\1\n", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _SafeConsole(Console):
    """A console on which no text can control the terminal; rich passes escape sequences on."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments of anything, from the inside out."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)
