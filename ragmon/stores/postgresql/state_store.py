"""The state store in PostgreSQL: windows, detection and notifications, of the lease's holder."""

from collections.abc import Iterable, Iterator, Sequence

from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores import JournalEntry
from ragmon.stores.postgresql.alert_log import PostgresAlertLog
from ragmon.stores.postgresql.baselines import PostgresBaselines
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.erasure import PostgresErasureRequestLog
from ragmon.stores.postgresql.named_values import PostgresProbeRuns, PostgresRemembered
from ragmon.stores.postgresql.outbox import PostgresOutbox
from ragmon.stores.postgresql.positions import WINDOWS, read_positions, save_positions
from ragmon.stores.postgresql.saved_windows import PostgresWindows
from ragmon.stores.postgresql.takeovers import CountedTakeovers
from ragmon.stores.sealing import seal
from ragmon.windows.snapshot import SavedBucket

_PUT_BUCKETS = (
    "INSERT INTO @.windows SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bytea[])"
    " ON CONFLICT (tier, bucket) DO UPDATE SET body = excluded.body"
)
_PUT_TOTALS = (
    "INSERT INTO @.meta VALUES ('totals', %s)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_RESTATED = "DELETE FROM @.restatements WHERE shard = %s AND number <= %s"
_EXPIRE = "DELETE FROM @.windows WHERE tier = %s AND bucket < %s"
_BUCKETS_AT_ONCE = 64


class PostgresStateStore:
    """See ``StateStore`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, epoch: int, takeovers: CountedTakeovers) -> None:
        """Read how far the windows have counted.

        Args:
            database: of the writer; its transactions are fenced by the lease.
            epoch: of the lease.
            takeovers: of the shards of workers, read before.
        """
        self._db = database
        self._epoch = epoch
        self._takeovers = takeovers
        self._windows = PostgresWindows(database)
        self._alerts: PostgresAlertLog | None = None
        self._remembered = PostgresRemembered(database)
        self._saved = read_positions(database, WINDOWS)

    def counted(self) -> Position:
        """The position up to which windows and detectors, if there are any, have both counted."""
        return self._both(self._saved, ONLY_SHARD)

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: positions, totals, and the buckets from old to new."""
        return self._windows.load()

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions."""
        return self._windows.follow(after)

    def save_windows(
        self, buckets: Iterable[SavedBucket], totals: bytes, positions: Positions
    ) -> None:
        """Snapshot of the windows; restatements up to its positions are no longer needed."""
        with self._db.transaction() as cursor:
            for tiers, numbers, bodies in self._packed(buckets):
                self._db.execute(cursor, _PUT_BUCKETS, tiers, numbers, bodies)
            sealed = seal(self._db.zip(totals), "meta", "totals")
            self._db.execute(cursor, _PUT_TOTALS, sealed)
            save_positions(self._db, cursor, WINDOWS, positions, self._epoch)
            self._takeovers.require(self._db, cursor, positions)
            for shard in positions:
                counted = self._both(positions, shard)
                self._db.execute(cursor, _RESTATED, shard, counted.restatement)
        self._saved = positions

    def expire_windows(self, oldest: Sequence[int]) -> None:
        """Delete saved buckets below the ``oldest`` of their tier."""
        with self._db.transaction() as cursor:
            self._db.many(cursor, _EXPIRE, enumerate(oldest))

    def outbox(self) -> PostgresOutbox:
        """Notifications that wait for their receivers."""
        return PostgresOutbox(self._db)

    def alert_log(self) -> PostgresAlertLog:
        """Detectors, alerts and silences."""
        if self._alerts is None:
            self._alerts = PostgresAlertLog(self._db, self._epoch, self._takeovers)
        return self._alerts

    def baselines(self) -> PostgresBaselines:
        """Saved baselines."""
        return PostgresBaselines(self._db)

    def probe_runs(self) -> PostgresProbeRuns:
        """Results of golden probes."""
        return PostgresProbeRuns(self._db)

    def remembered(self) -> PostgresRemembered:
        """Small values by name."""
        return self._remembered

    def erasure(self) -> PostgresErasureRequestLog:
        """Requests to erase content, and erasure from alerts."""
        return PostgresErasureRequestLog(self._db)

    def _both(self, saved: Positions, shard: int) -> Position:
        windows = saved.get(shard, Position())
        if self._alerts is None:
            return windows
        judged = self._alerts.counted.get(shard, Position())
        return Position(
            min(windows.sequence, judged.sequence), min(windows.restatement, judged.restatement)
        )

    def _packed(
        self, buckets: Iterable[SavedBucket]
    ) -> Iterator[tuple[list[int], list[int], list[bytes]]]:
        """Columns of some buckets at a time: all of them may be a hundred megabytes."""
        tiers: list[int] = []
        numbers: list[int] = []
        bodies: list[bytes] = []
        for tier, bucket, body in buckets:
            tiers.append(tier)
            numbers.append(bucket)
            bodies.append(seal(self._db.zip(body), "windows", tier, bucket))
            if len(tiers) == _BUCKETS_AT_ONCE:
                yield tiers, numbers, bodies
                tiers, numbers, bodies = [], [], []
        if tiers:
            yield tiers, numbers, bodies
