"""Changes that one process hands to the owner of a shard: part of a commit here, and of one there.

Rows are inserted with the commit that answers for them, and deleted with the commit that applies
them. So each is applied once, whoever dies between the two.
"""

from collections.abc import Sequence

from ragmon.records import number_of, sequence_of, shard_of
from ragmon.stores import Handed, InboxRow, Waiting
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.sealing import seal, unseal

_ROWS = (
    "SELECT number, shard, sequence, kind, body, received FROM @.inbox WHERE shard = ANY(%s::int[])"
    " AND number <> ALL(%s::bigint[]) ORDER BY number LIMIT %s"
)
_HANDED = "SELECT shard, sequence FROM @.inbox WHERE kind = %s"
_COUNT = "SELECT count(*) FROM @.inbox WHERE shard <> 0"


def inbox_row(handed: Handed) -> tuple[int, int, str, bytes, float]:
    """A row to insert."""
    shard, sequence = shard_of(handed.number), sequence_of(handed.number)
    body = seal(handed.body, "inbox", sequence, handed.kind)
    return shard, sequence, handed.kind, body, handed.received


class PostgresInbox:
    """The changes that wait for the owners of some shards; for one thread."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database
        self._unreadable: set[int] = set()

    def rows(self, shards: Sequence[int], limit: int) -> dict[int, list[InboxRow]]:
        """The oldest of them, by shard; one that is damaged stays where it is, and is counted."""
        read: dict[int, list[InboxRow]] = {}
        values = [*shards], [*self._unreadable], limit
        for number, shard, sequence, kind, stored, received in self._db.rows(_ROWS, *values):
            self._unreadable.add(number)
            with self._db.damage.tolerated("inbox", number), self._db.decoded():
                body = unseal(stored, "inbox", sequence, kind)
                row = InboxRow(number, sequence, Waiting(0, kind, body, received))
                read.setdefault(shard, []).append(row)
                self._unreadable.discard(number)
        return read


def numbers_handed(database: PostgresDatabase, kind: str) -> set[int]:
    """Numbers of the records that changes of a kind wait for."""
    return {number_of(shard, sequence) for shard, sequence in database.rows(_HANDED, kind)}


def count_handed(database: PostgresDatabase) -> int:
    """Number of changes that wait."""
    return database.number(_COUNT)
