"""Table of the runs of the id index."""

from collections.abc import Sequence

import numpy as np

from ragmon.stores import Hashes
from ragmon.stores.identity import ENTRY, signed
from ragmon.stores.sealing import seal, unseal
from ragmon.stores.sqlite.database import Database, decoded

_NAMES = "SELECT DISTINCT run FROM runs ORDER BY run"
_PAGES = "SELECT first_hash, entries FROM runs WHERE run = ? ORDER BY first_hash"
_PAGE = (
    "SELECT first_hash, entries FROM runs WHERE run = ? AND first_hash <= ?"
    " ORDER BY first_hash DESC LIMIT 1"
)


class SqliteRuns:
    """See ``RunTable`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def names(self) -> list[int]:
        """Every run, in order."""
        # A key that is no number is of another table, whose row a run written anew would delete.
        return [run for (run,) in self._db.rows(_NAMES)]

    def hashes(self, run: int) -> Hashes:
        """The hashes of a run, every page of it verified."""
        rows = self._db.rows(_PAGES, run)
        with decoded(self._db.path):
            pages = b"".join(unseal(page, "runs", run, first) for first, page in rows)
            hashes: Hashes = np.frombuffer(pages, dtype=ENTRY)["hash"]
            return hashes

    def page(self, run: int, query_hash: int) -> bytes | None:
        """The entries among which a hash would be; None where the run begins behind it."""
        for first, page in self._db.rows(_PAGE, run, signed(query_hash)):
            with decoded(self._db.path):
                return unseal(page, "runs", run, first)
        return None

    def write(self, run: int, pages: Sequence[tuple[int, bytes]]) -> None:
        """Write a run in the place of one of its name, as ``pack_run`` made it."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM runs WHERE run = ?", (run,))
            db.executemany(
                "INSERT INTO runs VALUES (?, ?, ?)",
                ((run, first, seal(page, "runs", run, first)) for first, page in pages),
            )

    def delete(self, run: int) -> None:
        """Forget a run."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM runs WHERE run = ?", (run,))
