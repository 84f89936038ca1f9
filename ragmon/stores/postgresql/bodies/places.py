"""Statements that move the bodies of blocks between the database and an object."""

from ragmon.stores import joining

HEAD_BYTES = joining.HEAD_BYTES
"""Bytes of a moved body that its row keeps: its checksum is in them."""

ADD_MOVED = (
    "INSERT INTO @.bodies_moved AS moved VALUES (%s, %s)"
    " ON CONFLICT (shard) DO UPDATE SET size = moved.size + excluded.size"
)
"""Count bytes that left the database, of a shard."""

ARE_FULL = "SELECT 1 FROM @.meta WHERE name = 'bodies_full'"
"""A row while too many bodies wait for the object store."""
IS_FULL = f"EXISTS ({ARE_FULL})"
