"""The positions up to which windows and detection have counted, each saved with what it counted."""

import msgspec

from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase

WINDOWS = "windows"
DETECTION = "detection"

_READ = "SELECT body FROM @.positions WHERE name = %s"
_PUT = (
    "INSERT INTO @.positions VALUES (%s, %s, %s)"
    " ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, body = excluded.body"
)
_decode = msgspec.msgpack.Decoder(dict[int, Position]).decode


def read_positions(database: PostgresDatabase, name: str) -> Positions:
    """The saved positions, by shard; the beginning where there are none."""
    for (body,) in database.rows(_READ, name):
        with database.decoded():
            return _decode(body)
    return {ONLY_SHARD: Position()}


def save_positions(
    database: PostgresDatabase, cursor: Cursor, name: str, positions: Positions, epoch: int
) -> None:
    """Save positions in the transaction that saves what was counted.

    Args:
        database: of the writer.
        cursor: of the transaction.
        name: of what counted.
        positions: by shard.
        epoch: of the lease, for people who look at the table.
    """
    database.execute(cursor, _PUT, name, epoch, msgspec.msgpack.encode(dict(positions)))
