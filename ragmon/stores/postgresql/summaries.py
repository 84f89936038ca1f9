"""Tables of block summaries: written beside the blocks, deleted with what they sum up."""

from collections.abc import Sequence

from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.sealing import seal
from ragmon.stores.summaries import DueSummary, SummaryRow

TABLES = ("block_facts", "block_keys")

_PUT_FACTS = (
    "INSERT INTO @.block_facts SELECT shard, first_sequence, records, %s, %s FROM @.blocks"
    " WHERE shard = %s AND first_sequence = %s AND records = %s"
    " ON CONFLICT (shard, first_sequence) DO UPDATE SET records = excluded.records,"
    " layout = excluded.layout, body = excluded.body"
)
_PUT_KEYS = (
    "INSERT INTO @.block_keys SELECT shard, first_sequence, records, %s FROM @.blocks"
    " WHERE shard = %s AND first_sequence = %s AND records = %s"
    " ON CONFLICT (shard, first_sequence) DO UPDATE SET records = excluded.records,"
    " body = excluded.body"
)
_END = "SELECT max(first_sequence + records) FROM @.block_facts WHERE shard = %s"
_DELETE = "DELETE FROM @.{} WHERE shard = %s AND first_sequence BETWEEN %s AND %s"
_REVISION = b"revision"  # the name of the field of an amendment that changes texts


def delete_summaries(
    database: PostgresDatabase, cursor: Cursor, shard: int, first: int, last: int
) -> None:
    """Delete the summaries of the blocks that begin at ``first`` to ``last``."""
    for table in TABLES:
        database.execute(cursor, _DELETE.format(table), shard, first, last)


class PostgresSummaries:
    """See ``Summaries`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard
        self._watched: dict[int, int] = {}  # first sequence number to records
        self._end = database.number(_END, shard)  # of the blocks that have facts, or are watched

    def begin(self, blocks: Sequence[DueSummary]) -> None:
        """Watch these blocks, and no others."""
        self._watched = {block.first_sequence: block.records for block in blocks}
        self._end = max(self._end, *(block.first_sequence + block.records for block in blocks), 0)

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Keep the summaries of blocks that did not change since ``begin``; returns how many."""
        kept = [row for row in rows if row.first_sequence in self._watched]
        with self._db.transaction() as cursor:
            for first, layout, facts, keys in kept:
                place = (self._shard, first, self._watched[first])
                body = seal(self._db.zip(facts), "block_facts", first)
                self._db.execute(cursor, _PUT_FACTS, layout, body, *place)
                if keys is not None:
                    sealed = seal(keys, "block_keys", first)
                    self._db.execute(cursor, _PUT_KEYS, sealed, *place)
        self._watched = {}
        return len(kept)

    def outdated(self, changed: Sequence[tuple[int, bytes]]) -> tuple[Sequence[int], Sequence[int]]:
        """Sequence numbers of amendments that make facts wrong, and of those that make keys wrong.

        Nearly always none: the newest blocks have no summaries yet.
        """
        facts = [sequence for sequence, _ in changed if sequence < self._end]
        keys = [sequence for sequence, body in changed if _REVISION in body]
        return facts, [sequence for sequence in keys if sequence < self._end]

    def amended(self, changed: Sequence[tuple[int, bytes]]) -> None:
        """Watch no more what amendments changed."""
        for first, records in [*self._watched.items()]:
            if any(first <= sequence < first + records for sequence, _ in changed):
                del self._watched[first]

    def let_go(self) -> None:
        """Watch nothing, because records were erased."""
        self._watched = {}
