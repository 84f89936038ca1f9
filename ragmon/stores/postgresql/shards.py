"""Shards of one store for several processes, each of which owns some of them for a while.

The row of a shard says who may write it: whoever raised its epoch last. What a process before
sends later moves no row, and changes nothing.
"""

from collections.abc import Mapping

from ragmon.clock import Clock, SystemClock
from ragmon.errors import StoreBusyError, StoreFencedError
from ragmon.records import ONLY_SHARD, Position
from ragmon.stores import InboxRow, ShardState
from ragmon.stores.damage import Damage
from ragmon.stores.ports import Shard
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.database import Fence, PostgresDatabase
from ragmon.stores.postgresql.inbox import PostgresInbox
from ragmon.stores.postgresql.lease import end_stopped
from ragmon.stores.postgresql.positions import DETECTION, WINDOWS, read_positions
from ragmon.stores.postgresql.reader import PostgresReader, ReaderConnections
from ragmon.stores.postgresql.schema import check_usable, ensure_days, migrate, read_format
from ragmon.stores.postgresql.server_clock import ServerClock
from ragmon.stores.postgresql.shard import PostgresShard
from ragmon.stores.postgresql.takeovers import record_takeover

_SEED = "SELECT value FROM @.meta WHERE name = 'seed'"
_ADD = "INSERT INTO @.shards (shard) VALUES (%s) ON CONFLICT DO NOTHING"
_TAKE = "UPDATE @.shards SET epoch = epoch + 1, owner = %s WHERE shard = %s RETURNING epoch"
_FENCE = (
    "SELECT 1 FROM @.shards WHERE shard = %s AND epoch = %s AND owner = %s AND commits >= %s"
    " FOR SHARE"
)
_COMPLETE = (
    "UPDATE @.shards SET complete_until = to_timestamp(one.until)"
    " FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::float8[])"
    " AS one (shard, epoch, commits, until) WHERE shards.shard = one.shard"
    " AND shards.epoch = one.epoch AND shards.commits = one.commits"
)
_LIST = (
    "SELECT shard, owner, epoch, next_sequence, extract(epoch FROM complete_until)::float8"
    " FROM @.shards ORDER BY shard"
)
_EPOCHS = (
    "SELECT shard, epoch, extract(epoch FROM clock_timestamp())::float8 FROM @.shards"
    " WHERE shard = ANY(%s)"
)
_OFFSETS = "SELECT shard, source, source_offset FROM @.sides ORDER BY shard, source"
_SHARE = "INSERT INTO @.meta VALUES ('shared', '') ON CONFLICT DO NOTHING"
_IS_SHARED = "SELECT 1 FROM @.meta WHERE name = 'shared'"


def share(database: PostgresDatabase) -> None:
    """Let workers take shards; it is not undone."""
    with database.transaction() as cursor:
        database.execute(cursor, _SHARE)


def is_shared(database: PostgresDatabase) -> bool:
    """True once an evaluator has let workers take shards."""
    return bool(database.rows(_IS_SHARED))


def take_shard(database: PostgresDatabase, number: int, owner: str) -> int:
    """Become the owner of a shard; its epoch."""
    for _ in range(3):
        try:
            with database.transaction() as cursor:
                database.execute(cursor, "SET LOCAL lock_timeout = '1s'")
                database.execute(cursor, _ADD, number)
                [(epoch,)] = database.execute(cursor, _TAKE, owner, number).fetchall()
                record_takeover(database, cursor, number)
        except StoreBusyError:  # its owner before stopped in the middle of a transaction
            end_stopped(database)
        else:
            return int(epoch)
    raise StoreBusyError("the shard is locked by another session", hint="See pg_stat_activity")


def fence_by(database: PostgresDatabase, shard: PostgresShard, epoch: int, owner: str) -> None:
    """Fence every transaction by the commits of a shard too, which a failover may forget."""
    number = shard.number
    database.fence = Fence(_FENCE, lambda: (number, epoch, owner, shard.commits))


