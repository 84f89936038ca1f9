"""State of each golden probe after its last run."""

from ragmon.stores.sqlite.database import Database

_SCHEMA = "CREATE TABLE IF NOT EXISTS probes (name TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID"


class SqliteProbeRuns:
    """See ``ProbeRuns`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            db.execute(_SCHEMA)

    def load(self) -> dict[str, bytes]:
        """Saved state by the name of the probe."""
        return dict(self._db.rows("SELECT name, body FROM probes"))

    def save(self, name: str, body: bytes) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        with self._db.transaction() as db:
            db.execute("REPLACE INTO probes VALUES (?, ?)", (name, body))
