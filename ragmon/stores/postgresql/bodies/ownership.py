"""The claim of a database on its folder in the bucket.

A copy of a database knows the objects of the original, and would delete them as its own retention
asks. Who writes a folder first leaves its name there, and nobody else writes or deletes in it.
"""

import msgspec
from msgspec import Struct

from ragmon.errors import StoreBodiesError
from ragmon.stores.postgresql.bodies.objects import ObjectBodies
from ragmon.stores.postgresql.database import PostgresDatabase

_NAME = "owner.json"
_DATABASE = (
    "SELECT (SELECT system_identifier::text FROM pg_control_system()),"
    " (SELECT oid::bigint FROM pg_database WHERE datname = current_database())"
)
_OBJECTS = "SELECT count(*) FROM @.body_objects WHERE state = 'stored'"


class FolderOwner(Struct, frozen=True, kw_only=True):
    """A schema of a database."""

    server: str  # system identifier of PostgreSQL, the same on its standbys
    database: int
    schema: str


def claim(database: PostgresDatabase, objects: ObjectBodies, folder: str) -> None:
    """Make a folder this store's, or see that it is.

    Raises:
        StoreBodiesError: another has it, the objects of this store are elsewhere, or the object
            store does not answer.
    """
    [(server, number)] = database.rows(_DATABASE)
    mine = FolderOwner(server=server, database=number, schema=database.schema)
    key = f"{folder}/{_NAME}"
    stored = objects.text(key)
    if stored is None:
        if known := database.number(_OBJECTS):
            raise StoreBodiesError(
                f"{known} objects of this store are not below {objects.place}/{folder}",
                hint="Correct store.bodies.bucket and prefix; to change them, copy all objects of"
                f" the folder to the new place first, {_NAME} too",
            )
        objects.put(key, msgspec.json.encode(mine))
        return
    if _read(stored) != mine:
        raise StoreBodiesError(
            f"{objects.place}/{folder} belongs to another database: {stored.strip()[:200]}",
            hint="Of a copy, set store.bodies.read_only. If this one has taken its place, as after"
            f" a restore or an upgrade of PostgreSQL, delete {key}",
        )


def _read(stored: str) -> FolderOwner | None:
    try:
        return msgspec.json.decode(stored, type=FolderOwner)
    except msgspec.MsgspecError:
        return None
