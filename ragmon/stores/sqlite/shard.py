"""The only shard of the embedded store: one SQLite file, written by one thread.

Records of one commit form one compressed block, so a record costs what its bytes cost. The
write-ahead log with synchronous=FULL makes ``commit`` survive kill -9 and power loss.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ragmon.errors import StoreCorruptError
from ragmon.records import ONLY_SHARD, Position
from ragmon.stores import Commit, Hashes, Restatement, Waiting
from ragmon.stores.identity import IdIndex, hash_id, signed, unsigned
from ragmon.stores.packing import BlockSpan, block_row, read_amendment, read_waiting, waiting_row
from ragmon.stores.quarantine import QuarantineBounds
from ragmon.stores.sealing import seal
from ragmon.stores.sqlite import maintenance
from ragmon.stores.sqlite.awaited import SqliteAwaitedAnswers
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.commit_log import CommitLog
from ragmon.stores.sqlite.database import Database, decoded
from ragmon.stores.sqlite.erasure import SqliteBlockErasure
from ragmon.stores.sqlite.quarantine import SqliteQuarantine
from ragmon.stores.sqlite.runs import SqliteRuns
from ragmon.stores.sqlite.spans import SqliteSpans
from ragmon.stores.sqlite.state_store import SqliteStateStore
from ragmon.stores.sqlite.summaries import SqliteSummaries

_END = "SELECT first_sequence + records FROM blocks ORDER BY first_sequence DESC LIMIT 1"
_WAITING = "SELECT rowid, kind, body, received FROM waiting WHERE query_hash = ? ORDER BY received"


class SqliteShard:
    """See ``Shard`` for what the methods promise."""

    def __init__(
        self,
        database: Database,
        table: BlockTable,
        state: SqliteStateStore,
        log: CommitLog,
        seed: int,
    ) -> None:
        """Load what is kept in memory.

        Args:
            database: of the store.
            table: its blocks.
            state: beside it, which says what was counted.
            log: where the number of each commit is entered.
            seed: of the hashes of ids.
        """
        self.number = ONLY_SHARD
        self.damage = database.damage
        self._db = database
        self._table = table
        self._state = state
        self._log = log
        self._seed = seed
        self._ids = IdIndex(SqliteRuns(database), table, self.damage)
        self._awaited = SqliteAwaitedAnswers(database)
        self._summaries = SqliteSummaries(database)
        self._quarantine: SqliteQuarantine | None = None
        self._spans: SqliteSpans | None = None
        self._block: tuple[int, list[bytes]] = (0, [])  # the one last opened
        self._waiting: Counter[int] = Counter()  # changes that wait, by hash
        self._count_waiting()
        # Numbers go on also where the newest records and restatements are already gone.
        self.next_sequence = max(
            database.number(_END),
            meta_number(database, "next_sequence"),
            self._ids.next_sequence,
        )
        self.last_restatement = max(
            database.number("SELECT max(number) FROM restatements"), state.saved.restatement
        )

    @property
    def position(self) -> Position:
        """The place behind everything that was committed."""
        return Position(self.next_sequence, self.last_restatement)

    def hash(self, query_id: str, attempt: int = 0) -> int:
        """64-bit hash of an id; two of 30 million are alike in one store of 40,000."""
        return hash_id(query_id, self._seed + attempt)

    def find_many(self, hashes: Hashes) -> list[int | None]:
        """Sequence numbers of stored records, in the order of their hashes; None: not stored."""
        return self._ids.find_many(hashes)

    def find(self, query_hash: int) -> int | None:
        """Sequence number of a stored record."""
        return self._ids.find(query_hash)

    def commit(self, commit: Commit) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        first, restatement = self.next_sequence, self.last_restatement
        block = self._pack_block(first, commit) if len(commit.hashes) else None
        spans = self.spans() if commit.spans else None
        with self._db.transaction() as db:
            if block:
                db.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", block)
            if commit.restatement is not None:
                restatement += 1
                row = self._pack_restatement(restatement, commit.restatement)
                db.execute("INSERT INTO restatements VALUES (?, ?, ?)", row)
            if commit.amendments:
                amended = [(at, seal(body, "amendments", at)) for at, body in commit.amendments]
                db.executemany("REPLACE INTO amendments VALUES (?, ?)", amended)
                self._summaries.amended(db, commit.amendments)
            if commit.arrived:
                gone = [(signed(each),) for each in commit.arrived]
                db.executemany("DELETE FROM waiting WHERE query_hash = ?", gone)
            if commit.waiting:
                late = [waiting_row(each, signed(each.query_hash)) for each in commit.waiting]
                db.executemany("INSERT INTO waiting VALUES (?, ?, ?, ?)", late)
            if commit.offsets:
                db.executemany("REPLACE INTO offsets VALUES (?, ?)", commit.offsets)
            if spans is not None:
                spans.insert(db, commit.spans)
            self._awaited.write(db, commit)
            aside = self.quarantine().insert(db, commit.quarantined) if commit.quarantined else None
        if aside is not None:
            self.quarantine().apply(aside)
        for query_hash in commit.arrived:
            self._waiting.pop(query_hash, None)
        self._waiting.update(waiting.query_hash for waiting in commit.waiting)
        self._ids.add(commit.hashes, first)
        self.next_sequence = first + len(commit.hashes)
        self.last_restatement = restatement
        self._log.enter(self.next_sequence, restatement)

    def settle(self) -> bool:
        """Nothing: a commit to a file has an end that is known."""
        return False

    def record(self, sequence: int) -> bytes | None:
        """One stored record; None where it is damaged or gone."""
        first, records = self._block
        if not 0 <= sequence - first < len(records):
            block = self._table.holding(sequence)
            if block is None:
                return None
            self._block = first, records = block[0], [bytes(each) for each in block[1]]
        return records[sequence - first]

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any."""
        bodies: dict[int, bytes] = {}
        for sequence in sequences:
            try:
                rows = self._db.rows("SELECT body FROM amendments WHERE sequence = ?", sequence)
                with decoded(self._db.path):
                    bodies.update((sequence, read_amendment(body, sequence)) for (body,) in rows)
            except StoreCorruptError as error:
                self.damage.note("amendment", sequence, error)
                raise
        return bodies

    def waiting(self, hashes: Iterable[int]) -> list[Waiting]:
        """Feedback and labels that wait for these queries, save those that are damaged."""
        changes: list[Waiting] = []
        for query_hash in sorted(self._waiting.keys() & hashes):
            with self.damage.tolerated("index", "waiting"):
                stored_hash = signed(query_hash)
                for row, kind, stored, received in self._db.rows(_WAITING, stored_hash):
                    with self.damage.tolerated("waiting", row), decoded(self._db.path):
                        body = read_waiting(stored_hash, kind, stored)
                        changes.append(Waiting(query_hash, kind, body, received))
        return changes

    def waiting_count(self) -> int:
        """Number of changes that wait for their query."""
        return self._waiting.total()

    def waiting_hashes(self) -> list[int]:
        """Hashes of the queries that changes wait for."""
        return list(self._waiting)

    def offset(self, source: str) -> bytes | None:
        """The position up to which a followed source was read; None before the first."""
        rows = self._db.rows("SELECT position FROM offsets WHERE source = ?", source)
        return rows[0][0] if rows else None

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete one step's worth of records too old or too many; returns how many.

        What the saved windows have not counted stays, since a restart will have to count it.
        """
        self._block = (0, [])
        deleted = maintenance.expire(self._db, before, max_bytes, self._state.counted().sequence)
        if deleted:
            with self.damage.tolerated("index", "blocks"):
                oldest = self._db.rows("SELECT min(first_sequence) FROM blocks")[0][0]
                self._ids.drop_runs(self.next_sequence if oldest is None else oldest)
        return deleted

    def expire_waiting(self, before: float) -> int:
        """Delete feedback and labels received before and claimed by no query; returns how many."""
        with self._db.transaction() as db:
            sql = "DELETE FROM waiting WHERE received < ?"
            expired = db.execute(sql, (before,)).rowcount
        self._count_waiting()
        return expired

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of small blocks; returns how many, and where to look next."""
        self._block = (0, [])
        if (judged := self._state.judged) is not None:
            below = min(below, judged.sequence)
        return maintenance.compact(self._db, start, below)

    def index(self) -> None:
        """Write the id index of the newest records to disk when a run of it is due."""
        if self._ids.run_due:
            self._ids.write_run()

    def spans(self) -> SqliteSpans:
        """Spans that wait for the rest of their trace."""
        if self._spans is None:
            self._spans = SqliteSpans(self._db)
        return self._spans

    def summaries(self) -> SqliteSummaries:
        """Summaries of blocks."""
        return self._summaries

    def awaited(self) -> SqliteAwaitedAnswers:
        """Answers that wait for the sampled judge."""
        return self._awaited

    def erasure(self) -> SqliteBlockErasure:
        """Erasure of content within blocks; ``let_go`` after each of them."""
        return SqliteBlockErasure(self._db)

    def let_go(self) -> None:
        """Let go of what is cached, because records were erased."""
        self._block = (0, [])
        self._summaries.let_go()
        self._count_waiting()

    def quarantine(self, bounds: QuarantineBounds | None = None) -> SqliteQuarantine:
        """Entries that could not be processed; the first call sets their limits."""
        if self._quarantine is None:
            self._quarantine = SqliteQuarantine(self._db, bounds or QuarantineBounds())
        return self._quarantine

    def _count_waiting(self) -> None:
        self._waiting = Counter()
        with self.damage.tolerated("index", "waiting_by_hash"), decoded(self._db.path):
            rows = self._db.rows("SELECT query_hash, count(*) FROM waiting GROUP BY query_hash")
            # SQLite reads text where a page is damaged.
            self._waiting = Counter({unsigned(query_hash): count for query_hash, count in rows})

    def _pack_block(self, first: int, commit: Commit) -> tuple[object, ...]:
        return block_row(
            BlockSpan(first, len(commit.hashes), commit.first_timestamp, commit.last_timestamp),
            commit.hashes.tobytes(),
            self._db.zip(commit.observations),
            self._db.zip(commit.records),
        )

    def _pack_restatement(self, number: int, restatement: Restatement) -> tuple[object, ...]:
        old, new = (self._db.zip(each) for each in restatement)
        return number, seal(old, "old", number), seal(new, "new", number)


def meta_number(database: Database, name: str) -> int:
    """A number that describes the store; 0 without one.

    Raises:
        StoreCorruptError: it was changed.
    """
    stored = database.meta(name)
    with decoded(database.path):
        return int(stored or 0)
