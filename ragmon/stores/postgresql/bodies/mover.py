"""The mover: it joins the bodies of blocks to objects, writes them, and deletes what is over.

A body is in the database until an object that holds it was acknowledged; then one transaction,
fenced by the lease, leaves its head there and says where the rest is. While the object store is
away bodies wait where they are, and nothing else notices.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

import structlog

from ragmon.clock import Clock
from ragmon.errors import StoreBodiesError, StoreCorruptError
from ragmon.loops import Loop, LoopOptions, beat
from ragmon.stores.postgresql.bodies.objects import ObjectBodies
from ragmon.stores.postgresql.bodies.objects_table import BodyObject, ObjectPart, ObjectsTable
from ragmon.stores.postgresql.bodies.ownership import claim
from ragmon.stores.postgresql.bodies.pending import PendingBodies
from ragmon.stores.postgresql.bodies.sweeping import Sweeper
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.schema import DAY_S

_EVERY_S = 5.0
_STOP_S = 5.0  # for the object that is being written: the next start deletes it otherwise
_GRACE_S = 60.0  # of what nothing refers to: a reader may, and a database may forget seconds
_MOST_ROWS = 4_096  # looked at in one turn
_MOST_OBJECTS = 64  # rewritten or deleted in one turn
_RELEASED = 1_000  # looked at in one turn

_DUE = (
    "SELECT shard, day, first_sequence, octet_length(body), last_timestamp FROM @.blocks"
    " WHERE object IS NULL AND last_timestamp < %s ORDER BY last_timestamp LIMIT %s"
)
_BODIES = (
    "SELECT first_sequence, body FROM @.blocks WHERE shard = %s AND day = %s"
    " AND first_sequence = ANY(%s::bigint[]) AND object IS NULL ORDER BY first_sequence"
)


class DueBody(NamedTuple):
    """A body that may leave the database."""

    shard: int
    day: int
    first: int
    length: int
    newest: float  # unix seconds of its newest record


class BodyMover:
    """One loop; of all processes that share a store the holder of the lease runs it."""

    def __init__(
        self, database: PostgresDatabase, objects: ObjectBodies, folder: str, clock: Clock
    ) -> None:
        """Nothing is asked yet.

        Args:
            database: a connection of its own, whose transactions are fenced by the lease.
            objects: of the settings.
            folder: of this store, within their prefix.
            clock: of the process.
        """
        self._db = database
        self._objects = objects
        self._folder = folder
        self._clock = clock
        self._table = ObjectsTable(database)
        self.pending = PendingBodies(database, self._table, objects, clock)
        self._sweeper = Sweeper(self._table, objects, folder, clock)
        self._log = structlog.get_logger("bodies")
        self._is_claimed = False
        self._released = 0  # number of the object up to which was looked
        self.moved_bytes = 0
        self.rewritten = 0  # objects, because content was erased
        options = LoopOptions(
            failed="bodies_not_moved", is_vital=False, is_left_at_end=True, clock=clock
        )
        self.loop = Loop("bodies", self.turn, self._log, options)

    def turn(self) -> float:
        """Take one turn; returns the seconds until the next.

        Raises:
            StoreError: the object store or the database refused.
        """
        self.pending.measure()
        if not self._is_claimed:
            claim(self._db, self._objects, self._folder)
            self._table.give_up()  # what a mover before has not finished
            self._is_claimed = True
        has_moved = self._move()
        has_deleted = self._rewrite() | self._delete()
        self._sweeper.turn()
        self.pending.note_success()
        return 0.0 if has_moved or has_deleted else _EVERY_S

    @property
    def pending_bytes(self) -> int:
        """Bytes of bodies that are in the database."""
        return self.pending.size_bytes

    @property
    def most_pending_bytes(self) -> int | None:
        """Bytes beyond which new records are refused; None: no limit."""
        return self._objects.options.max_pending_bytes

    @property
    def objects(self) -> int:
        """Number of objects."""
        return self.pending.objects

    @property
    def object_bytes(self) -> int:
        """Bytes of the objects."""
        return self.pending.stored_bytes

    @property
    def stalled_s(self) -> float:
        """Seconds since everything that was due could be moved and deleted."""
        return self.pending.stalled_s

    def requests(self) -> Mapping[tuple[str, ...], float]:
        """Requests to the object store by operation and outcome."""
        return self._objects.counts()

    def close(self) -> None:
        """End after the object under way, and release the connection."""
        if self.loop.stop(_STOP_S):
            self._db.close()

    def _move(self) -> bool:
        """Write the objects that are due; False when there were none."""
        now, hot_s = self._clock.now(), self._objects.options.hot_s
        due = [DueBody(*row) for row in self._db.rows(_DUE, now - hot_s, _MOST_ROWS)]
        has_moved = False
        for group in _objects_of(due, self._objects.options.object_bytes, now - 2.0 * hot_s):
            if self.loop.stopping.is_set():
                return False
            beat()
            self._move_one(group)
            self.pending.measure()
            has_moved = True
        return has_moved

    def _move_one(self, group: Sequence[DueBody]) -> None:
        shard, day = group[0].shard, group[0].day
        rows = self._db.rows(_BODIES, shard, day, [one.first for one in group])
        parts = [(int(first), bytes(body)) for first, body in rows]
        if not parts:
            return  # they were deleted or joined meanwhile
        number = self._write(shard, day, b"".join(body for _, body in parts))
        self.moved_bytes += self._table.fill(number, shard, day, parts)
        self._table.release_one(number)  # where none of the blocks was left as it was

    def _write(self, shard: int, day: int, content: bytes) -> int:
        """Write an object, noted before; its number."""
        date = datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
        key = f"{self._folder}/{date}/{shard}-{secrets.token_hex(12)}"
        number = self._table.begin(shard, key, len(content))
        try:
            self._objects.put(key, content)
        except BaseException:
            self._table.give_up(number)  # it may be there all the same
            raise
        return number

    def _rewrite(self) -> bool:
        """Write objects anew without what was erased; False when there were none."""
        erased = self._table.erased(_MOST_OBJECTS)
        for one in erased:
            beat()
            parts = self._table.parts(one)
            if parts:
                self._rewrite_one(one, parts)
            else:
                self._table.release_one(one.number)
            self.rewritten += 1
        return bool(erased)

    def _rewrite_one(self, one: BodyObject, parts: Sequence[ObjectPart]) -> None:
        seconds = max(60.0, self._objects.options.read_timeout_s)
        try:
            content = self._objects.read(one.key, 0, one.size, seconds)
        except StoreCorruptError as error:  # it is missing, and what was erased with it
            self._db.damage.note("block", f"{parts[0].first} and others", error)
            self._table.lose(one.number)
            return
        kept = b"".join(content[part.start : part.start + part.length] for part in parts)
        number = self._write(one.shard, parts[0].day, kept)
        self._table.refill(one, number, parts)

    def _delete(self) -> bool:
        """Delete objects that nothing refers to; False when there were none."""
        self._released = self._table.release(self._released, _RELEASED)
        gone = []
        try:
            for one in self._table.deletable(_GRACE_S, _MOST_OBJECTS):
                beat()
                self._objects.delete(one.key)
                if one.is_erased and not self._objects.is_gone(one.key):
                    raise StoreBodiesError(
                        f"object {one.key} of {self._objects.place} was deleted because of an"
                        " erasure, and can still be read",
                        hint="See what keeps it: versions, locks or a cache of the object store",
                    )
                gone.append(one.number)
        finally:
            if gone:
                self._table.forget(gone)
        return bool(gone)


def _objects_of(
    due: Sequence[DueBody], object_bytes: int, waited_since: float
) -> Iterator[list[DueBody]]:
    """Bodies by the object to write: neighbours of one shard and day, as many as make it full.

    Args:
        due: bodies.
        object_bytes: of a full object.
        waited_since: unix seconds; what is older waits for no more neighbours.
    """
    ordered = sorted(due, key=lambda one: one[:3])
    for _, neighbours in groupby(ordered, key=lambda one: one[:2]):
        group: list[DueBody] = []
        size = 0
        for one in neighbours:
            group.append(one)
            size += one.length
            if size >= object_bytes:
                yield group
                group, size = [], 0
        if group and min(one.newest for one in group) <= waited_since:
            yield group
