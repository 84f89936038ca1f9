"""Outlook of a store: how large it becomes, and when it is full."""

from collections.abc import Sequence

from msgspec import Struct

from ragmon.stores import BlockTimes

_DAY_S = 86_400.0
_LEAST_S = 3_600.0  # of traffic, below which nothing is projected


class StoreOutlook(Struct, frozen=True, kw_only=True):
    """Size of a store now and, where its traffic is known, later; in bytes and unix seconds."""

    size_bytes: int
    limit_bytes: int | None  # None: not known, as of a database server
    records: int
    oldest_at: float | None  # of its queries; None: it has none
    bytes_a_day: float | None = None  # None: there is less than an hour of traffic
    level_bytes: float | None = None  # at which as much is deleted as comes
    days_left: float | None = None  # until the limit; None: it is not reached, or not known


def store_outlook(
    blocks: Sequence[BlockTimes],
    size_bytes: int,
    limit_bytes: int | None,
    *,
    retention_s: float,
    now: float,
) -> StoreOutlook:
    """The outlook, if traffic goes on as in the last day.

    Args:
        blocks: place and times of all that are stored.
        size_bytes: of the store on disk.
        limit_bytes: that it may reach; None: not known.
        retention_s: age at which records are deleted.
        now: unix seconds.
    """
    records = sum(block.records for block in blocks)
    oldest = min((block.first_timestamp for block in blocks), default=None)
    known = StoreOutlook(
        size_bytes=size_bytes, limit_bytes=limit_bytes, records=records, oldest_at=oldest
    )
    if oldest is None or now - oldest < _LEAST_S or not records:
        return known
    length = min(_DAY_S, now - oldest)
    recent = sum(block.records for block in blocks if block.last_timestamp >= now - length)
    bytes_a_day = size_bytes / records * recent * _DAY_S / length
    level = bytes_a_day * retention_s / _DAY_S
    left = None
    if limit_bytes is not None and level > limit_bytes:
        left = max(0.0, limit_bytes - size_bytes) / bytes_a_day
    return StoreOutlook(
        size_bytes=size_bytes,
        limit_bytes=limit_bytes,
        records=records,
        oldest_at=oldest,
        bytes_a_day=bytes_a_day,
        level_bytes=level,
        days_left=left,
    )
