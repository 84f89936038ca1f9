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

from ragmon.plugins import kinds
from ragmon.stores import Commit
from ragmon.stores.ports import Store
from ragmon.stores.sqlite import identity, maintenance
from ragmon.windows.observations import Observations, pack, unpack

encode = msgspec.msgpack.encode
COLUMNS = ("number",)
KINDS = kinds("ragmon.stores")


def opened(kind: str, directory: Path) -> Store:
    """A store of that kind with its default options."""
    module: Any = importlib.import_module(f"ragmon.stores.{kind}")
    store: Store = module.build(module.Options(), directory)
    return store


def copied(directory: Path, target: Path) -> Path:
    """The files as kill -9 would leave them: whatever was committed, and nothing tidied up."""
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("*-shm"))
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
        patch.setattr(maintenance, "_COMPACT_RECORDS", 8)
        patch.setattr(maintenance, "_COMPACT_BLOCKS", 3)
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
