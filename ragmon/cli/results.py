"""Shapes of what commands print with ``--json``, where the answer of the daemon is not printed.

They are as stable as the HTTP API: members are added, and neither renamed nor removed.
"""

from msgspec import Struct

from ragmon.api_schema import JudgeForecast, JudgeProgress, RejectedRecord
from ragmon.evaluate.compare.gate import Check
from ragmon.report import MeanEstimate


class CopiedStore(Struct, frozen=True, kw_only=True):
    """`ragmon backup FILE`."""

    file: str
    size_bytes: int


class StoreCopied(Struct, frozen=True, kw_only=True):
    """`ragmon copy-store`."""

    tables: dict[str, int]  # rows that were copied and compared, by table


class StoredBackup(Struct, frozen=True, kw_only=True):
    """One backup in its place."""

    name: str
    size_bytes: int  # compressed
    made_at: float  # unix seconds


class MadeBackup(Struct, frozen=True, kw_only=True):
    """`ragmon backup --to`."""

    place: str
    backup: StoredBackup
    store_bytes: int
    queries: int
    deleted: list[str]  # older backups, beyond --keep


class BackupListing(Struct, frozen=True, kw_only=True):
    """`ragmon restore --list`."""

    place: str
    backups: list[StoredBackup]  # the oldest first


class RestoredStore(Struct, frozen=True, kw_only=True):
    """`ragmon restore`."""

    store: str
    backup: StoredBackup
    queries: int
    former_store: str | None  # where the store before is now; null: there was none


class StoreMigration(Struct, frozen=True, kw_only=True):
    """`ragmon migrate`."""

    before: int | None  # format of the store before; null: there was none
    format: int | None  # now; null: there is none yet
    current: int | None  # of this ragmon
    backup: str | None  # copy of the store as it was; null: nothing was changed, or a database


class PartitionState(Struct, frozen=True, kw_only=True):
    """One partition in `ragmon shards list`."""

    partition: int
    source: str  # kind, group and topic
    offset: int | None  # of the next message; null: of the oldest
    stopped: str | None  # gap, went_back, topic_made_anew or another_cluster; null: it is read
    shard: int
    owner: str | None  # process that took it last; null: nobody yet
    epoch: int
    records: int  # that its shard was ever given
    complete_until: float | None  # unix seconds; null: not known


class PartitionPlaced(Struct, frozen=True, kw_only=True):
    """`ragmon shards reset`."""

    partition: int
    source: str
    before: int | None  # offset of the next message until now; null: of the oldest
    offset: int  # now


class SentRecords(Struct, frozen=True, kw_only=True):
    """`ragmon replay` and `ragmon import`."""

    accepted: int
    duplicates: int
    rejected: int
    first_rejected: list[RejectedRecord]
    ignored_fields: dict[str, str | None]  # with the nearest field that there is


class WrittenExport(Struct, frozen=True, kw_only=True):
    """`ragmon export`."""

    file: str
    queries: int
    size_bytes: int


class JudgeRun(Struct, frozen=True, kw_only=True):
    """`ragmon judge`; the last two are null with --dry-run and where nothing is to judge."""

    forecast: JudgeForecast
    progress: JudgeProgress | None
    faithfulness: MeanEstimate | None  # of the window of --since


class AcceptedNotice(Struct, frozen=True, kw_only=True):
    """One notice that a receiver accepted."""

    change: str
    alert: str
    id: str


class NotifyTest(Struct, frozen=True, kw_only=True):
    """`ragmon notify-test`."""

    sink: str
    accepted: list[AcceptedNotice]


class NewToken(Struct, frozen=True, kw_only=True):
    """`ragmon token NAME`: the secret, and the entry of auth.tokens that accepts it."""

    token: str
    entry: dict[str, str | list[str]]


class RotatedToken(Struct, frozen=True, kw_only=True):
    """`ragmon token rotate NAME`."""

    name: str
    token: str


class RetiredTokens(Struct, frozen=True, kw_only=True):
    """`ragmon token retire NAME`."""

    name: str
    ended: int


class WrittenDashboard(Struct, frozen=True, kw_only=True):
    """One dashboard, and what the settings took out of it."""

    file: str
    changes: list[str]


class WrittenDashboards(Struct, frozen=True, kw_only=True):
    """`ragmon dashboards`."""

    dashboards: list[WrittenDashboard]


class GateResult(Struct, frozen=True, kw_only=True):
    """`ragmon gate`."""

    passed: bool
    baseline: str
    current: str
    cases: int
    checks: list[Check]
    notes: list[str]
