"""Bodies of blocks as they are stored, wherever they are.

Of a body that was moved the row keeps the first bytes. They hold its checksum, so that an object
is never believed more than the database.
"""

from contextlib import closing
from typing import Any, NamedTuple

from ragmon.errors import StoreBodiesError, StoreCorruptError
from ragmon.stores.postgresql.bodies.objects import BodyPlace, ObjectBodies
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.sealing import unseal

_PLACE = (
    "block.body, object.key, block.body_offset, block.body_bytes FROM @.blocks AS block"
    " LEFT JOIN @.body_objects AS object ON object.number = block.object"
)
_BODY = f"SELECT block.records, {_PLACE} WHERE block.shard = %s AND block.first_sequence = %s"


class StoredBody(NamedTuple):
    """The sealed records of a block."""

    records: int
    body: bytes


def read_body(
    database: PostgresDatabase, shard: int, first: int, *, is_quick: bool = False
) -> StoredBody | None:
    """The body of one block; None where there is no such block.

    Args:
        database: to ask.
        shard: of the block.
        first: its first sequence number.
        is_quick: for the writer's thread, which may not wait for long.

    Raises:
        StoreBodiesError: it is in the object store, which does not give it now.
        StoreCorruptError: the object is missing or damaged.
    """
    row = _row(database, shard, first)
    if row is None:
        return None
    try:
        return _read(database, first, row, is_quick=is_quick)
    except StoreCorruptError:
        now = _row_of_now(database, shard, first)
        if now == row:
            raise
    if now is None or now[1] != row[1]:
        raise StoreBodiesError("these queries were deleted or erased meanwhile; ask again")
    return _read(database, first, now, is_quick=is_quick)  # its object was rewritten


def opened(
    objects: ObjectBodies | None,
    first: int,
    head: bytes,
    place: BodyPlace,
    *,
    is_quick: bool = False,
) -> bytes:
    """A body that was moved.

    Args:
        objects: of the settings.
        first: first sequence number of its block.
        head: its first bytes, as the database has them.
        place: of it.
        is_quick: for the writer's thread.

    Raises:
        StoreBodiesError: the object store does not give it now.
        StoreCorruptError: it is missing, or another than the database knows.
    """
    if objects is None:
        raise StoreBodiesError(
            "the bodies of these queries were moved to an object store",
            hint="Set store.bodies to the bucket that they were moved to",
        )
    if (cached := objects.cache.get(place)) is not None:
        return cached
    body = objects.get(place, is_quick=is_quick)
    try:
        if not body.startswith(head):
            raise ValueError("it begins otherwise than the database says")
        unseal(body, "body", first)
    except ValueError as error:
        objects.note_damage()
        raise StoreCorruptError(
            f"object {place.key} of {objects.place} is not what was written: {error}"
        ) from None
    objects.cache.keep(place, body)
    return body


def _read(database: PostgresDatabase, first: int, row: Any, *, is_quick: bool) -> StoredBody:
    records, body, key, start, length = row
    if key is None:
        return StoredBody(records, body)
    place = BodyPlace(key, start, length)
    objects = database.access.bodies
    return StoredBody(records, opened(objects, first, body, place, is_quick=is_quick))


def _row(database: PostgresDatabase, shard: int, first: int) -> Any:
    rows = database.rows(_BODY, shard, first)
    return rows[0] if rows else None


def _row_of_now(database: PostgresDatabase, shard: int, first: int) -> Any:
    """The row as it is now, also where the connection sees an earlier moment."""
    with closing(PostgresDatabase(database.access, database.schema, database.damage)) as fresh:
        return _row(fresh, shard, first)
