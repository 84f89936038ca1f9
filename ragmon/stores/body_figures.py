"""Port of the mover of bodies to an object store, as metrics see it."""

from collections.abc import Mapping
from typing import Protocol


class BodyFigures(Protocol):
    """Figures of bodies that are moved to an object store; for any thread."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of those that are in the database."""
        ...

    @property
    def most_pending_bytes(self) -> int | None:
        """Bytes beyond which new records are refused; None: no limit."""
        ...

    @property
    def objects(self) -> int:
        """Number of objects."""
        ...

    @property
    def object_bytes(self) -> int:
        """Bytes of the objects."""
        ...

    @property
    def moved_bytes(self) -> int:
        """Bytes that were moved since the start."""
        ...

    @property
    def stalled_s(self) -> float:
        """Seconds since everything that was due could be moved and deleted."""
        ...

    def requests(self) -> Mapping[tuple[str, ...], float]:
        """Requests to the object store by operation and outcome."""
        ...
