"""The store in PostgreSQL, for replicas without a volume; it needs the extra ``cluster``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.errors import SettingsError, extra_hint
from ragmon.http_client import check_secret, secret
from ragmon.stores import Migration, MigrationProgress, StoreFormat, no_progress
from ragmon.stores.postgresql.bodies import Bodies, DatabaseBodies, S3Bodies, open_bodies

if TYPE_CHECKING:
    from ragmon.stores.postgresql.connecting import DatabaseAccess
    from ragmon.stores.postgresql.reader import PostgresReader
    from ragmon.stores.postgresql.shards import PostgresShards
    from ragmon.stores.postgresql.store import PostgresStore


class Options(BaseModel):
    """``store: {kind: postgresql, dsn_file: /run/secrets/postgres}``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    dsn: SecretStr | None = None
    """Connection string of libpq, such as postgresql://ragmon:…@host:5432/ragmon. A secret: prefer
    dsn_file or dsn_env."""
    dsn_file: Path | None = None
    """File that holds the connection string; it is read again for each new connection."""
    dsn_env: str | None = None
    """Environment variable that holds the connection string."""
    schema_name: Annotated[str, Field(pattern="^[a-z_][a-z0-9_]{0,47}$")] = "ragmon"
    """Schema of the tables; it is made when it is missing and the role may do so."""
    statement_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Seconds after which the server ends a statement. Behind a pgbouncer that refuses the
    parameter `options`, set it for the role instead: ALTER ROLE ragmon SET statement_timeout."""
    prepare: bool = True
    """Prepared statements; false behind a pgbouncer older than 1.21."""
    lease_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    """Seconds after which another replica may take over from one that no longer answers."""
    bodies: Bodies = DatabaseBodies()
    """Place of the texts of queries, answers and chunks, which are nine tenths of what is stored:
    kind: postgresql, or kind: s3 with a bucket. See the guide about scale."""

    @model_validator(mode="after")
    def _can_be(self) -> "Options":
        check_secret(self, "dsn", required=True)
        return self


def build(
    options: Options,
    data_dir: Path,  # noqa: ARG001 - nothing is kept there
    *,
    waits: bool = True,
) -> "PostgresStore":
    """Open it, or create it, for this replica alone.

    Args:
        options: of the settings.
        data_dir: of the daemon.
        waits: for as long as another's lease is valid, since that of a killed process ends.

    Raises:
        SettingsError: psycopg is missing, or the connection string cannot be used.
        StoreBusyError: another replica has it.
        StoreError: it cannot be opened.
    """
    access = _access(options)
    from ragmon.stores.postgresql.opening import open_store  # noqa: PLC0415 - optional

    ttl_s = options.lease_s
    return open_store(
        access, options.schema_name, ttl_s=ttl_s, wait_s=ttl_s + 1.0 if waits else 0.0
    )


def open_shards(options: Options) -> "PostgresShards":
    """Shards of the store for a worker, which takes some of them.

    Raises:
        SettingsError: psycopg is missing, or the connection string cannot be used.
        StoreError: the database cannot be used.
    """
    access = _access(options)
    from ragmon.stores.postgresql.opening import own_name  # noqa: PLC0415 - optional
    from ragmon.stores.postgresql.shards import PostgresShards  # noqa: PLC0415

    return PostgresShards(access, options.schema_name, own_name())


def open_reader(options: Options, data_dir: Path) -> "PostgresReader":
    """A view of the store beside a ragmon that may run.

    Raises:
        SettingsError: psycopg is missing, the connection string cannot be used, or there is no
            store.
        StoreError: it cannot be read, or not by this ragmon.
    """
    access = _access(options)
    from ragmon.stores.damage import Damage  # noqa: PLC0415 - with the rest
    from ragmon.stores.postgresql.reader import PostgresReader, ReaderConnections  # noqa: PLC0415

    if inspect(options, data_dir) is None:
        raise SettingsError(
            f"there is no store in schema {options.schema_name}",
            hint="Set store.dsn and store.schema_name to those of the daemon",
        )
    connections = ReaderConnections(access, options.schema_name, Damage())
    reader = PostgresReader(connections)
    connections.close()  # with this reader, the only one
    return reader


def inspect(options: Options, data_dir: Path) -> StoreFormat | None:  # noqa: ARG001 - as above
    """The format of the store, which is not changed; None where there is none yet.

    Raises:
        SettingsError: psycopg is missing, or the connection string cannot be used.
        StoreError: it cannot be read, or not by this ragmon.
    """
    access = _access(options)
    from ragmon.stores.postgresql.store import inspect as inspected  # noqa: PLC0415 - optional

    return inspected(access, options.schema_name)


def migrate(
    options: Options,
    data_dir: Path,  # noqa: ARG001 - as above
    progress: MigrationProgress = no_progress,
) -> Migration | None:
    """Make the tables, or bring them up to date; None where they are.

    Args:
        options: of the settings.
        data_dir: nothing here.
        progress: called as it goes on.

    Raises:
        SettingsError: psycopg is missing, or the connection string cannot be used.
        StoreBusyError: a ragmon that could not use them afterwards has the store.
        StoreError: the database cannot be used.
    """
    access = _access(options)
    from ragmon.stores.postgresql.store import prepare  # noqa: PLC0415 - optional

    return prepare(access, options.schema_name, progress)


def _access(options: Options) -> "DatabaseAccess":
    try:
        from ragmon.stores.postgresql.connecting import DatabaseAccess  # noqa: PLC0415 - optional
    except ImportError as error:
        if (error.name or "").split(".")[0] != "psycopg":
            raise
        raise SettingsError(
            "store.kind postgresql needs psycopg, which is not installed",
            hint=extra_hint("cluster"),
        ) from None
    bodies = options.bodies
    access = DatabaseAccess(
        bodies=open_bodies(bodies) if isinstance(bodies, S3Bodies) else None,
        dsn=lambda: secret(options, "dsn"),
        statement_timeout_ms=int(options.statement_timeout_s * 1_000),
        prepare=options.prepare,
    )
    access.parameters()  # what cannot be read, or is no connection string, stops the start
    return access
