"""Table of the objects that hold bodies; every change is fenced by the lease.

An object is noted before it is written (``uploading``), has blocks from one transaction on
(``stored``), and is noted again before it is deleted (``deleting``). Whatever dies in between,
the next mover finds it here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ragmon.errors import StoreFencedError
from ragmon.stores.postgresql.bodies.places import ADD_MOVED, HEAD_BYTES
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase

_ADD = (
    "INSERT INTO @.body_objects (shard, key, size, state) VALUES (%s, %s, %s, 'uploading')"
    " RETURNING number"
)
_STORED = (
    "UPDATE @.body_objects SET state = 'stored', is_erased = %s"
    " WHERE number = %s AND state = 'uploading'"
)
_FILL = (
    "UPDATE @.blocks AS block SET body = substr(block.body, 1, %s), object = %s,"
    " body_offset = one.start, body_bytes = one.length,"
    " size = size - one.length + octet_length(one.head)"
    " FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::bytea[])"
    " AS one (first, start, length, head) WHERE block.shard = %s AND block.day = %s"
    " AND block.first_sequence = one.first AND block.object IS NULL"
    " AND octet_length(block.body) = one.length AND substr(block.body, 1, %s) = one.head"
    " RETURNING one.length - octet_length(one.head)"
)
_REFILL = (
    "UPDATE @.blocks AS block SET object = %s, body_offset = one.start"
    " FROM unnest(%s::bigint[], %s::int[], %s::bytea[]) AS one (first, start, head)"
    " WHERE block.shard = %s AND block.object = %s AND block.first_sequence = one.first"
    " AND block.body = one.head"
)
_GIVE_UP = (
    "UPDATE @.body_objects SET state = 'deleting', since = now()"
    " WHERE state = 'uploading' AND (%s::bigint IS NULL OR number = %s)"
)
_UNREFERENCED = (
    "UPDATE @.body_objects AS one SET state = 'deleting', since = now()"
    " WHERE state = 'stored' AND (number = ANY(%s::bigint[]) OR number > %s AND number <= %s)"
    " AND NOT EXISTS (SELECT 1 FROM @.blocks AS block WHERE block.object = one.number)"
)
_NUMBERS_BEHIND = (
    "SELECT max(number) FROM (SELECT number FROM @.body_objects WHERE number > %s"
    " ORDER BY number LIMIT %s) AS next"
)
_ERASED = (
    "SELECT number, shard, key, size FROM @.body_objects WHERE is_erased AND state = 'stored'"
    " ORDER BY number LIMIT %s"
)
_DELETABLE = (
    "SELECT number, key, is_erased FROM @.body_objects WHERE state = 'deleting'"
    " AND since <= now() - make_interval(secs => %s) ORDER BY since LIMIT %s"
)
_LOSE = "UPDATE @.body_objects SET is_erased = false WHERE number = %s"
_FORGET = "DELETE FROM @.body_objects WHERE number = ANY(%s::bigint[])"
_PARTS = (
    "SELECT first_sequence, day, body, body_offset, body_bytes FROM @.blocks WHERE object = %s"
    " AND shard = %s ORDER BY body_offset"
)
_KNOWN = "SELECT key FROM @.body_objects WHERE key = ANY(%s::text[])"
_EXTENT = (
    "SELECT count(*), coalesce(sum(size), 0)::bigint FROM @.body_objects WHERE state = 'stored'"
)


class BodyObject(NamedTuple):
    """One object."""

    number: int
    shard: int
    key: str
    size: int


class DeletableObject(NamedTuple):
    """An object that nothing refers to any more."""

    number: int
    key: str
    is_erased: bool  # because of a request to erase: its end has to be proven


class ObjectPart(NamedTuple):
    """The body of one block within an object."""

    first: int
    day: int
    head: bytes
    start: int
    length: int


class ObjectsTable:
    """The objects of a store, for the mover's thread."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Make it.

        Args:
            database: whose transactions are fenced by the lease.
        """
        self._db = database

    def begin(self, shard: int, key: str, size: int) -> int:
        """Note an object that is about to be written; its number."""
        with self._db.transaction() as cursor:
            return int(self._db.execute(cursor, _ADD, shard, key, size).fetchall()[0][0])

    def fill(self, number: int, shard: int, day: int, parts: Sequence[tuple[int, bytes]]) -> int:
        """Have blocks refer to an object that was written; returns how many bytes were moved.

        Args:
            number: of the object.
            shard: of the blocks.
            day: of the blocks.
            parts: first sequence numbers and bodies, as they are in the object.
        """
        heads = [body[:HEAD_BYTES] for _, body in parts]
        starts, at = [], 0
        for _, body in parts:
            starts.append(at)
            at += len(body)
        columns = ([first for first, _ in parts], starts, [len(body) for _, body in parts], heads)
        with self._db.transaction() as cursor:
            rows = self._db.execute(
                cursor, _FILL, HEAD_BYTES, number, *columns, shard, day, HEAD_BYTES
            ).fetchall()
            # A block that was changed meanwhile may have been erased: what the object has of it
            # has to go.
            self._finish(cursor, number, is_erased=len(rows) < len(parts))
            moved = sum(int(size) for (size,) in rows)
            self._db.execute(cursor, ADD_MOVED, shard, moved)
        return moved

    def refill(self, before: BodyObject, number: int, parts: Sequence[ObjectPart]) -> None:
        """Have blocks refer to another object, in which their bodies follow each other.

        Args:
            before: the object that they are in now; it is deleted when no block is left in it.
            number: of the other.
            parts: of the blocks, as they were when it was written.
        """
        starts, at = [], 0
        for part in parts:
            starts.append(at)
            at += part.length
        columns = ([part.first for part in parts], starts, [part.head for part in parts])
        with self._db.transaction() as cursor:
            moved = self._db.execute(cursor, _REFILL, number, *columns, before.shard, before.number)
            self._finish(cursor, number, is_erased=moved.rowcount < len(parts))
            self._db.execute(cursor, _UNREFERENCED, [before.number], 0, 0)

    def give_up(self, number: int | None = None) -> None:
        """Delete what was not finished: one object, or all of them."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _GIVE_UP, number, number)

    def release(self, after: int, most: int) -> int:
        """Mark objects that no block refers to; returns how far it came, 0 at the end.

        Args:
            after: the number to go on behind.
            most: objects to look at.
        """
        last = self._db.number(_NUMBERS_BEHIND, after, most)
        if last:
            with self._db.transaction() as cursor:
                self._db.execute(cursor, _UNREFERENCED, [], after, last)
        return last

    def release_one(self, number: int) -> None:
        """Mark an object if no block refers to it."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _UNREFERENCED, [number], 0, 0)

    def erased(self, most: int) -> list[BodyObject]:
        """Objects that have content which was erased."""
        return [BodyObject(*row) for row in self._db.rows(_ERASED, most)]

    def parts(self, one: BodyObject) -> list[ObjectPart]:
        """The bodies within an object that blocks still refer to, in its order."""
        return [ObjectPart(*row) for row in self._db.rows(_PARTS, one.number, one.shard)]

    def deletable(self, waited_s: float, most: int) -> list[DeletableObject]:
        """Objects that nothing has referred to for a while."""
        return [DeletableObject(*row) for row in self._db.rows(_DELETABLE, waited_s, most)]

    def lose(self, number: int) -> None:
        """Note that an object is missing: nothing of it can be erased any more."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _LOSE, number)

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of objects that were deleted."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _FORGET, list(numbers))

    def unknown(self, keys: Sequence[str]) -> list[str]:
        """Those of the keys that are of no object here."""
        known = {key for (key,) in self._db.rows(_KNOWN, list(keys))}
        return [key for key in keys if key not in known]

    def extent(self) -> tuple[int, int]:
        """Number of objects, and their bytes."""
        objects, size = self._db.rows(_EXTENT)[0]
        return int(objects), int(size)

    def _finish(self, cursor: Cursor, number: int, *, is_erased: bool) -> None:
        if not self._db.execute(cursor, _STORED, is_erased, number).rowcount:
            raise StoreFencedError("another mover has given this object up; it is not used")
