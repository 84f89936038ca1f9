"""Findings of the store in the log: what opening it did, and what is damaged."""

from typing import Any

from ragmon.stores.damage import DamagedRow
from ragmon.stores.ports import Store


def log_store(store: Store, log: Any) -> None:
    """Log what was found when the store was opened, and what is found damaged from now on."""
    if migration := store.migration:
        log.warning(
            "store_format_changed",
            before=migration.from_format,
            now=migration.to_format,
            backup=str(migration.backup),
        )
    _log_recovery(store, log)

    def log_row(row: DamagedRow) -> None:
        log.error("store_row_damaged", what=row.what, row=row.name, error=row.error)

    store.damage.listen(log_row)


def _log_recovery(store: Store, log: Any) -> None:
    recovery = store.recovery
    if recovery.commits or recovery.unread_bytes:
        log.info(
            "store_recovered",
            commits=recovery.commits,
            unread_bytes=recovery.unread_bytes,
            meaning="the process before did not end in order; its commits are read back from the"
            " write-ahead log, whose last ones may not have been finished",
        )
    if lost := recovery.lost:
        log.error(
            "store_lost_commits",
            commits=lost.commits,
            queries=lost.queries,
            corrections=lost.corrections,
            remedy="if you restored an older copy by hand, this is what came after it; else the"
            " disk or its write-ahead log is damaged: check the disk, run ragmon verify, and have"
            " senders send again what is missing",
        )
