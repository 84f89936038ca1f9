"""One commit as one statement, so that no client can stop in the middle of it.

The first part moves the shard's row, if its epoch and its number of commits are those that the
writer knows; every other part takes its rows only with that one. No row: somebody else owns the
shard, or the commit was applied before.
"""

from collections.abc import Sequence
from typing import Any

from ragmon.stores import Commit, Restatement
from ragmon.stores.identity import signed
from ragmon.stores.packing import BlockSpan, block_row, waiting_row
from ragmon.stores.plain_text import plain
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.inbox import inbox_row
from ragmon.stores.protocols import SpanRow
from ragmon.stores.sealing import seal

_MOVED = (
    "moved AS (UPDATE @.shards SET commits = commits + 1, next_sequence = %(next)s,"
    " last_restatement = %(restatement)s"
    " WHERE shard = %(shard)s AND epoch = %(epoch)s AND commits = %(commits)s RETURNING shard)"
)
_BLOCK = (
    "block AS (INSERT INTO @.blocks SELECT shard, %(first)s::bigint, %(records)s::int,"
    " %(begin)s::float8, %(end)s::float8, %(hashes)b::bytea, %(observations)b::bytea,"
    " %(body)b::bytea, %(size)s::int, floor(extract(epoch FROM now()) / 86400)::int FROM moved)"
)
_RESTATEMENT = (
    "restatement AS (INSERT INTO @.restatements"
    " SELECT shard, %(restatement)s, %(old)b::bytea, %(new)b::bytea FROM moved)"
)
_AMENDMENTS = (
    "amended AS (INSERT INTO @.amendments SELECT shard, sequence, body FROM moved,"
    " unnest(%(amended)s::bigint[], %(amendments)s::bytea[]) AS one (sequence, body)"
    " ON CONFLICT (shard, sequence) DO UPDATE SET body = excluded.body)"
)
_SUMMARIES = (
    "{table} AS (DELETE FROM @.{table} USING moved WHERE {table}.shard = moved.shard"
    " AND first_sequence IN (SELECT (SELECT max(first_sequence) FROM @.{table} AS before"
    " WHERE before.shard = %(shard)s AND before.first_sequence <= one.sequence)"
    " FROM unnest(%({table})s::bigint[]) AS one (sequence)))"
)
_ARRIVED = (
    "arrived AS (DELETE FROM @.waiting USING moved WHERE waiting.shard = moved.shard"
    " AND query_hash = ANY(%(arrived)s::bigint[]))"
)
_WAITING = (
    "waits AS (INSERT INTO @.waiting (shard, query_hash, kind, body, received)"
    " SELECT shard, query_hash, kind, body, received FROM moved, unnest(%(waiting_hashes)s"
    "::bigint[], %(waiting_kinds)s::text[], %(waiting)s::bytea[], %(received)s::float8[])"
    " AS one (query_hash, kind, body, received))"
)
_SPANS = (
    "traces AS (INSERT INTO @.spans (shard, trace_id, spans, has_entry, body)"
    " SELECT shard, trace_id, spans, has_entry, body FROM moved, unnest(%(traces)s::bytea[],"
    " %(span_counts)s::int[], %(entries)s::boolean[], %(span_bodies)s::bytea[])"
    " WITH ORDINALITY AS one (trace_id, spans, has_entry, body, place) ORDER BY place)"
)
_OFFSETS = (
    "offsets AS (INSERT INTO @.sides SELECT shard, source, source_offset FROM moved,"
    " unnest(%(sources)s::text[], %(offsets)s::bytea[]) AS one (source, source_offset)"
    " ON CONFLICT (shard, source) DO UPDATE SET source_offset = excluded.source_offset)"
)
_AWAITED = (
    "drawn AS (INSERT INTO @.awaited SELECT shard, sequence, since FROM moved,"
    " unnest(%(drawn)s::bigint[], %(since)s::float8[]) AS one (sequence, since)"
    " ON CONFLICT DO NOTHING)"
)
_JUDGED = (
    "judged AS (DELETE FROM @.awaited USING moved WHERE awaited.shard = moved.shard"
    " AND sequence = ANY(%(judged)s::bigint[]))"
)
_HANDED = (
    "handed AS (INSERT INTO @.inbox (shard, sequence, kind, body, received)"
    " SELECT one.shard, sequence, kind, body, received FROM moved, unnest(%(handed_shards)s::int[],"
    " %(handed_sequences)s::bigint[], %(handed_kinds)s::text[], %(handed)s::bytea[],"
    " %(handed_at)s::float8[]) WITH ORDINALITY"
    " AS one (shard, sequence, kind, body, received, place) ORDER BY place)"
)
_CLAIMED = (
    "claimed AS (DELETE FROM @.inbox USING moved WHERE inbox.shard = moved.shard"
    " AND number = ANY(%(claimed)s::bigint[]))"
)


