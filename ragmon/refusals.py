"""Newest example of each kind of refusal, so that people see what a sender has to mend.

Kept in memory: what is refused may come as fast as a network delivers it, and nothing of it is
stored.
"""

from collections import OrderedDict
from typing import NamedTuple

_MOST = 200  # kinds; reasons and sources are few
_LONGEST = 500  # characters of an example


class RefusalKind(NamedTuple):
    """Labels under which a refusal is counted."""

    source: str
    reason: str


class RefusalExample(NamedTuple):
    """One refusal in words."""

    at: float  # unix seconds
    text: str


class RefusalExamples:
    """The newest example of each kind; those that came last stay."""

    def __init__(self) -> None:
        self._examples: OrderedDict[RefusalKind, RefusalExample] = OrderedDict()

    def note(self, kind: RefusalKind, at: float, text: str) -> None:
        """Keep an example in place of the one before; called on any thread."""
        self._examples[kind] = RefusalExample(at, text[:_LONGEST])
        self._examples.move_to_end(kind)
        if len(self._examples) > _MOST:
            self._examples.popitem(last=False)

    def newest(self) -> dict[RefusalKind, RefusalExample]:
        """All of them."""
        return self._examples.copy()
