"""Stores to test, each with index and blocks so small that everything in them happens."""

import importlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ragmon.stores import Commit, identity, joining
from ragmon.stores.ports import Store
from ragmon.stores.postgresql import maintenance as postgres_maintenance
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.postgresql.store import PostgresStore
from ragmon.stores.sqlite import maintenance
from ragmon.windows.observations import Observations, pack, unpack
from tests.support.postgres import new_schema, shared_server

encode = msgspec.msgpack.encode
COLUMNS = ("number",)
KINDS = ("sqlite", "postgresql")


def opened(kind: str, directory: Path) -> Store:
    """A store of that kind with its default options."""
    if kind == "postgresql":
        return opened_in_postgres(directory)
    module: Any = importlib.import_module(f"ragmon.stores.{kind}")
    store: Store = module.build(module.Options(), directory)
    return store


def opened_in_postgres(directory: Path, owner: str = "test") -> PostgresStore:
    """The store whose schema is named in a directory; a new one the first time."""
    server = shared_server()
    named = directory / "schema"
    if not named.exists():
        named.write_text(new_schema())
    return open_store(
        DatabaseAccess(dsn=server.url), named.read_text(), ttl_s=600.0, wait_s=0.0, owner=owner
    )


def copied(directory: Path, target: Path) -> Path:
    """The files as kill -9 would leave them: whatever was committed, and nothing tidied up."""
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("*-shm"))
    if (directory / "schema").exists():  # the time of the lease has passed
        schema = (directory / "schema").read_text()
        shared_server().execute(f"UPDATE {schema}.lease SET until = clock_timestamp()")
    return target


@contextmanager
def small_pieces() -> Iterator[None]:
    """Runs of eight ids, filters that are often wrong, blocks of few records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "RUN", 8)
        patch.setattr(identity, "PAGE", 3)
        patch.setattr(identity, "_GENERATION", 24)
        patch.setattr(identity, "_WORDS", 2)
        patch.setattr(maintenance, "_EXPIRE_BLOCKS", 2)
        patch.setattr(postgres_maintenance, "_EXPIRE_BLOCKS", 2)
        patch.setattr(joining, "RECORDS", 8)
        patch.setattr(joining, "MOST_BLOCKS", 3)
        yield


def packed(numbers: Sequence[int], timestamps: Sequence[float]) -> bytes:
    """Observations whose only value is a number each."""
    values = np.array(numbers, dtype=np.float64).reshape(-1, 1)
    index = np.zeros(len(numbers), dtype=np.int32)
    return pack(
        Observations((), [("docs", "")], index, np.array(timestamps, dtype=float), values), COLUMNS
    )


def numbers(observations: bytes) -> list[int]:
    """What ``packed`` was given."""
    return [int(value) for value in unpack(observations, COLUMNS).values[:, 0]]


def commit_of(
    store: Store, ids: Sequence[str], timestamps: Sequence[float], **fields: Any
) -> Commit:
    """New records, each of which is its id."""
    shard = store.shards[0]
    first = shard.next_sequence
    return Commit(
        records=encode(ids),
        hashes=np.array([shard.hash(each) for each in ids], dtype=np.uint64),
        first_timestamp=min(timestamps, default=0.0),
        last_timestamp=max(timestamps, default=0.0),
        observations=packed(range(first, first + len(ids)), timestamps),
        **fields,
    )


def nothing(**fields: Any) -> Commit:
    """A commit without records."""
    return Commit(hashes=np.empty(0, dtype=np.uint64), **fields)
