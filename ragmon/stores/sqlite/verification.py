"""Everything in a store read and checked, offline or beside the daemon, in bounded memory."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.errors import StoreCorruptError, StoreError
from ragmon.privacy.erasure import is_erased
from ragmon.records import Position, QueryRecord
from ragmon.stores import Hashes
from ragmon.stores.compression import unzip
from ragmon.stores.identity import ENTRY, hash_id, signed
from ragmon.stores.packing import (
    BlockSpan,
    read_amendment,
    read_bucket,
    read_hashes,
    read_observations,
    read_records,
    read_restatement,
    read_waiting,
)
from ragmon.stores.sealing import is_sealed, unseal
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.columns import checked
from ragmon.stores.sqlite.commit_log import CommitLog, lost_since
from ragmon.stores.sqlite.database import decoded
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.rows import read_end
from ragmon.stores.sqlite.schema import FORMAT
from ragmon.stores.sqlite.store import FILE
from ragmon.stores.sqlite.summaries import TABLES
from ragmon.windows.observations import count
from ragmon.windows.snapshot import saved_queries
from ragmon.windows.tiers import tiers_for

_MOST_FINDINGS = 1_000
_MOST_ATTEMPTS = 8  # hashes that an id may have, one after another
_HASHES_AT_ONCE = 4 << 20
_FROM_BACKUP = "Restore a backup"
_LEFT_OUT = "It is left out of reads and restarts; restore a backup to have it again"
_REMEDIES = {
    "structure": f"{_FROM_BACKUP}: SQLite cannot find its way through the file",
    "meta": f"{_FROM_BACKUP}: ragmon does not start without it",
    "block": "Its queries are left out until they expire; restore a backup to have them again",
    "index": "Start ragmon: it writes a damaged run of the id index anew from the blocks",
    "duplicate": "The query counts twice until it expires; report this",
    "summary": "Searches open its block instead; nothing is lost",
    "lost": "Send these queries again, or restore a backup; check the disk",
    "windows": "That time shows too few queries until it expires; restore a backup if it matters",
}

ProgressListener = Callable[[str, int, int], None]
_record = msgspec.msgpack.Decoder(QueryRecord)


class DamageFinding(Struct, frozen=True):
    """One thing that is wrong."""

    what: str
    row: str
    problem: str
    remedy: str


class Verification(Struct, kw_only=True):
    """The result; a store without findings is sound."""

    store: str
    format: int = 0
    blocks: int = 0
    records: int = 0
    indexed: int = 0
    without_checksum: int = 0  # rows that format 2 wrote
    findings: list[DamageFinding] = []
    more_findings: int = 0  # beyond those listed

    @property
    def sound(self) -> bool:
        """True where nothing is wrong."""
        return not self.findings


def verify(path: Path, progress: ProgressListener = lambda *_stage: None) -> Verification:
    """Check a store; what a daemon commits meanwhile may or may not be looked at.

    Args:
        path: of the database.
        progress: called with the stage, how much of it is done, and of how much.

    Raises:
        StoreError: it cannot be opened, or has a format that this ragmon cannot read.
    """
    with SqliteReader(path) as reader:
        check = _Check(reader, path, progress)
        check.run()
        return check.result


class _Check:
    """One pass over a store."""

    def __init__(self, reader: SqliteReader, path: Path, progress: ProgressListener) -> None:
        self._db = reader.connection
        self._path = path
        self._progress = progress
        self._table = BlockTable(self._db, path, reader.damage)
        self._damage = reader.damage
        self._queries: dict[int, Counter[int]] = {}  # by width of bucket in seconds
        self._spans: list[tuple[int, int]] = []
        self._seed = 0
        self.result = Verification(store=str(path))

    def run(self) -> None:
        """Check everything."""
        self._check_format()
        self._check_structure()
        position = self._check_meta()
        saved = self._check_windows()
        self._check_blocks(position)
        self._check_buckets(saved)
        self._check_index()
        self._check_duplicates()
        self._check_small_tables()
        self._check_commit_log()
        for row in self._damage.rows():  # indexes that could not be walked through
            self._find("structure", f"{row.what} {row.name}", row.error)

    def _check_format(self) -> None:
        with decoded(self._path):
            self.result.format = self._db.execute("PRAGMA user_version").fetchone()[0]
        if self.result.format not in (FORMAT - 1, FORMAT):
            raise StoreError(
                f"{self._path} has store format {self.result.format}, this ragmon reads {FORMAT}",
                hint="Use the ragmon version that wrote it",
            )

    def _check_structure(self) -> None:
        self._progress("structure", 0, 1)
        with self._finding("structure", "file"):
            for (line,) in self._db.execute("PRAGMA integrity_check(100)"):
                if line != "ok":
                    self._find("structure", "file", line)
        self._progress("structure", 1, 1)

    def _check_meta(self) -> Position:
        values: dict[str, bytes] = {}
        for name in ("seed", "position", "next_sequence", "totals"):
            with self._finding("meta", name):
                row = self._db.execute(
                    "SELECT CAST(value AS BLOB) FROM meta WHERE name = ?", (name,)
                ).fetchone()
                if row is not None:
                    values[name] = unseal(row[0], "meta", name)
                    if name == "totals":
                        unzip(values[name])
        with self._finding("meta", "seed"):
            self._seed = int(values["seed"])
        with self._finding("meta", "position"):
            if "position" in values:
                return msgspec.json.decode(values["position"], type=Position)
        return Position()

    def _check_windows(self) -> list[tuple[int, int, float]]:
        """Saved buckets as tier, number and queries."""
        saved = []
        for tier, bucket in self._keys("SELECT tier, bucket FROM windows", "windows"):
            with self._finding("windows", f"{tier}/{bucket}"):
                sql = "SELECT body FROM windows WHERE tier = ? AND bucket = ?"
                for (body,) in self._db.execute(sql, (tier, bucket)):
                    self._count_unsealed(body)
                    saved.append((tier, bucket, saved_queries(read_bucket(body, tier, bucket))))
        return saved

    def _check_blocks(self, position: Position) -> None:
        total = self._number("SELECT count(*) FROM blocks")
        end = 0
        for first in self._table.from_sequence(0):
            with self._finding("block", first):
                span = self._check_block(first, position)
                if span is not None and first < end:
                    raise ValueError(f"it begins before the end of the block before it, {end}")
                end = first if span is None else first + span.records
            self._progress("blocks", self.result.blocks, total)

    def _check_block(self, first: int, position: Position) -> BlockSpan | None:
        row = self._db.execute(
            "SELECT records, first_timestamp, last_timestamp, hashes, observations, body"
            " FROM blocks WHERE first_sequence = ?",
            (first,),
        ).fetchone()
        if row is None:
            return None  # it expired, or was joined to others, meanwhile
        self.result.blocks += 1
        self._count_unsealed(row[5])
        span = BlockSpan(first, *row[:3])
        hashes = read_hashes(row[3], span)
        observed = count(read_observations(row[4], first))
        if observed != span.records:
            raise ValueError(f"it has observations of {observed} records, not {span.records}")
        timestamps = []
        for body, query_hash in zip(
            read_records(row[5], first, span.records), hashes.tolist(), strict=True
        ):
            record = _record.decode(body)
            timestamps.append(record.timestamp)
            if not self._belongs(record.query_id, query_hash):
                raise ValueError(f"the id {record.query_id!r} does not match its hash")
        self.result.records += span.records
        if first < position.sequence:
            self._count_queries(np.array(timestamps), span)
        return span

    def _belongs(self, query_id: str, query_hash: int) -> bool:
        attempts = range(_MOST_ATTEMPTS)
        return is_erased(query_id) or any(
            hash_id(query_id, self._seed + attempt) == query_hash for attempt in attempts
        )

    def _count_queries(self, timestamps: NDArray[np.float64], span: BlockSpan) -> None:
        self._spans.append((span.first, int(span.last_timestamp)))
        for tier in tiers_for(0.0):
            counter = self._queries.setdefault(tier.width_s, Counter())
            numbers, counts = np.unique(timestamps // tier.width_s, return_counts=True)
            counter.update(dict(zip(numbers.astype(int).tolist(), counts.tolist(), strict=True)))

    def _check_buckets(self, saved: list[tuple[int, int, float]]) -> None:
        """No saved bucket holds more queries than the blocks of its time.

        It may hold fewer: what came too late for a narrow bucket is only in the wide ones. Blocks
        expire by their newest record, so that newer buckets than the oldest of these are whole.
        """
        if not self._spans or any(each.what == "block" for each in self.result.findings):
            return
        oldest = min(newest for _, newest in self._spans)
        for tier, bucket, queries in saved:
            width = tiers_for(0.0)[tier].width_s
            stored = self._queries[width][bucket]
            if bucket * width > oldest and queries > stored:
                problem = f"it counts {queries:.0f} queries, the blocks hold {stored} of that time"
                self._find("windows", f"{tier}/{bucket}", problem)

    def _check_index(self) -> None:
        """Every page of every run, and in each run every record of its blocks."""
        runs = [run for (run,) in self._keys("SELECT DISTINCT run FROM runs", "index")]
        begin = 0
        for at, run in enumerate(runs):
            with self._finding("index", f"run {run}"):
                sql = "SELECT first_hash, entries FROM runs WHERE run = ? ORDER BY first_hash"
                pages = []
                for first, page in self._db.execute(sql, (run,)).fetchall():
                    self._count_unsealed(page)
                    entries = np.frombuffer(unseal(page, "runs", run, first), dtype=ENTRY)
                    if not len(entries) or signed(int(entries["hash"][0])) != first:
                        raise ValueError(f"page {first} does not begin with its first hash")
                    pages.append(entries)
                if pages:
                    self._check_run(np.concatenate(pages), begin, run)
            begin = run + 1
            self._progress("id index", at + 1, len(runs))

    def _check_run(self, entries: NDArray[np.void], begin: int, run: int) -> None:
        if (entries["hash"][1:] < entries["hash"][:-1]).any():
            raise ValueError("its entries are not in order")
        self.result.indexed += len(entries)
        for first in self._table.from_sequence(begin):
            if first > run:
                return
            hashes = self._hashes(first)
            if hashes is None:
                continue
            skip = max(0, begin - first)
            mine = hashes[skip : run + 1 - first]
            at = np.minimum(np.searchsorted(entries["hash"], mine), len(entries) - 1)
            expected = np.arange(first + skip, first + skip + len(mine))
            wrong = (entries["hash"][at] != mine) | (entries["sequence"][at] != expected)
            if wrong.any():
                raise ValueError(f"{int(wrong.sum())} ids of block {first} are not in it")

    def _check_duplicates(self) -> None:
        """No hash belongs to two records; in as many passes as the memory allows."""
        passes = 1 + self.result.records // _HASHES_AT_ONCE
        for part in range(passes):
            parts = [np.empty(0, dtype=np.uint64)]
            for first in self._table.from_sequence(0):
                hashes = self._hashes(first)
                if hashes is not None:
                    parts.append(hashes[hashes % np.uint64(passes) == part])
            ordered = np.sort(np.concatenate(parts))
            for query_hash in np.unique(ordered[1:][ordered[1:] == ordered[:-1]]).tolist():
                self._find("duplicate", f"hash {query_hash}", "two records have this hash")
            self._progress("duplicates", part + 1, passes)

    def _hashes(self, first: int) -> Hashes | None:
        """The hashes of a block; None where it is gone, or was found damaged before."""
        try:
            with decoded(self._path):
                row = self._db.execute(
                    "SELECT records, first_timestamp, last_timestamp, hashes FROM blocks"
                    " WHERE first_sequence = ?",
                    (first,),
                ).fetchone()
                return None if row is None else read_hashes(row[3], BlockSpan(first, *row[:3]))
        except StoreCorruptError:
            return None

    def _check_small_tables(self) -> None:
        for (sequence,) in self._keys("SELECT sequence FROM amendments", "amendment"):
            sql = "SELECT body FROM amendments WHERE sequence = ?"
            self._check_row(
                "amendment", sql, sequence, lambda row, key: read_amendment(row[0], key)
            )
        for (number,) in self._keys("SELECT number FROM restatements", "restatement"):
            sql = "SELECT old, new FROM restatements WHERE number = ?"
            self._check_row(
                "restatement", sql, number, lambda row, key: read_restatement(row[0], row[1], key)
            )
        for (number,) in self._keys("SELECT rowid FROM waiting", "waiting"):
            sql = "SELECT query_hash, kind, body FROM waiting WHERE rowid = ?"
            self._check_row("waiting", sql, number, lambda row, _: read_waiting(*row))
        for table in TABLES:
            there = self._number(f"SELECT count(*) FROM sqlite_master WHERE name = '{table}'")  # noqa: S608 - ours
            for (first,) in (
                self._keys(f"SELECT first_sequence FROM {table}", "summary") if there else ()  # noqa: S608
            ):
                sql = f"SELECT body FROM {table} WHERE first_sequence = ?"  # noqa: S608 - ours
                with self._finding("summary", first):
                    for (body,) in self._db.execute(sql, (first,)):
                        unseal(body, table, first)
        for table, column in _ZIPPED:
            there = self._number(f"SELECT count(*) FROM sqlite_master WHERE name = '{table}'")  # noqa: S608 - ours
            for (key,) in self._keys(f"SELECT rowid FROM {table}", table) if there else ():  # noqa: S608
                sql = f"SELECT {column} FROM {table} WHERE rowid = ?"  # noqa: S608 - ours
                with self._finding(table, key):  # the checksum is that of the zstd frame
                    for (body,) in self._db.execute(sql, (key,)):
                        unzip(body)

    def _check_commit_log(self) -> None:
        """All that was acknowledged is there; of a store in its place, since a copy may be old."""
        if self._path.name != FILE:
            return
        entries = CommitLog(self._path.parent, self._seed).entries()  # first: a daemon goes on
        with self._finding("structure", "position"):
            if lost := lost_since(entries, read_end(self._db)):
                problem = (
                    f"{lost.commits:,} acknowledged commits with {lost.queries:,} queries and"
                    f" {lost.corrections:,} corrections are not in it"
                )
                self._find("lost", "commits", problem)

    def _check_row(
        self, what: str, sql: str, key: int, read: Callable[[tuple[Any, ...], int], object]
    ) -> None:
        with self._finding(what, key):
            row = self._db.execute(sql, (key,)).fetchone()
            if row is not None:
                self._count_unsealed(row[-1])
                read(row, key)

    def _keys(self, sql: str, what: str) -> list[tuple[int, ...]]:
        with self._finding(what, "keys"):
            return checked(self._db.execute(sql + " ORDER BY 1"))
        return []

    def _number(self, sql: str) -> int:
        with self._finding("structure", "count"):
            return int(self._db.execute(sql).fetchone()[0])
        return 0

    def _count_unsealed(self, stored: bytes) -> None:
        self.result.without_checksum += not is_sealed(stored)

    @contextmanager
    def _finding(self, what: str, row: object) -> Iterator[None]:
        try:
            with decoded(self._path):
                yield
        except StoreCorruptError as error:
            self._find(what, str(row), str(error.__cause__ or error))

    def _find(self, what: str, row: str, problem: str) -> None:
        if len(self.result.findings) >= _MOST_FINDINGS:
            self.result.more_findings += 1
            return
        remedy = _REMEDIES.get(what, _LEFT_OUT)
        self.result.findings.append(DamageFinding(what, row, problem, remedy))


_ZIPPED = tuple(
    (table, "body")
    for table in ("minutes", "alert_events", "incident_notices", "spans", "baselines")
)