class CommitStatement:
    """The statement of one commit, and its values."""

    def __init__(self, shard: int, epoch: int, commits: int, *, asks: str = "") -> None:
        """Begin with the move of the shard's row.

        Args:
            shard: its number.
            epoch: in which this process owns it.
            commits: that were made before this one.
            asks: an expression whose value is wished for with the answer.
        """
        self._asks = f", {asks}" if asks else ""
        self.values: dict[str, Any] = {"shard": shard, "epoch": epoch, "commits": commits}
        self.size_bytes = 0  # of the block
        self._parts = [_MOVED]

    @property
    def sql(self) -> str:
        """The whole statement, which returns how many rows it moved: one, or none."""
        return f"WITH {', '.join(self._parts)} SELECT count(*){self._asks} FROM moved"  # noqa: S608 - parts of ours

    def move(self, next_sequence: int, restatement: int) -> None:
        """The numbers of the shard after the commit."""
        self.values |= {"next": next_sequence, "restatement": restatement}

    def add_block(self, database: PostgresDatabase, first: int, commit: Commit) -> None:
        """The new records."""
        size = len(commit.hashes)
        times = float(commit.first_timestamp), float(commit.last_timestamp)  # as they are read
        span = BlockSpan(first, size, *times)
        observations, body = database.zip(commit.observations), database.zip(commit.records)
        row = block_row(span, commit.hashes.tobytes(), observations, body)
        names = ("first", "records", "begin", "end", "hashes", "observations", "body")
        self.values |= dict(zip(names, row, strict=True))
        self.size_bytes = self.values["size"] = len(observations) + len(body) + 8 * size
        self._parts.append(_BLOCK)

    def add_restatement(self, database: PostgresDatabase, restatement: Restatement) -> None:
        """Observations that changed."""
        number = self.values["restatement"]
        old, new = (database.zip(each) for each in restatement)
        self.values |= {"old": seal(old, "old", number), "new": seal(new, "new", number)}
        self._parts.append(_RESTATEMENT)

    def add_amendments(self, amendments: Sequence[tuple[int, bytes]]) -> None:
        """Changes of queries; the last of one query counts."""
        bodies = {at: seal(body, "amendments", at) for at, body in amendments}
        self.values |= {"amended": [*bodies], "amendments": [*bodies.values()]}
        self._parts.append(_AMENDMENTS)

    def drop_summaries(self, table: str, sequences: Sequence[int]) -> None:
        """Delete the summaries of blocks with these records."""
        if sequences:
            self.values[table] = [*sequences]
            self._parts.append(_SUMMARIES.format(table=table))

    def add_spans(self, database: PostgresDatabase, rows: Sequence[SpanRow]) -> None:
        """Spans of traces, that wait to be mapped."""
        columns = zip(
            *(
                (row.trace_id, row.spans, bool(row.has_entry), database.zip(row.body))
                for row in rows
            ),
            strict=True,
        )
        self._add(_SPANS, ("traces", "span_counts", "entries", "span_bodies"), columns)

    def add_rest(self, commit: Commit) -> None:
        """Everything else that a commit may hold."""
        if commit.arrived:
            self.values["arrived"] = [signed(each) for each in commit.arrived]
            self._parts.append(_ARRIVED)
        if commit.waiting:
            rows = [waiting_row(each, signed(each.query_hash)) for each in commit.waiting]
            names = ("waiting_hashes", "waiting_kinds", "waiting", "received")
            self._add(_WAITING, names, zip(*rows, strict=True))
        if commit.offsets:
            offsets = {plain(source): position for source, position in commit.offsets}
            self._add(_OFFSETS, ("sources", "offsets"), (offsets.keys(), offsets.values()))
        if commit.handed:
            columns = ("handed_shards", "handed_sequences", "handed_kinds", "handed", "handed_at")
            self._add(_HANDED, columns, zip(*map(inbox_row, commit.handed), strict=True))
        if commit.claimed:
            self._add(_CLAIMED, ("claimed",), (commit.claimed,))
        judged = set(commit.judged)
        if drawn := [row for row in commit.awaited if row.sequence not in judged]:
            self._add(_AWAITED, ("drawn", "since"), zip(*drawn, strict=True))
        if judged:
            self._add(_JUDGED, ("judged",), (sorted(judged),))

    def _add(self, part: str, names: Sequence[str], columns: Any) -> None:
        self.values |= {name: [*column] for name, column in zip(names, columns, strict=True)}
        self._parts.append(part)
