"""Hashes of the newest records, against a dictionary."""

import random

import numpy as np
import pytest

from ragmon.stores.recent_hashes import RecentHashes


@pytest.mark.parametrize("kinds", [200_000, 1 << 64])
def test_it_answers_as_a_dictionary_does(kinds):
    rng = random.Random(1)
    recent, expected = RecentHashes(), {}
    for first in range(0, 40_000, 800):
        hashes = [rng.randrange(kinds) for _ in range(800)]
        recent.add(np.array(hashes, dtype=np.uint64), first)
        expected.update(zip(hashes, range(first, first + 800), strict=True))
        asked = [rng.choice(hashes), rng.choice(list(expected)), rng.randrange(kinds)]
        assert recent.get_many(np.array(asked, dtype=np.uint64)) == [
            expected.get(query_hash) for query_hash in asked
        ]
    hashes, sequences = recent.entries()
    assert dict(zip(hashes.tolist(), sequences.tolist(), strict=True)) == expected
    assert len(recent) == len(expected)


def test_one_without_any_answers_none():
    recent = RecentHashes()
    assert recent.get_many(np.array([7], dtype=np.uint64)) == [None]
    assert len(recent.entries()[0]) == 0


def test_a_run_of_them_takes_little_memory():
    recent = RecentHashes()
    hashes = np.random.default_rng(1).integers(0, 1 << 63, 131_072, dtype=np.uint64)
    recent.add(hashes, 0)
    assert sum(part.nbytes for part in recent.entries()) == 2 << 20
