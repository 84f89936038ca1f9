"""Place of the newest commit."""

import sqlite3

import msgspec

from ragmon.records import Position
from ragmon.stores.sealing import unseal

_END = """
SELECT
    (SELECT first_sequence + records FROM blocks ORDER BY first_sequence DESC LIMIT 1),
    (SELECT max(number) FROM restatements),
    (SELECT CAST(value AS BLOB) FROM meta WHERE name = 'position')
"""


def read_end(db: sqlite3.Connection) -> Position:
    """The position after the newest commit, at one moment."""
    sequence, restatement, stored = db.execute(_END).fetchone()
    saved = Position()
    if stored is not None:
        saved = msgspec.json.decode(unseal(stored, "meta", "position"), type=Position)
    return Position(max(sequence or 0, saved.sequence), max(restatement or 0, saved.restatement))
