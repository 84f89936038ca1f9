"""Ids of the queries that other processes store: what the evaluator needs to find one of them.

Their owners write an index of ids, as for any shard. Of what it does not hold yet, the hashes are
read when somebody asks, and kept: as many as make a run or two for each shard.
"""

import threading

from ragmon.records import number_of
from ragmon.stores import Hashes, InboxRow, identity
from ragmon.stores.identity import find_in_page, signed, unsigned
from ragmon.stores.postgresql.blocks import PostgresBlocks
from ragmon.stores.postgresql.inbox import PostgresInbox, count_handed, numbers_handed
from ragmon.stores.postgresql.reader import ReaderConnections
from ragmon.stores.recent_hashes import RecentHashes
from ragmon.stores.sealing import unseal

_SHARDS = (
    "SELECT shard, next_sequence, coalesce((SELECT max(run) FROM @.runs"
    " WHERE runs.shard = shards.shard), -1) FROM @.shards WHERE shard <> %s ORDER BY shard"
)
_PROGRESS = (
    "SELECT shard, extract(epoch FROM complete_until)::float8 FROM @.shards WHERE shard <> %s"
)
_MOST_ANSWERS = 100_000
_RUNS = "SELECT DISTINCT run FROM @.runs WHERE shard = %s AND run > %s ORDER BY run"
# The server looks through the pages: most hold none of the hashes.
_PAGES = (
    "SELECT one.hash, name.shard, name.run, page.first_hash, page.entries"
    " FROM unnest(%s::bigint[], %s::bytea[]) AS one (hash, bytes),"
    " unnest(%s::int[], %s::bigint[]) AS name (shard, run), LATERAL (SELECT first_hash, entries"
    " FROM @.runs WHERE runs.shard = name.shard AND runs.run = name.run"
    " AND runs.first_hash <= one.hash ORDER BY first_hash DESC LIMIT 1) AS page"
    " WHERE position(one.bytes in page.entries) > 0"
)


class _OtherShard:
    """Ids of one shard, as far as they are known."""

    def __init__(self, end: int) -> None:
        self.end = end  # sequence number behind what was read
        self.newest = RecentHashes()  # to sequence number
        self.runs: list[int] = []


class PostgresOtherShards:
    """See ``OtherShards`` for what the methods promise."""

    def __init__(self, connections: ReaderConnections, own: int) -> None:
        """Take a connection; nothing is read yet.

        Args:
            connections: of the store.
            own: number of the shard that is not looked at.
        """
        self._connections = connections
        self._own = own
        self._db = connections.take()
        self._shards: dict[int, _OtherShard] = {}
        self._inbox = PostgresInbox(self._db)
        self._lock = threading.Lock()

    def find_many(self, hashes: Hashes, *, newest_only: bool = False) -> list[int | None]:
        """Numbers of stored records, in the order of their hashes; None: not stored there."""
        with self._lock:
            self._refresh()
            numbers = self._find_newest(hashes)
            if not newest_only and None in numbers:
                self._find_in_runs(hashes, numbers)
            return numbers

    def handed(self, kind: str) -> set[int]:
        """Numbers of the records for which changes of a kind wait, until their owner commits."""
        with self._lock:
            return numbers_handed(self._db, kind)

    def answers(self, kind: str) -> list[InboxRow]:
        """Rows of a kind that were handed to the evaluator's own shard."""
        with self._lock:
            rows = self._inbox.rows([self._own], _MOST_ANSWERS).get(self._own, [])
        return [row for row in rows if row.waiting.kind == kind]

    def progress(self) -> dict[int, float | None]:
        """Time until which the log is committed, by shard; None: its owner has not told yet."""
        with self._lock:
            return dict(self._db.rows(_PROGRESS, self._own))

    def handed_count(self) -> int:
        """Number of changes that wait for the owners of shards."""
        with self._lock:
            return count_handed(self._db)

    def close(self) -> None:
        """Give the connection back."""
        self._connections.give_back(self._db)

    def _refresh(self) -> None:
        """Read the hashes of what was committed since the last time."""
        for shard, next_sequence, last_run in self._db.rows(_SHARDS, self._own):
            known = self._shards.get(shard)
            if known is None or next_sequence < known.end:  # the database forgot commits
                known = self._shards[shard] = _OtherShard(last_run + 1)
            if last_run > (known.runs[-1] if known.runs else -1):
                after = known.runs[-1] if known.runs else -1
                known.runs += [run for (run,) in self._db.rows(_RUNS, shard, after)]
                if len(known.newest) > 2 * identity.RUN:
                    known.newest.forget_below(last_run + 1)
            if known.end < next_sequence:
                self._read(known, PostgresBlocks(self._db, shard))

    def _read(self, known: _OtherShard, table: PostgresBlocks) -> None:
        for first in table.from_sequence(known.end):
            hashes = table.hashes(first)
            if hashes is not None:
                skip = max(0, known.end - first)
                known.newest.add(hashes[skip:], first + skip)
                known.end = max(known.end, first + len(hashes))

    def _find_newest(self, hashes: Hashes) -> list[int | None]:
        numbers: list[int | None] = [None] * len(hashes)
        for shard, known in self._shards.items():
            table = PostgresBlocks(self._db, shard)
            for at, sequence in enumerate(known.newest.get_many(hashes)):
                if sequence is not None and table.holds(sequence):
                    numbers[at] = number_of(shard, sequence)
        return numbers

    def _find_in_runs(self, hashes: Hashes, numbers: list[int | None]) -> None:
        names = [(shard, run) for shard, known in self._shards.items() for run in known.runs]
        if not names:
            return
        places: dict[int, list[int]] = {}
        for at, number in enumerate(numbers):
            if number is None:
                places.setdefault(int(hashes[at]), []).append(at)
        packed = [query_hash.to_bytes(8, "little") for query_hash in places]
        shards, runs = map(list, zip(*names, strict=True))
        for stored, shard, run, first, entries in self._db.rows(
            _PAGES, [*map(signed, places)], packed, shards, runs
        ):
            with self._db.damage.tolerated("run", run), self._db.decoded():
                page = unseal(entries, "runs", run, first)
                query_hash = unsigned(stored)
                sequence = find_in_page(page, query_hash)
                if sequence is not None and PostgresBlocks(self._db, shard).holds(sequence):
                    for at in places[query_hash]:
                        numbers[at] = number_of(shard, sequence)
