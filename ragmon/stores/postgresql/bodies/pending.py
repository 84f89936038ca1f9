"""Bodies that wait in the database, and the limit at which new queries are refused."""

from ragmon.clock import Clock
from ragmon.stores.postgresql.bodies.objects import ObjectBodies
from ragmon.stores.postgresql.bodies.objects_table import ObjectsTable
from ragmon.stores.postgresql.database import PostgresDatabase

_MEASURE_EVERY_S = 15.0
_ROOM = 0.9  # of the limit, at which records are taken again

_PENDING = "SELECT sum(octet_length(body)) FROM @.blocks WHERE object IS NULL"
_SET_FULL = "INSERT INTO @.meta VALUES ('bodies_full', '') ON CONFLICT DO NOTHING"
_CLEAR_FULL = "DELETE FROM @.meta WHERE name = 'bodies_full'"


class PendingBodies:
    """Figures of the mover; other threads may look at them."""

    def __init__(
        self, database: PostgresDatabase, table: ObjectsTable, objects: ObjectBodies, clock: Clock
    ) -> None:
        """Nothing is measured yet.

        Args:
            database: of the mover.
            table: of the objects.
            objects: of the settings.
            clock: of the process.
        """
        self._db = database
        self._table = table
        self._most_bytes = objects.options.max_pending_bytes
        self._clock = clock
        self._measured_at: float | None = None
        self._succeeded_at = clock.monotonic()
        self._is_full: bool | None = None  # None: not known
        self.size_bytes = 0
        self.objects = 0
        self.stored_bytes = 0

    @property
    def stalled_s(self) -> float:
        """Seconds since the last turn that did all it had to."""
        return max(0.0, self._clock.monotonic() - self._succeeded_at)

    def measure(self) -> None:
        """Count what waits, and refuse new queries beyond the limit."""
        now = self._clock.monotonic()
        if self._measured_at is not None and now - self._measured_at < _MEASURE_EVERY_S:
            return
        self.size_bytes = self._db.number(_PENDING)
        self.objects, self.stored_bytes = self._table.extent()
        self._measured_at = now
        if self._most_bytes is None:
            is_full = False
        elif self._is_full:
            is_full = self.size_bytes > _ROOM * self._most_bytes
        else:
            is_full = self.size_bytes > self._most_bytes
        if is_full is not self._is_full:
            with self._db.transaction() as cursor:
                self._db.execute(cursor, _SET_FULL if is_full else _CLEAR_FULL)
            self._is_full = is_full

    def note_success(self) -> None:
        """Note a turn that did all it had to."""
        self._succeeded_at = self._clock.monotonic()
