"""Answers drawn for the sampled judge: written with the draw, gone with the verdict."""

from collections.abc import Iterable

from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.protocols import Awaited

# An odd factor, so that every remainder modulo 2^31 comes up once.
_AWAITED = (
    "SELECT sequence, since FROM @.awaited WHERE shard = %s"
    " ORDER BY mod(mod(sequence, 2147483648) * 2654435761, 2147483648) LIMIT %s OFFSET %s"
)
_OVERDUE = (
    "SELECT sequence, since FROM @.awaited WHERE shard = %s AND since < %s ORDER BY since LIMIT %s"
)
_COUNT = "SELECT count(*) FROM @.awaited WHERE shard = %s"
_ABANDON = "DELETE FROM @.awaited WHERE shard = %s AND sequence = ANY(%s::bigint[])"


class PostgresAwaitedAnswers:
    """See ``AwaitedAnswers`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard

    def awaited(self, skip: int, limit: int) -> list[Awaited]:
        """Some of those that wait, in a fixed order that has nothing to do with time."""
        return [Awaited(*row) for row in self._db.rows(_AWAITED, self._shard, limit, skip)]

    def overdue(self, before: float, limit: int) -> list[Awaited]:
        """Some of those that were drawn before a moment."""
        return [Awaited(*row) for row in self._db.rows(_OVERDUE, self._shard, before, limit)]

    def awaited_count(self) -> int:
        """Number of answers that wait."""
        return self._db.number(_COUNT, self._shard)

    def abandon(self, sequences: Iterable[int]) -> None:
        """Await these no longer: their records are gone."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _ABANDON, self._shard, list(sequences))