class PostgresShards:
    """See ``ShardSet`` for what the methods promise."""

    def __init__(
        self, access: DatabaseAccess, schema: str, owner: str, clock: Clock | None = None
    ) -> None:
        """Prepare a connection; nothing is taken.

        Args:
            access: to the database.
            schema: of the tables; an evaluator makes them.
            owner: name of this process.
            clock: of this process.

        Raises:
            StoreError: the database cannot be used.
        """
        self._access = access
        self._schema = schema
        self._owner = owner
        self._clock = clock or SystemClock()
        self._server_clock = ServerClock(self._clock)
        self._fenced = 0  # of shards that were let go
        self._damage = Damage()
        self._db = PostgresDatabase(access, schema, self._damage)
        self._inbox = PostgresInbox(self._db)
        self._readers = ReaderConnections(access, schema, self._damage)
        self._taken: dict[int, tuple[PostgresDatabase, PostgresShard, int]] = {}
        migrate(self._db)

    @property
    def is_shared(self) -> bool:
        """True once an evaluator has let workers take shards."""
        return is_shared(self._db)

    @property
    def clock_ahead_s(self) -> float:
        """Seconds by which this machine's clock is ahead of the server's."""
        return self._server_clock.ahead_s

    def take(self, number: int) -> Shard:
        """Own a shard, and read what is kept in memory of it."""
        self.let_go(number)
        if (stored := read_format(self._db)) is not None:
            check_usable(self._db, stored)
        ensure_days(self._db)
        database = PostgresDatabase(self._access, self._schema, self._damage)
        try:
            epoch = take_shard(database, number, self._owner)
            seed = int(database.rows(_SEED)[0][0])
            shard = PostgresShard(database, number, epoch, seed, lambda: self._counted(number))
            fence_by(database, shard, epoch, self._owner)
        except BaseException:
            database.close()
            raise
        self._taken[number] = database, shard, epoch
        return shard

    def let_go(self, number: int) -> None:
        """Write a shard no more; whoever takes it next goes on where it is."""
        taken = self._taken.pop(number, None)
        if taken is not None:
            self._fenced += taken[0].fenced
            taken[0].close()

    def offset_before(self, source: str) -> bytes | None:
        """The position of a source from when one process read all of it; None: none did."""
        sql = "SELECT source_offset FROM @.sides WHERE shard = %s AND source = %s"
        rows = self._db.rows(sql, ONLY_SHARD, source)
        return rows[0][0] if rows else None

    def inbox(self, limit: int) -> Mapping[int, list[InboxRow]]:
        """The oldest changes that were handed to the owner of these shards, by shard."""
        return self._inbox.rows(list(self._taken), limit) if self._taken else {}

    def reader(self) -> PostgresReader:
        """A view of the whole store."""
        return PostgresReader(self._readers)

    def check_owned(self) -> None:
        """Raise StoreFencedError where another process has taken a shard of this one since."""
        mine = {number: taken[2] for number, taken in self._taken.items()}
        asked = self._clock.now()
        for number, epoch, server in self._db.rows(_EPOCHS, [*mine]) if mine else ():
            self._server_clock.note(asked, server)
            if epoch != mine[number]:
                raise StoreFencedError(
                    f"another process has taken shard {number}", hint="It is asked for anew"
                )

    def listed(self) -> list[ShardState]:
        """All shards of the store, by number."""
        offsets: dict[int, dict[str, bytes]] = {}
        for number, source, stored in self._db.rows(_OFFSETS):
            offsets.setdefault(number, {})[source] = stored
        return [
            ShardState(number, owner, epoch, records, until, offsets.get(number, {}))
            for number, owner, epoch, records, until in self._db.rows(_LIST)
        ]

    def complete(self, until: Mapping[int, float]) -> None:
        """Note up to which time of the log everything is committed, by shard."""
        rows = [
            (number, taken[2], taken[1].commits, until[number])
            for number, taken in self._taken.items()
            if number in until
        ]
        if rows:
            with self._db.transaction() as cursor:
                self._db.execute(cursor, _COMPLETE, *map(list, zip(*rows, strict=True)))

    @property
    def fenced(self) -> int:
        """Writes that were refused because another process owns the shard."""
        return self._fenced + sum(taken[0].fenced for taken in self._taken.values())

    def close(self) -> None:
        """Let go of all shards."""
        for number in list(self._taken):
            self.let_go(number)
        self._readers.close()
        self._db.close()

    def _counted(self, number: int) -> Position:
        """The position up to which windows and detectors have both counted a shard."""
        windows = read_positions(self._db, WINDOWS).get(number, Position())
        judged = read_positions(self._db, DETECTION).get(number, Position())
        return Position(
            min(windows.sequence, judged.sequence), min(windows.restatement, judged.restatement)
        )
