"""The state store of the embedded store: windows, detection and notifications, in the same file."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores import JournalEntry
from ragmon.stores.sealing import seal
from ragmon.stores.sqlite.alerting import SqliteAlertLog
from ragmon.stores.sqlite.baselines import SqliteBaselines
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.database import Database
from ragmon.stores.sqlite.erasure import SqliteErasureRequestLog
from ragmon.stores.sqlite.outbox import SqliteOutbox
from ragmon.stores.sqlite.probes import SqliteProbeRuns
from ragmon.stores.sqlite.remembered import SqliteRemembered
from ragmon.stores.sqlite.saved_windows import SavedWindows
from ragmon.windows.snapshot import SavedBucket


class SqliteStateStore:
    """See ``StateStore`` for what the methods promise."""

    def __init__(self, database: Database, table: BlockTable) -> None:
        self._db = database
        self._windows = SavedWindows(database.connection, database.path, database.damage, table)
        self._alerts: SqliteAlertLog | None = None
        self._remembered = SqliteRemembered(database)
        self.saved = self._windows.position()  # what the saved windows have counted

    @property
    def judged(self) -> Position | None:
        """The position up to which the saved detectors have counted; None without any."""
        return None if self._alerts is None else self._alerts.counted[ONLY_SHARD]

    def counted(self, windows: Position | None = None) -> Position:
        """The position up to which windows and detectors, if there are any, have both counted."""
        saved, judged = windows or self.saved, self.judged
        if judged is None:
            return saved
        return Position(
            min(saved.sequence, judged.sequence), min(saved.restatement, judged.restatement)
        )

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: positions, totals, and the buckets from old to new.

        Buckets that are damaged are left out, and damaged totals are None.
        """
        return {ONLY_SHARD: self.saved}, self._windows.totals(), self._windows.buckets()

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions.

        Between two of them others may commit: what they add comes too. Damaged rows are left out.
        """
        return self._windows.follow(after)

    def save_windows(
        self, buckets: Iterable[SavedBucket], totals: bytes, positions: Positions
    ) -> None:
        """Snapshot of the windows; restatements up to its positions are no longer needed."""
        position = positions[ONLY_SHARD]
        with self._db.transaction() as db:
            db.executemany(
                "REPLACE INTO windows VALUES (?, ?, ?)",
                (self._pack_bucket(bucket) for bucket in buckets),
            )
            state = {
                "totals": self._db.zip(totals),
                "position": msgspec.json.encode(position),
                # What is behind it is still there: the counted position bounds ``expire``.
                "next_sequence": str(position.sequence).encode(),
            }
            sealed = [(name, seal(value, "meta", name)) for name, value in state.items()]
            db.executemany("REPLACE INTO meta VALUES (?, ?)", sealed)
            counted = self.counted(position)
            db.execute("DELETE FROM restatements WHERE number <= ?", (counted.restatement,))
        self.saved = position

    def expire_windows(self, oldest: Sequence[int]) -> None:
        """Delete saved buckets below the ``oldest`` of their tier."""
        with self._db.transaction() as db:
            db.executemany("DELETE FROM windows WHERE tier = ? AND bucket < ?", enumerate(oldest))
        self._db.empty_log()

    def outbox(self) -> SqliteOutbox:
        """Notifications that wait for their receivers."""
        return SqliteOutbox(self._db)

    def alert_log(self) -> SqliteAlertLog:
        """Detectors, alerts and silences."""
        if self._alerts is None:
            self._alerts = SqliteAlertLog(self._db)
        return self._alerts

    def baselines(self) -> SqliteBaselines:
        """Saved baselines."""
        return SqliteBaselines(self._db)

    def probe_runs(self) -> SqliteProbeRuns:
        """Results of golden probes."""
        return SqliteProbeRuns(self._db)

    def remembered(self) -> SqliteRemembered:
        """Small values by name."""
        return self._remembered

    def erasure(self) -> SqliteErasureRequestLog:
        """Requests to erase content, and erasure from alerts."""
        return SqliteErasureRequestLog(self._db)

    def _pack_bucket(self, saved: SavedBucket) -> tuple[int, int, bytes]:
        tier, bucket, body = saved
        return tier, bucket, seal(self._db.zip(body), "windows", tier, bucket)
