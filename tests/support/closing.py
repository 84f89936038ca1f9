"""Base of what a test opens in a ``with`` block."""

from types import TracebackType
from typing import Self


class Closing:
    """Something with an end, which comes with that of the block."""

    def close(self) -> None:
        """End it."""
        raise AssertionError("says how it ends")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
