"""One shard in PostgreSQL: blocks of records, written by whoever has its newest epoch."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ragmon.errors import (
    StoreCorruptError,
    StoreError,
    StoreFencedError,
    StoreFullError,
    StoreInDoubtError,
    StoreUnreachableError,
)
from ragmon.records import Position
from ragmon.stores import Commit, Hashes, Waiting
from ragmon.stores.identity import IdIndex, hash_id, signed, unsigned
from ragmon.stores.packing import read_amendment, read_waiting
from ragmon.stores.postgresql.awaited import PostgresAwaitedAnswers
from ragmon.stores.postgresql.blocks import PostgresBlocks
from ragmon.stores.postgresql.bodies.places import ARE_FULL, IS_FULL
from ragmon.stores.postgresql.committing import CommitStatement
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.erasure import PostgresBlockErasure
from ragmon.stores.postgresql.maintenance import BlockMaintenance
from ragmon.stores.postgresql.quarantine import PostgresQuarantine
from ragmon.stores.postgresql.runs import PostgresRuns
from ragmon.stores.postgresql.schema import ensure_days, is_missing_day
from ragmon.stores.postgresql.spans import PostgresSpans
from ragmon.stores.postgresql.summaries import PostgresSummaries
from ragmon.stores.quarantine import QuarantineBounds
from ragmon.stores.quarantine_sizes import QuarantineChange

_ROW = "SELECT epoch, commits, next_sequence, last_restatement FROM @.shards WHERE shard = %s"
_AMENDMENTS = (
    "SELECT sequence, body FROM @.amendments WHERE shard = %s AND sequence = ANY(%s::bigint[])"
)
_WAITING = (
    "SELECT number, query_hash, kind, body, received FROM @.waiting"
    " WHERE shard = %s AND query_hash = ANY(%s::bigint[]) ORDER BY query_hash, received, number"
)
_COUNT_WAITING = "SELECT query_hash, count(*) FROM @.waiting WHERE shard = %s GROUP BY query_hash"
_EXPIRE_WAITING = "DELETE FROM @.waiting WHERE shard = %s AND received < %s"
_OFFSET = "SELECT source_offset FROM @.sides WHERE shard = %s AND source = %s"


class PostgresShard:
    """See ``Shard`` for what the methods promise."""

    def __init__(
        self,
        database: PostgresDatabase,
        number: int,
        epoch: int,
        seed: int,
        counted: Callable[[], Position],
    ) -> None:
        """Load what is kept in memory.

        Args:
            database: of the writer; its transactions are fenced by the epoch.
            number: of the shard.
            epoch: in which this process owns it.
            seed: of the hashes of ids.
            counted: the position up to which records have been counted, and may go.
        """
        self.number = number
        self.damage = database.damage
        self._db = database
        self._epoch = epoch
        self._seed = seed
        self._table = PostgresBlocks(database, number, is_quick=True)
        self._ids = IdIndex(PostgresRuns(database, number), self._table, self.damage)
        self._awaited = PostgresAwaitedAnswers(database)
        self._summaries = PostgresSummaries(database, number)
        self._erasure = PostgresBlockErasure(database, number)
        self._maintenance = BlockMaintenance(database, number, counted)
        self._quarantine: PostgresQuarantine | None = None
        self._block: tuple[int, list[bytes]] = (0, [])  # the one last opened
        self._waiting: Counter[int] = Counter()  # changes that wait, by hash
        # Sent, with its bytes, and not known to be applied.
        self._doubted: tuple[Commit, int] | None = None
        self._are_bodies_full = False  # too many wait for the object store
        self._count_waiting()
        [(_, self.commits, self.next_sequence, self.last_restatement)] = database.rows(_ROW, number)

    @property
    def position(self) -> Position:
        """The place behind everything that was committed."""
        return Position(self.next_sequence, self.last_restatement)

    @property
    def size_bytes(self) -> int:
        """Bytes of the blocks that live, and of all other tables; see ``BlockMaintenance``."""
        return self._maintenance.size_bytes

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
        """Make it durable, or raise StoreError and change nothing.

        Raises:
            StoreInDoubtError: the server did not say whether it was applied; see ``settle``.
            StoreFencedError: another process owns the shard.
        """
        if self._doubted is not None:
            raise StoreInDoubtError("a commit before is still in doubt")
        if self._are_bodies_full and len(commit.hashes):
            self._check_room()
        statement = self._statement(commit)
        try:
            aside = self._send(statement, commit)
        except StoreUnreachableError:
            self._doubted = commit, statement.size_bytes  # the answer was lost, or the question
            if self.settle():
                return
            aside = self._send_again(statement, commit)
        except StoreError as error:
            if not is_missing_day(error):
                raise
            ensure_days(self._db)
            aside = self._send_again(statement, commit)
        self._apply(commit, aside, statement.size_bytes)

    def settle(self) -> bool:
        """Ask what became of the commit that ended in doubt; True when it was applied.

        Raises:
            StoreInDoubtError: the server still does not answer.
            StoreFencedError: another process owns the shard.
        """
        if self._doubted is None:
            return False
        commit, size_bytes = self._doubted
        try:
            [(epoch, commits, _, _)] = self._db.rows(_ROW, self.number)
        except StoreUnreachableError as error:
            raise StoreInDoubtError(str(error)) from error
        if epoch != self._epoch or commits < self.commits:
            raise self._fenced()
        self._doubted = None
        if commits == self.commits:
            return False
        self._apply(commit, None, size_bytes)
        if commit.quarantined:
            self._quarantine = None  # its numbers were given by the server
        return True

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
        for sequence, body in self._db.rows(_AMENDMENTS, self.number, list(sequences)):
            try:
                with self._db.decoded():
                    bodies[sequence] = read_amendment(body, sequence)
            except StoreCorruptError as error:
                self.damage.note("amendment", sequence, error)
                raise
        return bodies

    def waiting(self, hashes: Iterable[int]) -> list[Waiting]:
        """Feedback and labels that wait for these queries, save those that are damaged."""
        awaited = [signed(each) for each in sorted(self._waiting.keys() & hashes)]
        if not awaited:
            return []
        changes: list[Waiting] = []
        for row, stored_hash, kind, stored, received in self._db.rows(
            _WAITING, self.number, awaited
        ):
            with self.damage.tolerated("waiting", row), self._db.decoded():
                body = read_waiting(stored_hash, kind, stored)
                changes.append(Waiting(unsigned(stored_hash), kind, body, received))
        return changes

    def waiting_count(self) -> int:
        """Number of changes that wait for their query."""
        return self._waiting.total()

    def waiting_hashes(self) -> list[int]:
        """Hashes of the queries that changes wait for."""
        return list(self._waiting)

    def offset(self, source: str) -> bytes | None:
        """The position up to which a followed source was read; None before the first."""
        rows = self._db.rows(_OFFSET, self.number, source)
        return rows[0][0] if rows else None

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete one step's worth of records too old or too many; returns how many.

        What the saved windows have not counted stays, since a restart will have to count it.
        """
        self._block = (0, [])
        deleted = self._maintenance.expire(before, max_bytes)
        if deleted:
            oldest = self._maintenance.oldest()
            self._ids.drop_runs(self.next_sequence if oldest is None else oldest)
        return deleted

    def expire_waiting(self, before: float) -> int:
        """Delete feedback and labels received before and claimed by no query; returns how many."""
        with self._db.transaction() as cursor:
            expired = self._db.execute(cursor, _EXPIRE_WAITING, self.number, before).rowcount
        self._count_waiting()
        return expired

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of small blocks; returns how many, and where to look next."""
        self._block = (0, [])
        return self._maintenance.compact(start, below)

    def index(self) -> None:
        """Write the id index of the newest records to disk when a run of it is due."""
        if self._ids.run_due:
            self._ids.write_run()

    def spans(self) -> PostgresSpans:
        """Spans that wait for the rest of their trace."""
        return PostgresSpans(self._db, self.number)

    def summaries(self) -> PostgresSummaries:
        """Summaries of blocks."""
        return self._summaries

    def awaited(self) -> PostgresAwaitedAnswers:
        """Answers of every shard that wait for the sampled judge."""
        return self._awaited

    def erasure(self) -> PostgresBlockErasure:
        """Erasure of content within blocks; ``let_go`` after each of them."""
        return self._erasure

    def let_go(self) -> None:
        """Let go of what is cached, because records were erased."""
        self._block = (0, [])
        self._summaries.let_go()
        self._count_waiting()

    def quarantine(self, bounds: QuarantineBounds | None = None) -> PostgresQuarantine:
        """Entries that could not be processed; the first call sets their limits."""
        if self._quarantine is None:
            self._quarantine = PostgresQuarantine(
                self._db, self.number, bounds or QuarantineBounds()
            )
        return self._quarantine

    def _statement(self, commit: Commit) -> CommitStatement:
        has_objects = self._db.access.bodies is not None
        statement = CommitStatement(
            self.number, self._epoch, self.commits, asks=IS_FULL if has_objects else ""
        )
        restated = commit.restatement is not None
        statement.move(self.next_sequence + len(commit.hashes), self.last_restatement + restated)
        if len(commit.hashes):
            statement.add_block(self._db, self.next_sequence, commit)
        if commit.restatement is not None:
            statement.add_restatement(self._db, commit.restatement)
        if commit.amendments:
            statement.add_amendments(commit.amendments)
            facts, keys = self._summaries.outdated(commit.amendments)
            statement.drop_summaries("block_facts", facts)
            statement.drop_summaries("block_keys", keys)
        if commit.spans:
            statement.add_spans(self._db, commit.spans)
        statement.add_rest(commit)
        return statement

    def _send(self, statement: CommitStatement, commit: Commit) -> QuarantineChange | None:
        aside = None
        if commit.quarantined:
            with self._db.transaction() as cursor:
                self._db.execute_named(cursor, statement.sql, statement.values)
                self._require(cursor.fetchone())
                aside = self.quarantine().insert(cursor, commit.quarantined)
        else:
            moved = self._db.once(statement.sql, statement.values)[0]
            self._require(moved)
            self._are_bodies_full = bool(moved[1:] and moved[1])
        return aside

    def _check_room(self) -> None:
        """Refuse records while too many bodies wait for the object store."""
        if self._db.rows(ARE_FULL):
            raise StoreFullError(
                "too many bodies wait for the object store of store.bodies",
                hint="Mend what keeps it (see the log for bodies_not_moved), or raise"
                " store.bodies.max_pending_bytes",
            )
        self._are_bodies_full = False

    def _require(self, moved: tuple[int, ...] | None) -> None:
        if not moved or not moved[0]:
            raise self._fenced()

    def _send_again(self, statement: CommitStatement, commit: Commit) -> QuarantineChange | None:
        try:
            return self._send(statement, commit)
        except StoreUnreachableError as error:
            self._doubted = commit, statement.size_bytes
            raise StoreInDoubtError(str(error)) from error

    def _apply(self, commit: Commit, aside: QuarantineChange | None, size_bytes: int) -> None:
        """Remember what is durable."""
        if aside is not None:
            self.quarantine().apply(aside)
        for query_hash in commit.arrived:
            self._waiting.pop(query_hash, None)
        self._waiting.update(waiting.query_hash for waiting in commit.waiting)
        self._summaries.amended(commit.amendments)
        self._ids.add(commit.hashes, self.next_sequence)
        self.commits += 1
        self.next_sequence += len(commit.hashes)
        self.last_restatement += commit.restatement is not None
        self._maintenance.added(size_bytes)

    def _fenced(self) -> StoreFencedError:
        self._db.fenced += 1
        return StoreFencedError(
            f"another ragmon has taken over shard {self.number}, or the database went back to an"
            " older state",
            hint="A start reads what is there; nothing of it was changed",
        )

    def _count_waiting(self) -> None:
        rows = self._db.rows(_COUNT_WAITING, self.number)
        self._waiting = Counter({unsigned(query_hash): count for query_hash, count in rows})
