"""Answers drawn for the sampled judge: written with the draw, gone with the verdict."""

from collections.abc import Iterable

from ragmon.records import number_of, sequence_of, shard_of
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.protocols import Awaited

# One whose verdict is on its way to the owner of its shard is awaited no more.
_WAITS = (
    " FROM @.awaited WHERE NOT EXISTS (SELECT 1 FROM @.inbox WHERE inbox.shard = awaited.shard"
    " AND inbox.sequence = awaited.sequence AND inbox.kind = 'verdict')"
)
# An odd factor, so that every remainder modulo 2^31 comes up once.
_AWAITED = (
    f"SELECT shard, sequence, since{_WAITS}"
    " ORDER BY mod(mod(sequence, 2147483648) * 2654435761, 2147483648), shard LIMIT %s OFFSET %s"
)
_OVERDUE = f"SELECT shard, sequence, since{_WAITS} AND since < %s ORDER BY since LIMIT %s"
_COUNT = f"SELECT count(*){_WAITS}"
_ABANDON = (
    "DELETE FROM @.awaited USING unnest(%s::int[], %s::bigint[]) AS one (shard, sequence)"
    " WHERE awaited.shard = one.shard AND awaited.sequence = one.sequence"
)


class PostgresAwaitedAnswers:
    """See ``AwaitedAnswers`` for what the methods promise; those of every shard."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def awaited(self, skip: int, limit: int) -> list[Awaited]:
        """Some of those that wait, in a fixed order that has nothing to do with time."""
        return _numbered(self._db.rows(_AWAITED, limit, skip))

    def overdue(self, before: float, limit: int) -> list[Awaited]:
        """Some of those that were drawn before a moment."""
        return _numbered(self._db.rows(_OVERDUE, before, limit))

    def awaited_count(self) -> int:
        """Number of answers that wait."""
        return self._db.number(_COUNT)

    def abandon(self, sequences: Iterable[int]) -> None:
        """Await these no longer: their records are gone."""
        places = [(shard_of(number), sequence_of(number)) for number in sequences]
        if places:
            with self._db.transaction() as cursor:
                self._db.execute(cursor, _ABANDON, *map(list, zip(*places, strict=True)))


def _numbered(rows: Iterable[tuple[int, int, float]]) -> list[Awaited]:
    return [Awaited(number_of(shard, sequence), since) for shard, sequence, since in rows]
