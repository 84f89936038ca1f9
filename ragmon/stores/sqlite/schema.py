"""Tables of the store, its format, and the steps from an older format to the next.

Tables of sub-stores that are not listed here are made by them, when they are first asked for.
"""

import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ragmon.stores.sealing import seal

FORMAT = 3

_SINCE_FORMAT_3 = """
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stage TEXT, reason TEXT, at REAL, name TEXT,
    error TEXT, body BLOB, attempts INTEGER);
CREATE INDEX quarantine_by_name ON quarantine (stage, name);
CREATE TABLE mapping (trace BLOB PRIMARY KEY, since REAL, deaths INTEGER) WITHOUT ROWID;
CREATE TABLE forgotten (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, subject TEXT, body BLOB);
"""
SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE blocks (
    first_sequence INTEGER PRIMARY KEY, records INTEGER, first_timestamp REAL,
    last_timestamp REAL, hashes BLOB, observations BLOB, body BLOB);
CREATE INDEX blocks_by_time ON blocks (last_timestamp);
CREATE TABLE amendments (sequence INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE waiting (query_hash INTEGER, kind TEXT, body BLOB, received REAL);
CREATE INDEX waiting_by_hash ON waiting (query_hash);
CREATE TABLE runs (run INTEGER, first_hash INTEGER, entries BLOB, PRIMARY KEY (run, first_hash))
    WITHOUT ROWID;
CREATE TABLE restatements (number INTEGER PRIMARY KEY, old BLOB, new BLOB);
CREATE TABLE windows (tier INTEGER, bucket INTEGER, body BLOB, PRIMARY KEY (tier, bucket));
CREATE TABLE offsets (source TEXT PRIMARY KEY, position BLOB) WITHOUT ROWID;
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, sink TEXT, event_id TEXT, fingerprint TEXT, at REAL,
    body BLOB, attempts INTEGER DEFAULT 0, due REAL DEFAULT 0, error TEXT DEFAULT '');
CREATE UNIQUE INDEX outbox_by_event ON outbox (sink, event_id);
CREATE INDEX outbox_by_alert ON outbox (sink, fingerprint, number);
CREATE INDEX outbox_by_age ON outbox (at);
CREATE TABLE dead_letters (
    number INTEGER PRIMARY KEY, sink TEXT, event_id TEXT, fingerprint TEXT, at REAL, body BLOB,
    attempts INTEGER, buried_at REAL, reason TEXT);
CREATE INDEX dead_letters_by_age ON dead_letters (buried_at);
{_SINCE_FORMAT_3}"""


def statements(schema: str) -> list[str]:
    """The single statements of a schema."""
    return [each for each in schema.split(";") if each.strip()]


def _to_3(db: sqlite3.Connection) -> None:
    """Add tables for what is set aside, for traces being mapped, and for deleted users.

    What describes the store gets checksums here, everything else when it is written next.
    """
    for statement in statements(_SINCE_FORMAT_3):
        db.execute(statement)
    for name, value in db.execute("SELECT name, CAST(value AS BLOB) FROM meta").fetchall():
        sealed = seal(value, "meta", name)
        db.execute("UPDATE meta SET value = ? WHERE name = ?", (sealed, name))


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType({2: _to_3})
"""Steps to the next format, by the format before; each within a transaction of the caller's."""
