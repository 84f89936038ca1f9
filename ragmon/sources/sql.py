"""Rows of a database, by SQLAlchemy, each once: those beyond the last value of a column that grows.

It needs the extra ``sql`` and the driver of the database. The last value is committed together with
the records, so a crash neither repeats nor skips a row.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import structlog
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.errors import RemoteError, SettingsError, extra_hint
from ragmon.http_client import check_secret, secret
from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.mapping import mapping_of
from ragmon.row_files import line_of
from ragmon.sources import SourceContext
from ragmon.sources.line_intake import IntakeOptions, LineIntake
from ragmon.terminal import one_line

_LONGEST_PAUSE_S = 300.0  # of a database that does not answer
_MOST_REASON = 300
_ALIAS = "new_rows"
_FIRST_ROWS = 16  # asked for at first
_MOST_BYTES = 16 << 20  # about, of the rows of one question; fewer are asked for after more
_MOST_ALIKE = 100_000  # rows with one value of the cursor, which are read together

_SIZED = (str, bytes, bytearray, memoryview)

Row = dict[str, Any]
Cursor = str | int | float | datetime | date | Decimal
_KINDS: dict[str, Any] = {
    "text": str, "int": int, "float": float, "datetime": datetime, "date": date, "decimal": Decimal,
}  # fmt: skip


class Options(BaseModel):
    """``sources: [{kind: sql, name: logs, url_env: …, query: SELECT * FROM logs, cursor: id}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    """Name of the source, under which the last value is kept; another name begins anew."""
    url: SecretStr | None = None
    """URL of the database in SQLAlchemy's form, such as postgresql+psycopg://user:…@host/db. A
    secret: prefer url_file or url_env."""
    url_file: Path | None = None
    """File that holds the URL; it is read again for each new connection."""
    url_env: str | None = None
    """Environment variable that holds the URL."""
    query: Annotated[str, Field(min_length=1, max_length=20_000)]
    """SELECT of the rows, without ORDER BY and LIMIT; ragmon asks for those beyond the last one."""
    cursor: Annotated[str, Field(min_length=1, max_length=200)]
    """Column of the query that grows with every row that is committed, such as an id from a
    sequence. Rows that appear later with a smaller value are not seen, rows without one never."""
    records: Literal["queries", "feedback", "labels"] = "queries"
    """Kind of the records: queries, feedback or labels."""
    mapping: dict[str, str] = {}
    """JMESPath expressions by field of the record, of the columns of a row; none: the columns have
    the names of the fields."""
    poll_s: Annotated[float, Field(gt=0, le=86_400)] = 15.0
    """Seconds between two looks for new rows."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Rows read and committed at a time."""

    @model_validator(mode="after")
    def _can_be(self) -> "Options":
        check_secret(self, "url", required=True)
        mapping_of(self.mapping, self.records)
        return self


def build(options: Options, context: SourceContext) -> "SqlSource":
    """A source that asks one database."""
    return SqlSource(options, context)


class SqlSource(LoopOwner):
    """One thread that asks, submits, and waits until it is durable."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options = options
        self._context = context
        self._name = f"sql:{options.name}"
        self._table = _Query(options)
        log = structlog.get_logger("sql").bind(source=options.name)
        self._read = 0
        self._intake = LineIntake(
            IntakeOptions(
                "sql", options.records, mapping_of(options.mapping, options.records), "row"
            ),
            context,
            log,
            lambda row: f"{self._name}, row {row} since the start",
        )
        self.loop = Loop(
            self._name,
            self._turn,
            log,
            options=LoopOptions(
                failed="cannot_read", first_pause_s=options.poll_s, longest_pause_s=_LONGEST_PAUSE_S
            ),
        )

    def stop(self) -> None:
        """End after the batch under way."""
        self.loop.stop()
        self._table.close()

    def _turn(self) -> float:
        return 0.0 if self.step() else self._options.poll_s

    def step(self) -> bool:
        """Read and deliver one batch; False when there is nothing new.

        Raises:
            RemoteError: the database did not answer, or refused the query.
        """
        stored = self._context.offset(self._name)
        rows = self._table.after(unpack(stored) if stored else None)
        if not rows:
            return False
        first, self._read = self._read + 1, self._read + len(rows)
        position = (self._name, pack(rows[-1][self._options.cursor]))
        lines = ((first + at, line_of(row)) for at, row in enumerate(rows))
        return self._intake.deliver(lines, position, self.loop.stopping)


class _Query:
    """The rows of the query."""

    def __init__(self, options: Options) -> None:
        try:
            import sqlalchemy  # noqa: PLC0415 - optional
        except ImportError:
            raise SettingsError(
                "the source sql needs SQLAlchemy, which is not installed",
                hint=f"{extra_hint('sql')}, and the driver of your database",
            ) from None
        self._sql = sqlalchemy
        self._options = options
        self._limit = min(_FIRST_ROWS, options.batch)
        self._engine: Any = None
        self._url = ""
        try:
            self._connect_to(secret(options, "url"))
        except ImportError as error:
            raise SettingsError(
                f"url: the driver {error.name} is not installed", hint=f"pip install {error.name}"
            ) from None
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise SettingsError(
                f"url: SQLAlchemy knows no such database ({type(error).__name__})",
                hint="Write it as postgresql+psycopg://user@host/db",
            ) from None

    def after(self, last: Cursor | None) -> Sequence[Row]:
        """The next rows, in order; the last of them is the last with its value of the cursor.

        Raises:
            RemoteError: the database did not answer, or refused the query.
        """
        column, limit = self._options.cursor, self._limit
        try:
            beyond = None if last is None else lambda value: value > last
            rows = self._ask(beyond, limit)
            self._adapt(rows)
            if len(rows) < limit:
                return rows
            end = rows[-1][column]  # more of it may come behind the limit
            whole = [row for row in rows if row[column] != end]
            return whole or self._alike(end)
        except self._sql.exc.SQLAlchemyError as error:
            self.close()
            raise self._refusal(error) from None

    def _alike(self, value: Any) -> list[Row]:
        """All rows with one value of the cursor."""
        rows = self._ask(lambda column: column == value, _MOST_ALIKE + 1)
        if len(rows) > _MOST_ALIKE:
            raise RemoteError(
                f"more than {_MOST_ALIKE:,} rows have one value of {self._options.cursor}",
                hint="Choose a cursor that grows with every row",
            )
        return rows

    def _adapt(self, rows: Sequence[Row]) -> None:
        """Ask for more rows next time, or for few after large ones."""
        size = sum(
            len(value) for row in rows for value in row.values() if isinstance(value, _SIZED)
        )
        if size <= _MOST_BYTES:
            self._limit = min(self._options.batch, 2 * self._limit)
        else:
            self._limit = max(1, len(rows) * _MOST_BYTES // size)

    def close(self) -> None:
        """Close the connection."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _ask(self, condition: Callable[[Any], Any] | None, limit: int) -> list[Row]:
        sql, column = self._sql, self._options.cursor
        rows = sql.text(self._options.query).columns(sql.column(column)).alias(_ALIAS)
        statement = sql.select(sql.text("*")).select_from(rows).order_by(rows.c[column])
        statement = statement.where(rows.c[column].is_not(None))
        if condition is not None:
            statement = statement.where(condition(rows.c[column]))
        with self._connected() as connection:
            result = connection.execute(statement.limit(limit))
            listed = [dict(row) for row in result.mappings()]
        if listed and column not in listed[0]:
            names = ", ".join(map(str, listed[0]))
            raise RemoteError(f"the query has no column {column!r}", hint=f"It has {names}")
        return listed

    def _connected(self) -> Any:
        url = secret(self._options, "url")
        if self._engine is None or url != self._url:
            self.close()
            self._connect_to(url)
        return self._engine.connect()

    def _connect_to(self, url: str) -> None:
        """Prepare connections; none is made before the first query."""
        self._engine = self._sql.create_engine(
            url, pool_size=1, max_overflow=0, pool_pre_ping=True, hide_parameters=True
        )
        self._url = url

    def _refusal(self, error: Exception) -> RemoteError:
        reason = one_line(str(getattr(error, "orig", None) or error))
        password = self._sql.make_url(secret(self._options, "url")).password
        if password:
            reason = reason.replace(str(password), "***")
        return RemoteError(
            f"the database refused or did not answer: {reason[:_MOST_REASON]}",
            hint="Check url and query of the source; it is tried again",
        )


def pack(value: Any) -> bytes:
    """A value of the cursor, with its type.

    Raises:
        RemoteError: it is of a type that cannot be compared after a restart.
    """
    for name, kind in _KINDS.items():
        if type(value) is kind:
            text = value.isoformat() if isinstance(value, date) else str(value)
            return msgspec.msgpack.encode((name, text))
    raise RemoteError(
        f"the cursor is a {type(value).__name__}", hint="Choose a column of numbers, texts or times"
    )


def unpack(packed: bytes) -> Cursor:
    """The value that ``pack`` was called with."""
    name, text = msgspec.msgpack.decode(packed, type=tuple[str, str])
    kind = _KINDS[name]
    value: Cursor = kind.fromisoformat(text) if kind in (date, datetime) else kind(text)
    return value
