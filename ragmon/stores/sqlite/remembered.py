"""Small values by name."""

from ragmon.stores.sqlite.database import Database

_SCHEMA = "CREATE TABLE IF NOT EXISTS remembered (name TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID"


class SqliteRemembered:
    """See ``Remembered`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            db.execute(_SCHEMA)

    def load(self, name: str) -> bytes | None:
        """The value kept under a name; None without one."""
        rows = self._db.rows("SELECT body FROM remembered WHERE name = ?", name)
        return rows[0][0] if rows else None

    def save(self, name: str, body: bytes) -> None:
        """Keep a value under a name; it is on disk when this returns."""
        with self._db.transaction() as db:
            db.execute("REPLACE INTO remembered VALUES (?, ?)", (name, body))
