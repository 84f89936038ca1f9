"""Sweeps over the time of a tracing tool: each stretch is read at a certain age, page by page.

A stretch is read from its beginning, or on from the page behind the last one that was committed. It
is read again at greater ages; what was seen before is known by its ids and counts once.
"""

from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

_WIDTH_S = 3_600.0
_MOST_WIDTH_S = 86_400.0

Subject = Literal["spans", "scores"]


class Window(NamedTuple):
    """A stretch of time, in unix seconds; the end does not belong to it."""

    start: float
    end: float


class SweepPosition(Struct, frozen=True):
    """Place that a sweep has come to."""

    read_to: float  # unix seconds
    end: float = 0.0  # of the window under way; 0: none is
    cursor: str = ""  # of the next page of that window
    width_s: float = _WIDTH_S  # of the next window

    def after_page(self, window: Window, next_cursor: str) -> "SweepPosition":
        """The position behind a page; a window of a single page is followed by a wider one.

        Args:
            window: that the page is of.
            next_cursor: of the page behind it; empty: it was the last.
        """
        if next_cursor:
            return SweepPosition(window.start, window.end, next_cursor)
        width_s = _WIDTH_S if self.cursor else min(_MOST_WIDTH_S, 2.0 * self.width_s)
        return SweepPosition(window.end, width_s=width_s)

    def again(self) -> "SweepPosition":
        """The beginning of the window under way: its pages are no more what they were."""
        return replace(self, cursor="")


class Sweep(Struct, frozen=True):
    """One way through the time of a tool."""

    subject: Subject
    delay_s: float  # age of what is read
    least_s: float  # of a window
    number: int = 0  # of its subject; 0 reads the history

    @property
    def suffix(self) -> str:
        """Of the name under which its position is kept."""
        return f"{self.subject}.{self.number}"

    def window(self, position: SweepPosition, now: float) -> Window | None:
        """The window to read; None when nothing is old enough."""
        if position.end:
            return Window(position.read_to, position.end)
        settled = now - self.delay_s
        if settled - position.read_to < self.least_s:
            return None
        return Window(position.read_to, min(settled, position.read_to + position.width_s))


def pack(position: SweepPosition) -> bytes:
    """As the store keeps it."""
    return msgspec.msgpack.encode(position)


def unpack(packed: bytes) -> SweepPosition:
    """The position that ``pack`` was called with."""
    return msgspec.msgpack.decode(packed, type=SweepPosition)
