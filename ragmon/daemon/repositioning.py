"""Setting the stored position of a partition, as its owner does it.

Where workers share the store, the partition is taken from its worker, whose next commit is refused:
it joins its group again and reads on from the new position. In a store of one process that process
has to be stopped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline, open_shards, open_store
from ragmon.daemon.ingest.committer import Committer
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.daemon.partitions import Uncounted, WorkerShard, WorkerShards
from ragmon.plugins import resolve
from ragmon.records import ONLY_SHARD
from ragmon.sources import Submission


def put_position(
    settings: Settings, clock: Clock, partition: int, key: str, stored: bytes
) -> bytes | None:
    """Commit a position for a partition; returns the one before.

    Args:
        settings: of the daemon.
        clock: of the process.
        partition: number of it.
        key: name under which its position is stored.
        stored: the position.

    Raises:
        StoreBusyError: the store is for one process, which runs.
        StoreError: nothing was changed.
    """
    with _owned(settings, clock, partition) as shard:
        before = shard.offset(key)
        shard.commit(Submission("kafka", 0, _unheard, offsets=[(key, stored)]))
        return before


@contextmanager
def _owned(settings: Settings, clock: Clock, partition: int) -> Iterator[WorkerShard]:
    """The shard that a partition goes to."""
    pipeline = build_pipeline(settings)
    if _is_shared(settings):
        shards = WorkerShards(lambda: open_shards(settings), pipeline, settings, clock, _unheard)
        try:
            shards.check()
            yield shards.take(partition)
        finally:
            shards.close()
        return
    store = open_store(settings, waits=False)
    try:
        shard = store.shards[ONLY_SHARD]
        committer = Committer(
            shard,
            pipeline,
            Uncounted(),
            ExemplarStore(),
            most_waiting=settings.limits.waiting,
        )
        yield WorkerShard(shard, committer, shard.offset, clock, _unheard)
    finally:
        store.close()


def _is_shared(settings: Settings) -> bool:
    module, _ = resolve("ragmon.stores", "store", settings.store)
    if not hasattr(module, "open_shards"):
        return False
    shards = open_shards(settings)
    try:
        return shards.is_shared
    finally:
        shards.close()


def _unheard(_: object) -> None:
    """Tell nobody."""
