"""The store in PostgreSQL: one shard and its state, for the replica that has the lease."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from ragmon.clock import SystemClock
from ragmon.loops import Loop
from ragmon.records import ONLY_SHARD
from ragmon.stores import Migration, MigrationProgress, Recovery, StoreFormat, no_progress
from ragmon.stores.damage import Damage
from ragmon.stores.identity import store_name
from ragmon.stores.ports import Shard
from ragmon.stores.postgresql.bodies.mover import BodyMover
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.following import PostgresFollower
from ragmon.stores.postgresql.lease import Made, PostgresLease
from ragmon.stores.postgresql.other_shards import PostgresOtherShards
from ragmon.stores.postgresql.reader import PostgresReader, ReaderConnections
from ragmon.stores.postgresql.schema import (
    check_usable,
    ensure_days,
    migrate,
    read_format,
    require_bodies,
)
from ragmon.stores.postgresql.shard import PostgresShard
from ragmon.stores.postgresql.shards import fence_by, is_shared, share, take_shard
from ragmon.stores.postgresql.state_store import PostgresStateStore
from ragmon.stores.postgresql.tables import PostgresTables
from ragmon.stores.postgresql.takeovers import CountedTakeovers

_SEED = "SELECT value FROM @.meta WHERE name = 'seed'"


class PostgresStore:
    """Implements ``Store``."""

    def __init__(
        self,
        access: DatabaseAccess,
        schema: str,
        lease: PostgresLease,
        owner: str,
        migration: Migration | None = None,
    ) -> None:
        """Take the shard, and read what is kept in memory.

        Args:
            access: to the database.
            schema: of the tables; they are there.
            lease: that this process has.
            owner: name of this replica.
            migration: of the tables, that was made for it.
        """
        self.lease = lease
        self.loops: Sequence[Loop] = ()  # that keep the lease
        self.migration = migration
        self.bodies: BodyMover | None = None
        self.recovery = Recovery(0, 0, lease.take_lost())
        self.damage = Damage()
        self._writer = PostgresDatabase(access, schema, self.damage)
        self._state_writer = PostgresDatabase(access, schema, self.damage)
        self._readers = ReaderConnections(access, schema, self.damage)
        try:
            if (stored := read_format(self._writer)) is not None:
                check_usable(self._writer, stored)  # it may have changed before this took the lease
            ensure_days(self._writer)
            epoch = take_shard(self._writer, ONLY_SHARD, owner)
            self._state_writer.fence = lease.fence
            seed = int(self._writer.rows(_SEED)[0][0])
            self.name = store_name(seed)
            self._takeovers = CountedTakeovers(self._state_writer)
            self.state = PostgresStateStore(self._state_writer, lease.epoch, self._takeovers)
            self.shard = PostgresShard(self._writer, ONLY_SHARD, epoch, seed, self.state.counted)
            self.shards: Mapping[int, Shard] = {ONLY_SHARD: self.shard}
            shard = self.shard
            fence_by(self._writer, shard, epoch, owner)
            lease.watch(lambda: Made(shard.commits, shard.next_sequence))
            self.bodies = self._open_bodies(access, schema)
        except BaseException:
            self._close()
            raise

    def _open_bodies(self, access: DatabaseAccess, schema: str) -> BodyMover | None:
        """The mover of bodies to an object store; None where they stay."""
        objects = access.bodies
        if objects is None or objects.options.read_only:
            return None
        require_bodies(self._state_writer)
        database = PostgresDatabase(access, schema, self.damage)
        database.fence = self.lease.fence
        return BodyMover(database, objects, self.name, SystemClock())

    def reader(self) -> PostgresReader:
        """A view for another thread."""
        return PostgresReader(self._readers)

    @property
    def is_shared(self) -> bool:
        """True once an evaluator has let workers take shards."""
        return is_shared(self._writer)

    def share(self) -> None:
        """Let workers take shards; it is not undone."""
        share(self._writer)

    def follower(self) -> PostgresFollower:
        """A view of what others commit, for another thread."""
        return PostgresFollower(self._readers, self.lease, self._takeovers)

    def others(self) -> PostgresOtherShards:
        """Ids of the queries that workers store."""
        return PostgresOtherShards(self._readers, ONLY_SHARD)

    def size_bytes(self) -> int:
        """Bytes of what lives in the database."""
        return self.shard.size_bytes

    def free_bytes(self) -> int | None:
        """Nothing is known of the server's disk."""
        return None

    def fenced(self) -> Mapping[str, int]:
        """Writes that were refused because another process has taken over."""
        return {"shard": self._writer.fenced, "evaluator": self._state_writer.fenced}

    def tables(self) -> PostgresTables:
        """Its tables, for a copy into another store."""
        return PostgresTables(self._writer, self.lease.epoch)

    def close(self) -> None:
        """Close the connections, and give the lease back."""
        if self.bodies is not None:
            self.bodies.close()
        self._close()
        self.lease.release()

    def _close(self) -> None:
        self._readers.close()
        self._state_writer.close()
        self._writer.close()


def prepare(
    access: DatabaseAccess, schema: str, progress: MigrationProgress = no_progress
) -> Migration | None:
    """Make the tables, or bring them up to date.

    Raises:
        StoreBusyError: a ragmon that could not use them afterwards has the store.
        StoreError: the database cannot be used.
    """
    with closing(PostgresDatabase(access, schema, Damage())) as database:
        return migrate(database, progress)


def inspect(access: DatabaseAccess, schema: str) -> StoreFormat | None:
    """The format of the tables, which is not changed; None without any.

    Raises:
        StoreError: the database cannot be used, or this ragmon cannot use its format.
    """
    with closing(PostgresDatabase(access, schema, Damage())) as database:
        if (stored := read_format(database)) is not None:
            check_usable(database, stored)
        return stored
