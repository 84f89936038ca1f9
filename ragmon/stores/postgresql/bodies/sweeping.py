"""Objects in the bucket that the database knows nothing of: deleted once they are a day old.

They come from a mover that was replaced while it wrote, and from a database that forgot its last
seconds. The list is read a page at a time, once a day.
"""

from datetime import datetime

import structlog

from ragmon.clock import Clock
from ragmon.stores.postgresql.bodies.objects import ObjectBodies
from ragmon.stores.postgresql.bodies.objects_table import ObjectsTable

_EVERY_S = 86_400.0
_AGE_S = 86_400.0
_PAGE = 1_000
_OWN = "owner.json"


class Sweeper:
    """Reads the list of a folder, page by page."""

    def __init__(
        self, table: ObjectsTable, objects: ObjectBodies, folder: str, clock: Clock
    ) -> None:
        """Begin with the next turn.

        Args:
            table: of the known objects.
            objects: of the settings.
            folder: of the store.
            clock: of the process.
        """
        self._table = table
        self._objects = objects
        self._folder = folder
        self._clock = clock
        self._after = ""
        self._due_at = clock.monotonic()
        self._log = structlog.get_logger("bodies")

    def turn(self) -> None:
        """Read a page, if it is time."""
        if self._clock.monotonic() < self._due_at:
            return
        page = self._objects.listed(self._folder, self._after, _PAGE)
        before = self._clock.now() - _AGE_S
        old = [one.key for one in page if _moment(one.modified) < before]
        for key in self._table.unknown([key for key in old if not key.endswith(_OWN)]):
            self._objects.delete(key)
            self._log.warning("orphan_deleted", key=key, place=self._objects.place)
        self._after = page[-1].key if page else ""
        if not page:
            self._due_at = self._clock.monotonic() + _EVERY_S


def _moment(modified: str) -> float:
    """Unix seconds of a time in ISO 8601; those of now where it is none."""
    try:
        return datetime.fromisoformat(modified).timestamp()
    except ValueError:
        return float("inf")
