"""Rows of the small tables, with their checksums.

Format 2 wrote them without; what has none is decoded here, so that damage is found where it is.
"""

import sqlite3

import msgspec

from ragmon.records import Position
from ragmon.stores import Restatement, Waiting, amendments
from ragmon.stores.sqlite.database import unzip
from ragmon.stores.sqlite.sealing import is_sealed, seal, unseal

_END = """
SELECT
    (SELECT first_sequence + records FROM blocks ORDER BY first_sequence DESC LIMIT 1),
    (SELECT max(number) FROM restatements),
    (SELECT CAST(value AS BLOB) FROM meta WHERE name = 'position')
"""


def read_amendment(stored: bytes, sequence: int) -> bytes:
    """The amendments of one record.

    Raises:
        ValueError: they were changed.
        msgspec.MsgspecError: likewise.
    """
    if not is_sealed(stored):
        amendments.decode(stored)
    return unseal(stored, "amendments", sequence)


def waiting_row(waiting: Waiting, stored_hash: int) -> tuple[int, str, bytes, float]:
    """A row to insert.

    Args:
        waiting: the change.
        stored_hash: of its query, as SQLite holds it.
    """
    body = seal(waiting.body, "waiting", stored_hash, waiting.kind)
    return stored_hash, waiting.kind, body, waiting.received


def read_waiting(stored_hash: int, kind: str, stored: bytes) -> bytes:
    """The body of a change that waits.

    Raises:
        ValueError: it was changed.
        msgspec.MsgspecError: likewise.
    """
    if not is_sealed(stored):
        msgspec.msgpack.decode(stored)
    return unseal(stored, "waiting", stored_hash, kind)


def read_bucket(stored: bytes, tier: int, bucket: int) -> bytes:
    """The body of a saved bucket.

    Raises:
        ValueError: it was changed.
        zstandard.ZstdError: likewise.
    """
    return unzip(unseal(stored, "windows", tier, bucket))


def read_restatement(old: bytes, new: bytes, number: int) -> Restatement:
    """Observations as they were and as they are.

    Raises:
        ValueError: they were changed.
        zstandard.ZstdError: likewise.
    """
    return Restatement(unzip(unseal(old, "old", number)), unzip(unseal(new, "new", number)))


def read_end(db: sqlite3.Connection) -> Position:
    """The position after the newest commit, at one moment."""
    sequence, restatement, stored = db.execute(_END).fetchone()
    saved = Position()
    if stored is not None:
        saved = msgspec.json.decode(unseal(stored, "meta", "position"), type=Position)
    return Position(max(sequence or 0, saved.sequence), max(restatement or 0, saved.restatement))
