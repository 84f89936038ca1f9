"""Tables of values by name: the state of golden probes, and what is remembered."""

from ragmon.stores.plain_text import plain
from ragmon.stores.postgresql.database import PostgresDatabase

_PUT = "INSERT INTO {} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET body = excluded.body"


class PostgresProbeRuns:
    """See ``ProbeRuns`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def load(self) -> dict[str, bytes]:
        """Saved state by the name of the probe."""
        return dict(self._db.rows("SELECT name, body FROM @.probes"))

    def save(self, name: str, body: bytes) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PUT.format("@.probes"), name, body)


class PostgresRemembered:
    """See ``Remembered`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def load(self, name: str) -> bytes | None:
        """The value kept under a name; None without one."""
        rows = self._db.rows("SELECT body FROM @.remembered WHERE name = %s", plain(name))
        return rows[0][0] if rows else None

    def save(self, name: str, body: bytes) -> None:
        """Keep a value under a name; it is on disk when this returns."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PUT.format("@.remembered"), plain(name), body)
