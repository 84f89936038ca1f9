"""Objects whose content was erased in part: marked here, rewritten and deleted by the mover."""

from ragmon.stores.postgresql.bodies.places import ADD_MOVED
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase

_MARK = "UPDATE @.body_objects SET is_erased = true WHERE number = %s"
_LAST = "SELECT max(number) FROM @.body_objects"
# One that is being written may have been read before; one that goes may be the last with it.
_LEFT = (
    "SELECT count(*) FROM @.body_objects WHERE number <= %s AND shard = %s"
    " AND (is_erased OR state <> 'stored')"
)


class ErasedObjects:
    """Objects of a shard that have content which was erased."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard
        self._last = 0

    def mark(self, cursor: Cursor, number: int, size: int) -> None:
        """Have an object rewritten, in the transaction in which one of its blocks leaves it.

        Args:
            cursor: of the transaction.
            number: of the object.
            size: bytes that the block has in the database again.
        """
        self._db.execute(cursor, _MARK, number)
        self._db.execute(cursor, ADD_MOVED, self._shard, -size)
        if self._db.access.bodies is not None:
            self._db.access.bodies.cache.clear()

    def begin(self) -> None:
        """Remember which objects may hold what was erased until now."""
        self._last = self._db.number(_LAST)

    def are_gone(self) -> bool:
        """True when none of them has it any more."""
        return not self._db.number(_LEFT, self._last, self._shard)
