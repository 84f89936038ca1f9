"""Stored queries by their id, whoever stored them, also where the id was erased."""

import itertools
from collections.abc import Iterator

import numpy as np

from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.identities import stored_id
from ragmon.privacy.erasure import is_erased
from ragmon.stores import Reader


def stored_query(
    engine: Engine, reader: Reader, query_id: str
) -> tuple[bytes, bytes | None] | None:
    """The record of a query with its amendments, or what is left once it was erased.

    None when it is gone, or never was.
    """
    for number in _candidates(engine, query_id):
        row = reader.record(number)
        if row is None:
            continue
        stored = stored_id(row[0])
        if stored == query_id or is_erased(stored):
            return row
    return None


def number_elsewhere(engine: Engine, query_id: str, attempt: int = 0) -> int | None:
    """Number of a record that a worker stored; None: none has the hash of this id.

    Args:
        engine: of the daemon.
        query_id: of the query.
        attempt: number of the hash, as another id may have the first.
    """
    if engine.others is None:
        return None
    query_hash = engine.shard.hash(query_id, attempt)
    return engine.others.find_many(np.array([query_hash], dtype=np.uint64))[0]


def _candidates(engine: Engine, query_id: str) -> Iterator[int]:
    """Numbers of records with a hash of the id: another id may have the first."""
    shard = engine.shard
    for attempt in itertools.count():
        query_hash = shard.hash(query_id, attempt)
        own = engine.thread.ask(lambda: shard.find(query_hash))  # noqa: B023 - asked at once
        other = number_elsewhere(engine, query_id, attempt)
        if own is None and other is None:
            return
        yield from (number for number in (own, other) if number is not None)
