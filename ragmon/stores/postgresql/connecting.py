"""Connections to PostgreSQL, and its errors as ragmon's, each with what to do about it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import conninfo
from psycopg.rows import TupleRow

from ragmon.errors import (
    SettingsError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
)
from ragmon.stores.postgresql.bodies.objects import ObjectBodies

Link = psycopg.Connection[TupleRow]

_USUAL: dict[str, str | int] = {
    "connect_timeout": 5,  # seconds; libpq waits for ever
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds that what was sent may stay unacknowledged
    "application_name": "ragmon",
    "client_encoding": "UTF8",
}
_FULL = ("53100",)
_BUSY = ("55P03", "40P01", "40001")
_DAMAGED = ("XX001", "XX002")
_LOST = ("57P01", "57P02", "57P03", "25P03")  # shut down, crashed, starting, or idle for too long
_HINTS = {
    "25006": "Point store.dsn at the primary, for example with target_session_attrs=read-write",
    "42501": "GRANT the role of store.dsn CREATE on the database, or USAGE and CREATE on the schema"
    " in store.schema_name",
    "3F000": "Start ragmon again, which makes what is missing, or correct store.schema_name",
    "42P01": "Start ragmon again, which makes what is missing, or correct store.schema_name",
    "53300": "Raise max_connections of the server; ragmon needs about 10",
    "57014": "Raise store.statement_timeout, or see what keeps the server busy",
}
_SECRET = re.compile(r"password\s*=\s*\S+|://[^@\s]{0,256}@", re.IGNORECASE)  # bounded: linear time


class DatabaseAccess(Struct, frozen=True, kw_only=True):
    """The way to a database, and to the bodies that were moved out of it."""

    dsn: Callable[[], str]  # read anew for each connection, since its password may rotate
    statement_timeout_ms: int = 10_000
    prepare: bool = True
    bodies: ObjectBodies | None = None  # None: they stay in the database

    def parameters(self) -> dict[str, Any]:
        """The parameters of a connection.

        Raises:
            SettingsError: it is no connection string. It is not shown, since it holds a password.
        """
        dsn = self.dsn()
        try:
            return {**_USUAL, **conninfo.conninfo_to_dict(dsn)}
        except psycopg.Error:
            hint = "Write postgresql://user:password@host:5432/database"
            raise SettingsError("store.dsn is no connection string of libpq", hint=hint) from None


def connect(access: DatabaseAccess) -> Link:
    """A connection that commits each statement by itself.

    Raises:
        StoreUnreachableError: no server answers, or it refuses the credentials.
    """
    try:
        parameters = access.parameters()
    except SettingsError as error:  # it was replaced meanwhile, and will be again
        raise StoreUnreachableError(f"store: {error}") from None
    limits = f"-c statement_timeout={access.statement_timeout_ms}"
    usual = f"{parameters.get('options') or ''} {limits}".strip()
    try:
        try:
            link = _open({**parameters, "options": usual})
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" not in str(error):
                raise
            link = _open(parameters)  # pgbouncer: the role or the database sets the time-out
    except psycopg.Error as error:
        raise _unreachable(error, parameters) from None
    link.prepare_threshold = 5 if access.prepare else None
    return link


def _open(parameters: dict[str, Any]) -> Link:
    return psycopg.connect(**parameters, autocommit=True)


def _unreachable(error: psycopg.Error, parameters: dict[str, Any]) -> StoreError:
    place = _place(parameters)
    reason = _reason(error)
    if "password" in reason or "authentication" in reason or "pg_hba" in reason:
        hint = (
            "Correct user and password in store.dsn or its file (it is read at each attempt),"
            " or pg_hba.conf of the server"
        )
    elif "does not exist" in reason:
        hint = "Create it, or correct store.dsn"
    elif "certificate" in reason or "SSL" in reason:
        hint = "Correct sslmode, sslrootcert or the host in store.dsn"
    else:
        hint = "Start the server, or correct the address in store.dsn; ragmon tries again"
    return StoreUnreachableError(f"PostgreSQL at {place}: {reason}", hint=hint)


def _place(parameters: dict[str, Any]) -> str:
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"{host}:{parameters.get('port') or 5432}/{parameters.get('dbname') or ''}"


def _reason(error: psycopg.Error) -> str:
    """The first line of an error that says something, without what may be a password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _SECRET.sub("…", lines[0] if lines else type(error).__name__)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of PostgreSQL as ragmon's.

    Raises:
        StoreUnreachableError: the connection was lost; what was sent may have been done.
        StoreFullError: no space left.
        StoreBusyError: somebody else holds a lock.
        StoreCorruptError: the server found its files damaged.
        StoreError: anything else.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> StoreError:
    """An error of PostgreSQL as one of ragmon's."""
    state, reason = error.sqlstate or "", _reason(error)
    if state in _LOST or state.startswith("08") or (not state and _is_lost(error)):
        return StoreUnreachableError(
            f"the connection to PostgreSQL was lost: {reason}",
            hint="ragmon connects again; if it goes on, see the log of the server",
        )
    if state in _FULL:
        hint = "Free space on the volume of the database, or lower retention.records"
        return StoreFullError(f"no space left in PostgreSQL: {reason}", hint=hint)
    if state in _BUSY:
        hint = "Another process holds a lock; ragmon tries again"
        return StoreBusyError(f"PostgreSQL: {reason}", hint=hint)
    if state in _DAMAGED:
        hint = "Restore the database from its backup"
        return StoreCorruptError(f"PostgreSQL found damage: {reason}", hint=hint)
    hint = _HINTS.get(state, "The log of PostgreSQL may say more")
    return StoreError(f"PostgreSQL: {reason}", hint=hint)


def _is_lost(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
