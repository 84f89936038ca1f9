"""The lease: a row that is valid until a time of the server's clock; its number only rises."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ragmon.clock import Clock, SystemClock
from ragmon.errors import StoreBusyError, StoreError, StoreUnreachableError
from ragmon.stores import Lost
from ragmon.stores.damage import Damage
from ragmon.stores.plain_text import plain
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.database import Fence, PostgresDatabase
from ragmon.stores.postgresql.server_clock import ServerClock

EVALUATOR = "evaluator"
DEFAULT_TTL_S = 15.0
_OWN_SHARE = 0.8  # of its time, after which the holder stops before anybody else may begin
_LOCK_S = 1.0  # that a statement waits for the row

_ACQUIRE = (
    "INSERT INTO @.lease AS mine (name, owner, url, epoch, until)"
    " VALUES (%s, %s, '', 1, clock_timestamp() + make_interval(secs => %s))"
    " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, url = excluded.url,"
    " epoch = mine.epoch + 1, until = excluded.until WHERE mine.until < clock_timestamp()"
    " RETURNING epoch"
)
# An epoch that the database forgot may be given again: to another owner.
_RENEW = (
    "UPDATE @.lease SET until = clock_timestamp() + make_interval(secs => %s), url = %s"
    " WHERE name = %s AND epoch = %s AND owner = %s RETURNING"
    " (SELECT coalesce(sum(commits), 0)::bigint FROM @.shards WHERE shard = 0),"
    " (SELECT coalesce(sum(next_sequence), 0)::bigint FROM @.shards WHERE shard = 0),"
    " extract(epoch FROM clock_timestamp())::float8"
)
_RELEASE = (
    "UPDATE @.lease SET until = clock_timestamp() WHERE name = %s AND epoch = %s AND owner = %s"
)
_HOLDER = (
    "SELECT owner, extract(epoch FROM until - clock_timestamp())::float8, url FROM @.lease"
    " WHERE name = %s"
)
_FENCE = (
    "SELECT 1 FROM @.lease WHERE name = %s AND epoch = %s AND owner = %s"
    " AND (SELECT coalesce(sum(commits), 0) FROM @.shards WHERE shard = 0) >= %s FOR SHARE"
)
_NOTE_LOST = (
    "INSERT INTO @.meta VALUES ('lost', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_TAKE_LOST = "DELETE FROM @.meta WHERE name = 'lost' RETURNING value"
# Whoever stopped in the middle of a transaction keeps its locks for as long as its socket lives.
_END_STOPPED = (
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid"
    " WHERE a.pid <> pg_backend_pid() AND a.state LIKE 'idle in transaction%%'"
    " AND a.state_change < clock_timestamp() - interval '1 second'"
    " AND l.mode IN ('RowShareLock', 'RowExclusiveLock') AND l.relation IN (SELECT c.oid"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s)"
)


class Made(NamedTuple):
    """Numbers that only rise, of what the holder itself committed."""

    commits: int = 0
    queries: int = 0


class Renewed(NamedTuple):
    """Answer of the server to a renewal."""

    commits: int  # as in ``Made``, that it has
    queries: int
    server_time: float  # unix seconds


class Holder(NamedTuple):
    """Whoever has the lease, or had it last."""

    name: str = ""
    valid_s: float = 0.0
    addresses: str = ""  # as it announced them


class PostgresLease:
    """See ``Lease`` for what the methods promise."""

    def __init__(
        self,
        access: DatabaseAccess,
        schema: str,
        owner: str,
        *,
        ttl_s: float = DEFAULT_TTL_S,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a connection of its own; the lease is not taken yet.

        Args:
            access: to the database.
            schema: of the tables.
            owner: name of this replica.
            ttl_s: seconds after which others may take what is not renewed.
            clock: of this process, to stop in time.
        """
        self._db = PostgresDatabase(access, schema, Damage())
        self._owner = plain(owner)
        self._ttl_s = ttl_s
        self._clock = clock or SystemClock()
        self._server_clock = ServerClock(self._clock)
        self._held_until = float("-inf")  # of our own clock
        self._lock = threading.RLock()  # the keeper renews it on a thread of its own
        self._addresses = ""
        self._released: list[Callable[[], object]] = []
        self._made: Callable[[], Made] = Made
        self.epoch = 0
        self.is_lost = False
        self.lost = Lost()  # commits that the database has forgotten
        self.is_reachable = True

    @property
    def is_held(self) -> bool:
        """False before it is taken, after it is lost, and shortly before others may take it."""
        return self._clock.monotonic() < self._held_until

    @property
    def clock_ahead_s(self) -> float:
        """Seconds by which this machine's clock is ahead of the server's, when last renewed."""
        return self._server_clock.ahead_s

    @property
    def fence(self) -> Fence:
        """The row that every write of the holder locks."""
        epoch = self.epoch
        return Fence(_FENCE, lambda: (EVALUATOR, epoch, self._owner, self._made().commits))

    def watch(self, made: Callable[[], Made]) -> None:
        """Have the database asked at each renewal whether it still has what was committed.

        After a failover to an asynchronous standby the last commits may be gone, while the row of
        the lease is there.
        """
        self._made = made

    def acquire(self) -> bool:
        """Take it, if nobody has it; the epoch rises."""
        asked = self._clock.monotonic()
        rows = self._patiently(_ACQUIRE, EVALUATOR, self._owner, self._ttl_s)
        if rows:
            self.epoch = rows[0][0]
            self._held_until = asked + _OWN_SHARE * self._ttl_s
            end_stopped(self._db)  # the holder before: what it left undone is rolled back
        return bool(rows)

    def renew(self) -> bool:
        """Keep it; False where another has it, or the database forgot commits (``lost``).

        Raises:
            StoreError: the server did not answer; it has it for as long as ``is_held`` says.
        """
        asked, made = self._clock.monotonic(), self._made()
        asked_at = self._clock.now()
        values = (self._ttl_s, self._addresses, EVALUATOR, self.epoch, self._owner)
        rows = [Renewed(*row) for row in self._patiently(_RENEW, *values)]
        for row in rows:
            self._server_clock.note(asked_at, row.server_time)
        if rows and rows[0].commits >= made.commits:
            self._held_until = asked + _OWN_SHARE * self._ttl_s
            return True
        if rows:
            queries = max(0, made.queries - rows[0].queries)
            self.lost = Lost(made.commits - rows[0].commits, queries)
            with suppress(StoreError):
                self._patiently(f"{_NOTE_LOST} RETURNING 1", msgspec.json.encode(self.lost))
        self._held_until = float("-inf")
        self.is_lost = True
        return False

    def lose(self) -> None:
        """End this holding: what was counted of others' commits is no longer in the database."""
        self._held_until = float("-inf")
        self.is_lost = True

    def announce(self, addresses: str) -> None:
        """Write them beside the name; where the server is away, with the next renewal."""
        self._addresses = plain(addresses)
        with suppress(StoreError):
            self.renew()

    def holder(self) -> Holder:
        """Whoever has it."""
        for owner, valid_s, addresses in self._db.rows(_HOLDER, EVALUATOR):
            return Holder(owner, valid_s, addresses)
        return Holder()

    def on_release(self, function: Callable[[], object]) -> None:
        """Have a function called when it is given back."""
        self._released.append(function)

    def release(self) -> None:
        """Give it back; again is nothing."""
        for released in self._released:
            released()
        with self._lock:
            if self.epoch:
                with suppress(StoreError):
                    self._db.rows(_RELEASE, EVALUATOR, self.epoch, self._owner)
                self.epoch, self._held_until = 0, float("-inf")
            self._db.close()

    def take_lost(self) -> Lost:
        """Commits that the process before found forgotten, told once."""
        for (noted,) in self._patiently(_TAKE_LOST):
            return msgspec.json.decode(bytes(noted), type=Lost)
        return Lost()

    def _patiently(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, once who stopped with the row locked was ended."""
        with self._lock:
            try:
                rows = self._try(sql, *values)
            except StoreUnreachableError:
                self.is_reachable = False
                raise
            self.is_reachable = True
            return rows

    def _try(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        for _ in range(3):
            try:
                with self._db.transaction() as cursor:
                    limit = f"SET LOCAL lock_timeout = '{int(_LOCK_S * 1000)}ms'"
                    self._db.execute(cursor, limit)
                    return self._db.execute(cursor, sql, *values).fetchall()
            except StoreBusyError:
                end_stopped(self._db)
        raise StoreBusyError("the lease is locked by another session", hint="See pg_stat_activity")


def end_stopped(database: PostgresDatabase) -> None:
    """End sessions that stopped in a transaction which has written in this schema."""
    database.rows(_END_STOPPED, database.schema)
