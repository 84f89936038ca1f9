"""Copies of a whole store into another of any kind, row by row and as they are.

All kinds keep the same sealed bodies under the same keys, so nothing is computed anew: windows,
detectors and alerts go on where they were. Summaries of blocks are left out; the daemon makes them
again. A copy that was stopped goes on behind the last block, as long as its source is the same.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import xxhash
from msgspec import Struct

from ragmon.errors import StoreError
from ragmon.records import Position

Row = tuple[Any, ...]
Kind = type[int] | type[float] | type[str] | type[bytes] | type[bool]

_SUM = (1 << 64) - 1


class StoredTable(NamedTuple):
    """One table as every kind of store has it; its columns in this order, first the key."""

    name: str
    columns: Mapping[str, Kind]
    key: int  # columns of it
    batch: int = 1_000  # rows that are read and written at a time
    is_settled: bool = (
        False  # rows that are there stay as they are, unless they are joined or erased
    )


class StoreNumbers(Struct, frozen=True, kw_only=True):
    """Numbers that describe a store, beside its tables."""

    seed: int  # of the hashes of ids
    next_sequence: int
    last_restatement: int
    last_quarantined: int
    windows: Position  # counted by the saved windows
    totals: bytes | None  # sealed
    detection: Position | None  # counted by the saved detectors; None before their first turn


class CopyMark(Struct, frozen=True, kw_only=True):
    """An unfinished copy, in its target."""

    source: str  # a description for people
    settled: dict[str, tuple[int, int]]  # rows and bytes of the settled tables of the source
    erasures: int  # that were ever asked for in the source


class StoredTables(Protocol):
    """The tables of an opened store, for a copy; on the thread that opened it."""

    def rows(self, table: StoredTable, after: Row | None, limit: int) -> list[Row]:
        """Rows behind a key, in the order of the key."""
        ...

    def last(self, table: StoredTable) -> Row | None:
        """The last key; None where the table is empty."""
        ...

    def extent(self, table: StoredTable) -> tuple[int, int]:
        """Number of rows, and bytes of their bodies."""
        ...

    def write(self, table: StoredTable, rows: list[Row]) -> None:
        """Add rows, all or nothing."""
        ...

    def clear(self, table: StoredTable) -> None:
        """Delete every row."""
        ...

    def numbers(self) -> StoreNumbers:
        """Numbers that describe it."""
        ...

    def finish(self, numbers: StoreNumbers) -> None:
        """Write what describes the store, and take the mark away, all or nothing."""
        ...

    def mark(self) -> CopyMark | None:
        """The copy into this store that was not finished; None without one."""
        ...

    def set_mark(self, mark: CopyMark) -> None:
        """Note a copy that begins."""
        ...


TABLES = (
    StoredTable(
        "blocks",
        {
            "first_sequence": int,
            "records": int,
            "first_timestamp": float,
            "last_timestamp": float,
            "hashes": bytes,
            "observations": bytes,
            "body": bytes,
        },
        key=1,
        batch=16,
        is_settled=True,
    ),
    StoredTable(
        "runs", {"run": int, "first_hash": int, "entries": bytes}, 2, batch=128, is_settled=True
    ),
    StoredTable("amendments", {"sequence": int, "body": bytes}, 1),
    StoredTable("restatements", {"number": int, "old": bytes, "new": bytes}, 1, batch=16),
    StoredTable(
        "waiting",
        {"number": int, "query_hash": int, "kind": str, "body": bytes, "received": float},
        1,
    ),
    StoredTable("sides", {"source": str, "source_offset": bytes}, 1),
    StoredTable("awaited", {"sequence": int, "since": float}, 1),
    StoredTable(
        "quarantine",
        {
            "number": int,
            "stage": str,
            "reason": str,
            "at": float,
            "name": str,
            "error": str,
            "body": bytes,
            "attempts": int,
        },
        1,
        batch=32,
    ),
    StoredTable(
        "spans",
        {"number": int, "trace_id": bytes, "spans": int, "has_entry": bool, "body": bytes},
        1,
        batch=64,
    ),
    StoredTable("mapping", {"trace": bytes, "since": float, "deaths": int}, 1),
    StoredTable(
        "mapped_traces",
        {
            "trace_id": bytes,
            "at": float,
            "closed": bool,
            "parts": int,
            "spans": int,
            "has_entry": bool,
            "queries": bytes,
            "size": int,
        },
        1,
    ),
    StoredTable("windows", {"tier": int, "bucket": int, "body": bytes}, 2, batch=64),
    StoredTable("detection", {"name": str, "body": bytes}, 1, batch=1),
    StoredTable("minutes", {"tier": int, "bucket": int, "body": bytes}, 2, batch=64),
    StoredTable(
        "alert_events",
        {"number": int, "id": str, "at": float, "episode": str, "change": str, "body": bytes},
        1,
    ),
    StoredTable(
        "incident_notices",
        {"number": int, "id": str, "at": float, "incident": str, "body": bytes},
        1,
    ),
    StoredTable("silences", {"id": str, "ends_at": float, "body": bytes}, 1),
    StoredTable(
        "outbox",
        {
            "number": int,
            "sink": str,
            "event_id": str,
            "incident_id": str,
            "at": float,
            "body": bytes,
            "attempts": int,
            "due": float,
            "error": str,
        },
        1,
    ),
    StoredTable(
        "dead_letters",
        {
            "number": int,
            "sink": str,
            "event_id": str,
            "incident_id": str,
            "at": float,
            "body": bytes,
            "attempts": int,
            "buried_at": float,
            "reason": str,
        },
        1,
    ),
    StoredTable(
        "baselines",
        {
            "name": str,
            "version": int,
            "kind": str,
            "created_at": float,
            "created_by": str,
            "provenance": str,
            "samples": float,
            "promoted": bool,
            "body": bytes,
        },
        2,
        batch=16,
    ),
    StoredTable("probes", {"name": str, "body": bytes}, 1, batch=16),
    StoredTable("remembered", {"name": str, "body": bytes}, 1, batch=16),
    StoredTable("forgotten", {"number": int, "at": float, "subject": str, "body": bytes}, 1),
)
"""Every table but those of summaries; the one that says what is erased is the last."""


def check_complete(tables: StoredTables) -> None:
    """Refuse a store into which a copy was not finished.

    Raises:
        StoreError: it was not.
    """
    if (mark := tables.mark()) is not None:
        raise StoreError(
            f"the copy of {mark.source} into this store was not finished",
            hint="Run `ragmon copy-store` again: it goes on where it was",
        )


class StoreCopy:
    """A copy of one store into another."""

    def __init__(
        self,
        source: StoredTables,
        target: StoredTables,
        name: str,
        tell: Callable[[str, int, int], None] = lambda _table, _done, _total: None,
    ) -> None:
        """Make it; ``run`` copies.

        Args:
            source: opened, so that nobody else writes to it.
            target: opened likewise, and empty or begun by a copy before.
            name: of the source, for people.
            tell: called with a table, and how many of its rows are there.
        """
        self._source = source
        self._target = target
        self._name = name
        self._tell = tell

    def run(self) -> dict[str, int]:
        """Copy, compare every row of both, and finish; returns the rows of each table.

        Raises:
            StoreError: the target has content of its own, or the copy is not the same.
        """
        goes_on = self._begin()
        for table in TABLES:
            self._copy(table, goes_on=goes_on and table.is_settled)
        counts = {table.name: self._compare(table) for table in TABLES}
        numbers = self._source.numbers()
        self._target.finish(numbers)
        if self._target.numbers() != numbers:
            raise StoreError("the numbers of the copy are not those of its source")
        return counts

    def _begin(self) -> bool:
        """Note the copy; True where one of the same source was begun before."""
        former = self._target.mark()
        if former is None and any(self._target.extent(table)[0] for table in TABLES):
            raise StoreError(
                "the target of the copy has content already",
                hint="Name an empty directory, another schema with --schema, or drop that one",
            )
        settled = {table.name: self._source.extent(table) for table in TABLES if table.is_settled}
        erasures = self._source.last(TABLES[-1])
        mark = CopyMark(
            source=self._name, settled=settled, erasures=0 if erasures is None else erasures[0]
        )
        self._target.set_mark(mark)
        return former is not None and (former.settled, former.erasures) == (settled, mark.erasures)

    def _copy(self, table: StoredTable, *, goes_on: bool) -> None:
        after = self._target.last(table) if goes_on else None
        if after is None:
            self._target.clear(table)
        total, _ = self._source.extent(table)
        done, _ = self._target.extent(table)
        self._tell(table.name, done, total)
        while rows := self._source.rows(table, after, table.batch):
            self._target.write(table, rows)
            after = rows[-1][: table.key]
            done += len(rows)
            self._tell(table.name, done, total)

    def _compare(self, table: StoredTable) -> int:
        (rows, checksum), copied = (
            _checksum(tables, table) for tables in (self._source, self._target)
        )
        if (rows, checksum) == copied:
            return rows
        self._target.clear(table)  # so that another attempt begins it anew
        raise StoreError(
            f"the copy of table {table.name} differs: {copied[0]} rows of {rows}, or their content",
            hint="Run it again; if it goes on, run `ragmon verify` on the source",
        )


def _checksum(tables: StoredTables, table: StoredTable) -> tuple[int, int]:
    """Number of rows, and a sum over their content that does not depend on their order."""
    count = total = 0
    for row in _all_rows(tables, table):
        count += 1
        total += xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(row))
    return count, total & _SUM


def _all_rows(tables: StoredTables, table: StoredTable) -> Iterator[Row]:
    after: Row | None = None
    while rows := tables.rows(table, after, table.batch):
        yield from rows
        after = rows[-1][: table.key]
