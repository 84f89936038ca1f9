"""Tables in PostgreSQL, their format, and the steps from an older format to the next.

A step says which releases can still use the tables after it. One that only adds may be made while a
release before runs, and that release may be started again; any other waits until nobody has the
store.
"""

import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import psycopg

from ragmon.errors import StoreBusyError, StoreError
from ragmon.stores import CHANGING, Migration, MigrationProgress, StoreFormat, no_progress
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase

FORMAT = 4
DAY_S = 86_400

_TABLES = """
CREATE TABLE @.meta (name text PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE @.lease (
    name text PRIMARY KEY, owner text NOT NULL, url text NOT NULL, epoch bigint NOT NULL,
    until timestamptz NOT NULL);
CREATE TABLE @.shards (
    shard int PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0, owner text NOT NULL DEFAULT '',
    commits bigint NOT NULL DEFAULT 0, next_sequence bigint NOT NULL DEFAULT 0,
    last_restatement bigint NOT NULL DEFAULT 0, quarantined bigint NOT NULL DEFAULT 0,
    source_offset bigint, topic_id text, complete_until timestamptz) WITH (fillfactor = 40);
CREATE TABLE @.sides (
    shard int, source text, source_offset bytea NOT NULL, PRIMARY KEY (shard, source));
CREATE TABLE @.blocks (
    shard int NOT NULL, first_sequence bigint NOT NULL, records int NOT NULL,
    first_timestamp float8 NOT NULL, last_timestamp float8 NOT NULL, hashes bytea NOT NULL,
    observations bytea NOT NULL, body bytea NOT NULL, size int NOT NULL, day int NOT NULL,
    PRIMARY KEY (shard, first_sequence, day)) PARTITION BY RANGE (day);
ALTER TABLE @.blocks ALTER hashes SET STORAGE EXTERNAL, ALTER observations SET STORAGE EXTERNAL,
    ALTER body SET STORAGE EXTERNAL;
CREATE INDEX blocks_by_time ON @.blocks (last_timestamp);
CREATE TABLE @.restatements (
    shard int, number bigint, old bytea NOT NULL, new bytea NOT NULL, PRIMARY KEY (shard, number));
CREATE TABLE @.amendments (
    shard int, sequence bigint, body bytea NOT NULL, PRIMARY KEY (shard, sequence));
CREATE TABLE @.waiting (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard int NOT NULL,
    query_hash bigint NOT NULL, kind text NOT NULL, body bytea NOT NULL,
    received float8 NOT NULL);
CREATE INDEX waiting_by_hash ON @.waiting (shard, query_hash);
CREATE TABLE @.runs (
    shard int, run bigint, first_hash bigint, entries bytea NOT NULL,
    PRIMARY KEY (shard, run, first_hash));
ALTER TABLE @.runs ALTER entries SET STORAGE PLAIN;
CREATE TABLE @.awaited (
    shard int, sequence bigint, since float8 NOT NULL, PRIMARY KEY (shard, sequence));
CREATE TABLE @.quarantine (
    shard int, number bigint, stage text NOT NULL, reason text NOT NULL, at float8 NOT NULL,
    name text NOT NULL, error text NOT NULL, body bytea NOT NULL, attempts int NOT NULL,
    PRIMARY KEY (shard, number));
CREATE INDEX quarantine_by_name ON @.quarantine (shard, stage, name);
CREATE TABLE @.spans (
    shard int, number bigint GENERATED ALWAYS AS IDENTITY, trace_id bytea NOT NULL,
    spans int NOT NULL, has_entry boolean NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (shard, number));
ALTER TABLE @.spans ALTER body SET STORAGE EXTERNAL;
CREATE INDEX spans_of_trace ON @.spans (shard, trace_id, spans, has_entry);
CREATE TABLE @.mapping (
    shard int, trace bytea, since float8 NOT NULL, deaths int NOT NULL DEFAULT 0,
    PRIMARY KEY (shard, trace));
CREATE TABLE @.mapped_traces (
    shard int, trace_id bytea, at float8 NOT NULL, closed boolean NOT NULL, parts int NOT NULL,
    spans int NOT NULL, has_entry boolean NOT NULL, queries bytea NOT NULL, size bigint NOT NULL,
    PRIMARY KEY (shard, trace_id));
CREATE INDEX mapped_by_age ON @.mapped_traces (shard, closed, at);
CREATE TABLE @.block_facts (
    shard int, first_sequence bigint, records int NOT NULL, layout bigint NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (shard, first_sequence));
CREATE TABLE @.block_keys (
    shard int, first_sequence bigint, records int NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (shard, first_sequence));
ALTER TABLE @.block_keys ALTER body SET STORAGE EXTERNAL;
CREATE TABLE @.windows (
    tier int, bucket bigint, body bytea NOT NULL, PRIMARY KEY (tier, bucket));
CREATE TABLE @.positions (name text PRIMARY KEY, epoch bigint NOT NULL, body bytea NOT NULL);
CREATE TABLE @.detection (name text PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE @.minutes (tier int, bucket bigint, body bytea NOT NULL, PRIMARY KEY (tier, bucket));
CREATE TABLE @.alert_events (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text UNIQUE, at float8 NOT NULL,
    episode text NOT NULL, change text NOT NULL, body bytea NOT NULL);
CREATE INDEX alert_events_by_episode ON @.alert_events (episode, number);
CREATE INDEX alert_events_by_change ON @.alert_events (change, at);
CREATE TABLE @.incident_notices (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text UNIQUE, at float8 NOT NULL,
    incident text NOT NULL, body bytea NOT NULL);
CREATE INDEX notices_by_incident ON @.incident_notices (incident, number);
CREATE TABLE @.silences (id text PRIMARY KEY, ends_at float8 NOT NULL, body bytea NOT NULL);
CREATE TABLE @.outbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sink text NOT NULL,
    event_id text NOT NULL, incident_id text NOT NULL, at float8 NOT NULL, body bytea NOT NULL,
    attempts int NOT NULL DEFAULT 0, due float8 NOT NULL DEFAULT 0, error text NOT NULL DEFAULT '',
    UNIQUE (sink, event_id));
CREATE INDEX outbox_by_incident ON @.outbox (sink, incident_id, number);
CREATE TABLE @.dead_letters (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sink text NOT NULL,
    event_id text NOT NULL, incident_id text NOT NULL, at float8 NOT NULL, body bytea NOT NULL,
    attempts int NOT NULL, buried_at float8 NOT NULL, reason text NOT NULL);
CREATE INDEX dead_letters_by_age ON @.dead_letters (buried_at);
CREATE TABLE @.baselines (
    name text, version int, kind text NOT NULL, created_at float8 NOT NULL,
    created_by text NOT NULL, provenance text NOT NULL, samples float8 NOT NULL,
    promoted boolean NOT NULL, body bytea NOT NULL, PRIMARY KEY (name, version));
CREATE TABLE @.probes (name text PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE @.remembered (name text PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE @.forgotten (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at float8 NOT NULL,
    subject text NOT NULL, body bytea NOT NULL);
"""
# Bodies that were moved to an object store: a row of ``blocks`` keeps the first bytes.
_BODIES = """
ALTER TABLE @.blocks ADD COLUMN object bigint, ADD COLUMN body_offset int,
    ADD COLUMN body_bytes int;
CREATE INDEX blocks_of_object ON @.blocks (object) WHERE object IS NOT NULL;
CREATE INDEX blocks_to_move ON @.blocks (last_timestamp) WHERE object IS NULL;
CREATE TABLE @.body_objects (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard int NOT NULL,
    key text NOT NULL UNIQUE, size bigint NOT NULL, state text NOT NULL,
    is_erased boolean NOT NULL DEFAULT false, since timestamptz NOT NULL DEFAULT now());
CREATE INDEX body_objects_to_do ON @.body_objects (state) WHERE state <> 'stored';
CREATE INDEX body_objects_erased ON @.body_objects (number) WHERE is_erased;
CREATE TABLE @.bodies_moved (shard int PRIMARY KEY, size bigint NOT NULL);
"""
# Changes of records, for the owners of their shards.
_INBOX = """
CREATE TABLE @.inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard int NOT NULL,
    sequence bigint NOT NULL, kind text NOT NULL, body bytea NOT NULL, received float8 NOT NULL);
CREATE INDEX inbox_by_shard ON @.inbox (shard, number);
"""
# Where each owner of a shard began: see ``takeovers``.
_TAKEOVERS = """
ALTER TABLE @.shards ADD COLUMN takeover bigint;
CREATE TABLE @.takeovers (
    shard int, number bigint, mark bigint NOT NULL, sequence bigint NOT NULL,
    restatement bigint NOT NULL, PRIMARY KEY (shard, number));
"""
_SEED = "INSERT INTO @.meta VALUES ('seed', %s)"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_EXISTS = "SELECT to_regclass(%s) IS NOT NULL"
_FORMATS = (
    "SELECT name, convert_from(value, 'UTF8')::int FROM @.meta"
    " WHERE name IN ('format', 'readable_by')"
)
_READABLE_BY = "SELECT convert_from(value, 'UTF8')::int FROM @.meta WHERE name = 'readable_by'"
_WITH_BODIES = 2  # the first format that has them
_SET = (
    "INSERT INTO @.meta VALUES (%s, convert_to(%s::text, 'UTF8'))"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
# The row stays locked until the tables are changed, so that nobody takes the lease meanwhile.
_RUNNING = "SELECT owner, url FROM @.lease WHERE until > clock_timestamp() FOR UPDATE"


class FormatStep(NamedTuple):
    """The change of the tables to the next format."""

    apply: Callable[[PostgresDatabase, Cursor], None]
    readable_by: int  # the oldest format whose ragmon can use the tables after it


def _add_bodies(database: PostgresDatabase, cursor: Cursor) -> None:
    database.script(cursor, _BODIES)


def _add_inbox(database: PostgresDatabase, cursor: Cursor) -> None:
    database.script(cursor, _INBOX)


def _add_takeovers(database: PostgresDatabase, cursor: Cursor) -> None:
    database.script(cursor, _TAKEOVERS)


MIGRATIONS: Mapping[int, FormatStep] = MappingProxyType(
    {
        1: FormatStep(_add_bodies, readable_by=1),
        2: FormatStep(_add_inbox, readable_by=1),
        3: FormatStep(_add_takeovers, readable_by=1),
    }
)
"""Steps to the next format, by the format before."""


def migrate(
    database: PostgresDatabase, progress: MigrationProgress = no_progress
) -> Migration | None:
    """Make the tables, or bring them up to date; None where they are.

    Whoever comes second waits, and finds it done.

    Raises:
        StoreBusyError: a ragmon that could not use the tables afterwards has the store.
        StoreError: a database that cannot hold it, or a format that this ragmon cannot use.
    """
    _check_server(database)
    stored = read_format(database)
    if stored is not None and stored.version >= FORMAT:
        check_usable(database, stored)
        return None
    with database.transaction() as cursor:
        database.execute(cursor, _LOCK, f"ragmon {database.schema}")
        stored = read_format(database)
        if stored is None:
            _create(database, cursor)
            return None
        check_usable(database, stored)
        if stored.version >= FORMAT:
            return None
        readable_by = max(MIGRATIONS[step].readable_by for step in range(stored.version, FORMAT))
        if readable_by > stored.version:
            _require_nobody(database, cursor, stored.version)
        for step in range(stored.version, FORMAT):
            progress(CHANGING, step - stored.version, FORMAT - stored.version)
            MIGRATIONS[step].apply(database, cursor)
        database.execute(cursor, _SET, "format", FORMAT)
        # What was needed before is needed still: bodies that were moved, for example.
        readable_by = max(readable_by, stored.readable_by)
        database.execute(cursor, _SET, "readable_by", readable_by)
    return Migration(stored.version, FORMAT, None)


def read_format(database: PostgresDatabase) -> StoreFormat | None:
    """The format of the tables; None without any."""
    if not database.rows(_EXISTS, f"{database.quoted}.meta")[0][0]:
        return None
    formats: dict[str, int] = dict(database.rows(_FORMATS))
    if "format" not in formats:
        return None
    stored = formats["format"]
    return StoreFormat(stored, FORMAT, formats.get("readable_by", stored))


def check_usable(database: PostgresDatabase, stored: StoreFormat) -> None:
    """Refuse tables that this ragmon cannot use.

    Raises:
        StoreError: they are too new, or too old.
    """
    if stored.readable_by > FORMAT:
        raise StoreError(
            f"schema {database.schema} has store format {stored.version}, which a newer ragmon"
            f" made; this one reads {min(MIGRATIONS, default=FORMAT)} to {FORMAT}",
            hint="Use the ragmon version that wrote it, or another store.schema_name",
        )
    if not all(step in MIGRATIONS for step in range(stored.version, FORMAT)):
        raise StoreError(
            f"schema {database.schema} has store format {stored.version}, this ragmon reads"
            f" {min(MIGRATIONS, default=FORMAT)} to {FORMAT}",
            hint="Bring it up to date with a ragmon version between, or use another"
            " store.schema_name",
        )


def require_bodies(database: PostgresDatabase) -> None:
    """Have ragmons that know nothing of moved bodies leave these tables alone."""
    with database.transaction() as cursor:
        stored = database.execute(cursor, _READABLE_BY).fetchall()
        if stored and int(stored[0][0]) < _WITH_BODIES:  # none: only this format and newer ones
            database.execute(cursor, _SET, "readable_by", _WITH_BODIES)


def _require_nobody(database: PostgresDatabase, cursor: Cursor, version: int) -> None:
    for owner, addresses in database.execute(cursor, _RUNNING).fetchall():
        raise StoreBusyError(
            f"schema {database.schema} has store format {version} and is in use by a ragmon that"
            f" needs it ({owner}); this one would change it to {FORMAT}",
            hint="Stop that one first: two versions of ragmon cannot share this change",
            addresses=addresses,
        )


def ensure_days(database: PostgresDatabase) -> None:
    """Make the partitions of today and tomorrow, by the clock of the server.

    They are attached, which unlike their creation in place waits for no reader.
    """
    today = database.number("SELECT floor(extract(epoch FROM now()) / 86400)::int")
    for day in (today, today + 1):
        if not database.rows(_EXISTS, f"{database.quoted}.blocks_{day}")[0][0]:
            add_day(database, day)


def add_day(database: PostgresDatabase, day: int) -> None:
    """Make the partition of one day, by its number since 1970."""
    with database.transaction() as cursor:
        database.execute(cursor, _LOCK, f"ragmon {database.schema}")
        if database.rows(_EXISTS, f"{database.quoted}.blocks_{day}")[0][0]:
            return
        bounds = f"FOR VALUES FROM ({day}) TO ({day + 1})"
        check = f"CHECK (day >= {day} AND day < {day + 1})"
        database.script(
            cursor,
            f"CREATE TABLE @.blocks_{day} (LIKE @.blocks INCLUDING ALL);"
            f"ALTER TABLE @.blocks_{day} ADD CONSTRAINT of_day {check};"
            f"ALTER TABLE @.blocks ATTACH PARTITION @.blocks_{day} {bounds}",
        )


def is_missing_day(error: StoreError) -> bool:
    """True where a block has no partition to go to: a new day has begun."""
    return isinstance(error.__cause__, psycopg.errors.CheckViolation)


def _check_server(database: PostgresDatabase) -> None:
    [(encoding, version, read_only)] = database.rows(
        "SELECT current_setting('server_encoding'), current_setting('server_version_num')::int,"
        " current_setting('transaction_read_only')"
    )
    if encoding != "UTF8":
        raise StoreError(
            f"the database has encoding {encoding}, and names may need UTF8",
            hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and name it in store.dsn",
        )
    if version < 130_000:
        raise StoreError(
            f"PostgreSQL {version // 10_000} is too old", hint="Use PostgreSQL 13 or newer"
        )
    if read_only == "on":
        raise StoreError(
            "the database is read-only: a standby, or default_transaction_read_only",
            hint="Point store.dsn at the primary, for example with target_session_attrs=read-write",
        )


def _create(database: PostgresDatabase, cursor: Cursor) -> None:
    if not database.rows("SELECT 1 FROM pg_namespace WHERE nspname = %s", database.schema):
        database.execute(cursor, "CREATE SCHEMA @")
    database.script(cursor, _TABLES)
    database.script(cursor, _BODIES)
    database.script(cursor, _INBOX)
    database.script(cursor, _TAKEOVERS)
    database.execute(cursor, _SEED, str(secrets.randbits(63)).encode())
    database.execute(cursor, "INSERT INTO @.shards (shard) VALUES (0)")
    database.execute(cursor, _SET, "format", FORMAT)
