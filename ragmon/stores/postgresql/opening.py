"""Opening the store: tables, lease, shard; and keeping the lease for as long as it is open."""

import os
import socket

import structlog

from ragmon.clock import Clock, SystemClock
from ragmon.errors import StoreBusyError
from ragmon.loops import Loop, LoopOptions
from ragmon.stores import Migration
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.lease import PostgresLease
from ragmon.stores.postgresql.store import PostgresStore, prepare

_ASK_EVERY_S = 0.25


class LeaseKeeper:
    """Renews a lease, three times in its time."""

    def __init__(self, lease: PostgresLease, ttl_s: float) -> None:
        self._lease = lease
        self._every_s = ttl_s / 3.0
        self._log = structlog.get_logger("lease")
        options = LoopOptions(
            failed="lease_not_renewed",
            is_vital=False,
            is_left_at_end=True,
            first_pause_s=min(1.0, self._every_s),
            longest_pause_s=self._every_s,
        )
        self.loop = Loop("lease", self._turn, self._log, options)

    def _turn(self) -> float:
        if not self._lease.renew():
            if lost := self._lease.lost:
                self._log.error(
                    "store_went_back",
                    commits=lost.commits,
                    queries=lost.queries,
                    remedy="the database forgot acknowledged commits, as after a failover to an"
                    " asynchronous standby; this process ends, and the next reads what is there",
                )
            else:
                self._log.error(
                    "lease_lost", remedy="another replica has taken over; this one ends"
                )
        return self._every_s


def open_store(
    access: DatabaseAccess,
    schema: str,
    *,
    ttl_s: float,
    wait_s: float,
    owner: str = "",
    clock: Clock | None = None,
) -> PostgresStore:
    """Take the lease and the shard, and read what is kept in memory.

    Args:
        access: to the database.
        schema: of the tables, which are made or brought up to date.
        ttl_s: seconds after which others may take a lease that is not renewed.
        wait_s: seconds to wait while another has the lease; that of a killed process ends.
        owner: name of this replica; by default its host and process.
        clock: to wait by.

    Raises:
        StoreBusyError: another replica has it, and goes on renewing it.
        StoreError: the database cannot be used.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + wait_s
    migration = _prepared(access, schema, deadline, clock)
    name = owner or own_name()
    lease = PostgresLease(access, schema, name, ttl_s=ttl_s, clock=clock)
    try:
        while not lease.acquire():
            if clock.monotonic() >= deadline:
                holder = lease.holder()
                raise StoreBusyError(
                    f"schema {schema} is in use by another ragmon ({holder.name})",
                    hint="Stop it, or set another store.schema_name",
                    addresses=holder.addresses,
                )
            clock.sleep(_ASK_EVERY_S)
        keeper = LeaseKeeper(lease, ttl_s)
        keeper.loop.start()
        lease.on_release(lambda: keeper.loop.stop(0.0))
        store = PostgresStore(access, schema, lease, name, migration)
        store.loops = (keeper.loop,)
        if store.bodies is not None:
            store.loops = (keeper.loop, store.bodies.loop)
            store.bodies.loop.start()
        return store
    except BaseException:
        lease.release()
        raise


def own_name() -> str:
    """Name of this process among those that share a database."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def _prepared(
    access: DatabaseAccess, schema: str, deadline: float, clock: Clock
) -> Migration | None:
    """The tables as this ragmon needs them, once nobody has them who could not use them so."""
    while True:
        try:
            return prepare(access, schema)
        except StoreBusyError:
            if clock.monotonic() >= deadline:
                raise
        clock.sleep(_ASK_EVERY_S)
