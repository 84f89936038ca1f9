"""Fuzz bytes as choices, so that a mutation of bytes is a mutation of structure.

Exhausted, every choice is the first one: generators put what ends them there.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


class Source:
    """Reads choices and texts from bytes, front to back."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        """The next byte; 0 at the end."""
        at = self._at
        if at >= len(self._data):
            return 0
        self._at = at + 1
        return self._data[at]

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        if limit <= 256:
            return self.byte() % limit
        return (self.byte() << 8 | self.byte()) % limit

    def number(self, size: int) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def chance(self, of_256: int) -> bool:
        """True for the ``of_256`` highest bytes; False at the end."""
        return self.byte() >= 256 - of_256

    def choose(self, choices: Sequence[Choice]) -> Choice:
        """One of them."""
        return choices[self.below(len(choices))]

    def several(self, most: int, make: Callable[[], Choice]) -> list[Choice]:
        """As many as a byte says, up to ``most``; none at the end."""
        return [make() for _ in range(self.below(most + 1))]

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        start = self._at
        self._at = min(len(self._data), start + size)
        return self._data[start : self._at]

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(len(self._data))

    def text(self, most: int = 24) -> str:
        """A short text of any characters, lone surrogates too."""
        return self.take(self.below(most)).decode("utf-8", "surrogateescape")
