"""Table of the runs of a shard's id index."""

from collections.abc import Sequence

import numpy as np

from ragmon.stores import Hashes
from ragmon.stores.identity import ENTRY, signed
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.sealing import seal, unseal

_NAMES = "SELECT DISTINCT run FROM @.runs WHERE shard = %s ORDER BY run"
_PAGES = "SELECT first_hash, entries FROM @.runs WHERE shard = %s AND run = %s ORDER BY first_hash"
_PAGE = (
    "SELECT first_hash, entries FROM @.runs WHERE shard = %s AND run = %s AND first_hash <= %s"
    " ORDER BY first_hash DESC LIMIT 1"
)
_DELETE = "DELETE FROM @.runs WHERE shard = %s AND run = %s"
_INSERT = (
    "INSERT INTO @.runs SELECT %s, %s, first_hash, entries"
    " FROM unnest(%s::bigint[], %s::bytea[]) AS page (first_hash, entries)"
)


class PostgresRuns:
    """See ``RunTable`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard

    def names(self) -> list[int]:
        """Every run, in order."""
        return [run for (run,) in self._db.rows(_NAMES, self._shard)]

    def hashes(self, run: int) -> Hashes:
        """The hashes of a run, every page of it verified."""
        rows = self._db.rows(_PAGES, self._shard, run)
        with self._db.decoded():
            pages = b"".join(unseal(page, "runs", run, first) for first, page in rows)
            hashes: Hashes = np.frombuffer(pages, dtype=ENTRY)["hash"]
            return hashes

    def page(self, run: int, query_hash: int) -> bytes | None:
        """The entries among which a hash would be; None where the run begins behind it."""
        for first, page in self._db.rows(_PAGE, self._shard, run, signed(query_hash)):
            with self._db.decoded():
                return unseal(page, "runs", run, first)
        return None

    def write(self, run: int, pages: Sequence[tuple[int, bytes]]) -> None:
        """Write a run in the place of one of its name, as ``pack_run`` made it."""
        firsts = [first for first, _ in pages]
        entries = [seal(page, "runs", run, first) for first, page in pages]
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _DELETE, self._shard, run)
            self._db.execute(cursor, _INSERT, self._shard, run, firsts, entries)

    def delete(self, run: int) -> None:
        """Forget a run."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _DELETE, self._shard, run)
