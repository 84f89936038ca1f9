"""The embedded store: one SQLite file with one shard and its state, written by one process."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from ragmon.errors import StoreError
from ragmon.records import ONLY_SHARD
from ragmon.stores import MigrationProgress, Recovery, no_progress
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.identity import store_name
from ragmon.stores.ports import Lease
from ragmon.stores.sharing import Follower, OtherShards
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.commit_log import CommitLog, lost_since
from ragmon.stores.sqlite.database import Database
from ragmon.stores.sqlite.lease import NoLease
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.shard import SqliteShard, meta_number
from ragmon.stores.sqlite.state_store import SqliteStateStore
from ragmon.stores.sqlite.tables import SqliteTables
from ragmon.stores.sqlite.wal import wal_content

FILE = "ragmon.sqlite"


class SqliteStore:
    """Implements ``Store``."""

    def __init__(
        self,
        directory: Path,
        *,
        synchronous: str = "FULL",
        lease: Lease | None = None,
        progress: MigrationProgress = no_progress,
    ) -> None:
        """Open it, or create it.

        Args:
            directory: of the file; it exists.
            synchronous: see ``Options``.
            lease: of the directory, given back by ``close``; None where nobody else can come.
            progress: called while the format is changed.
        """
        self.lease: Lease = lease or NoLease()
        self.loops = ()
        self.bodies = None
        written = wal_content(directory / FILE)
        self._facts = FactsCache()
        self._db = Database(directory / FILE, synchronous, progress)
        try:
            self.migration = self._db.migration
            self.damage = self._db.damage
            table = BlockTable(self._db.connection, self._db.path, self.damage)
            seed = meta_number(self._db, "seed")
            self.name = store_name(seed)
            self._log = CommitLog(directory, seed)
            self.state = SqliteStateStore(self._db, table)
            self.shard = SqliteShard(self._db, table, self.state, self._log, seed)
            self.shards = {ONLY_SHARD: self.shard}
            position = self.shard.position
            self.recovery = Recovery(*written, lost_since(self._log.entries(), position))
            self._log.begin(position)
        except BaseException:
            self._db.close()
            raise

    @property
    def is_shared(self) -> bool:
        """False: a file is for one process."""
        return False

    def share(self) -> None:
        """Refuse: a file is for one process."""
        raise _for_one_process()

    def follower(self) -> Follower:
        """Refuse: nobody else writes."""
        raise _for_one_process()

    def others(self) -> OtherShards:
        """Refuse: nobody else writes."""
        raise _for_one_process()

    def reader(self) -> SqliteReader:
        """A view for another thread."""
        return SqliteReader(self._db.path, self.damage, self._facts)

    def size_bytes(self) -> int:
        """Bytes on disk."""
        return self._db.size_bytes()

    def free_bytes(self) -> int | None:
        """Bytes that the file system of the file has left; None while it does not answer."""
        try:
            return shutil.disk_usage(self._db.path.parent).free
        except OSError:
            return None

    def fenced(self) -> Mapping[str, int]:
        """None: whoever has the file keeps it until the process ends."""
        return {"shard": 0, "evaluator": 0}

    def tables(self) -> SqliteTables:
        """Its tables, for a copy into another store."""
        return SqliteTables(self._db, self.shard, self.state)

    def close(self) -> None:
        """Checkpoint and close."""
        self._db.close()
        self._log.close()
        self.lease.release()


def _for_one_process() -> StoreError:
    return StoreError(
        "the SQLite store is for one process", hint="Set store.kind: postgresql for several"
    )
