"""Stored queries by their id, also where that was erased."""

import itertools

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
    shard = engine.shard
    for attempt in itertools.count():  # another id may have the first hash
        query_hash = shard.hash(query_id, attempt)
        sequence = engine.thread.ask(lambda: shard.find(query_hash))  # noqa: B023 - asked at once
        row = None if sequence is None else reader.record(sequence)
        if row is None:
            return None
        stored = stored_id(row[0])
        if stored == query_id or is_erased(stored):
            return row
    raise AssertionError("every id has a place")  # pragma: no cover
