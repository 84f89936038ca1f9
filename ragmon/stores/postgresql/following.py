"""Reads of what other processes commit, each turn from one moment of the database."""

from collections.abc import Iterator

import structlog

from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores import JournalEntry, ShardProgress
from ragmon.stores.postgresql.lease import PostgresLease
from ragmon.stores.postgresql.reader import ReaderConnections
from ragmon.stores.postgresql.saved_windows import PostgresWindows
from ragmon.stores.postgresql.takeovers import CountedTakeovers, WentBack

_PROGRESS = (
    "SELECT shard, next_sequence, last_restatement,"
    " extract(epoch FROM complete_until)::float8 FROM @.shards WHERE shard <> %s ORDER BY shard"
)


class PostgresFollower:
    """See ``Follower`` for what the methods promise."""

    def __init__(
        self, connections: ReaderConnections, lease: PostgresLease, takeovers: CountedTakeovers
    ) -> None:
        self._connections = connections
        self._lease = lease
        self._takeovers = takeovers
        self._db = connections.take()
        self._windows = PostgresWindows(self._db)
        self._log = structlog.get_logger("following")

    def progress(self) -> dict[int, ShardProgress]:
        """Progress of the owners of the other shards."""
        return {
            shard: ShardProgress(Position(sequence, restatement), until)
            for shard, sequence, restatement, until in self._db.rows(_PROGRESS, ONLY_SHARD)
        }

    def follow(self, after: Positions) -> Iterator[JournalEntry | dict[int, ShardProgress]]:
        """Entries committed after these positions, then the progress of the shards with them."""
        with self._db.moment():
            if went_back := self._takeovers.look(self._db, after):
                self._tell(went_back)
                return
            progress = self.progress()
            for shard, now in progress.items():
                counted = after.get(shard, Position())
                if now.position != counted:
                    yield from self._windows.follow_shard(shard, counted)
            yield progress

    def close(self) -> None:
        """Give the connection back."""
        self._connections.give_back(self._db)

    def _tell(self, went_back: WentBack) -> None:
        self._log.error(
            "store_went_back",
            shard=went_back.shard,
            counted=went_back.counted.sequence,
            kept=went_back.kept.sequence,
            remedy="the database forgot commits, as after a failover to an asynchronous standby;"
            " this process ends, and the next reads what is there",
        )
        self._lease.lose()
