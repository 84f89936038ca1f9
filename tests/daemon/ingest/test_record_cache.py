"""What the embedded judge will draw is at hand, and takes no more room than it may."""

import msgspec
import numpy as np
import pytest

from ragmon.daemon.ingest.record_cache import RecordCache, is_drawn
from ragmon.records import QueryRecord

RECORDS = [QueryRecord(query_id=f"q{at}", timestamp=1.0, query="x" * 100) for at in range(1_000)]
_encode = msgspec.msgpack.Encoder().encode
BLOCK = _encode(RECORDS)
HASHES = np.random.default_rng(1).integers(0, 2**64, len(RECORDS), dtype=np.uint64)


def kept(recent, first=0):
    return [at for at in range(len(RECORDS)) if recent.record(first + at) is not None]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 0.0, id="nothing while nobody draws"),
        pytest.param(0.01, 0.015, id="half as many again as are drawn"),
        pytest.param(0.4, 0.6, id="of a larger share too"),
        pytest.param(1.0, 1.0, id="everything when everything is drawn"),
    ],
)
def test_as_many_are_kept_as_may_be_drawn(share, expected):
    recent = RecordCache()
    recent.keep_for(lambda: share, "judge")
    recent.keep(7, HASHES, BLOCK)
    found = kept(recent, 7)
    assert len(found) == pytest.approx(expected * len(RECORDS), rel=0.2)
    if share:
        assert set(np.flatnonzero(is_drawn(HASHES, share)).tolist()) <= set(found)
        body = recent.record(7 + found[0])
        assert msgspec.msgpack.decode(body, type=QueryRecord) == RECORDS[found[0]]


def test_the_memory_of_a_block_may_be_used_again():
    recent = RecordCache()
    recent.keep_for(lambda: 1.0, "judge")
    block = bytearray(BLOCK)
    recent.keep(0, HASHES, block)
    block.clear()  # refused while anybody looks at it
    assert recent.record(999) == _encode(RECORDS[999])


def test_the_oldest_make_room():
    recent = RecordCache(most_bytes=3_000)
    recent.keep_for(lambda: 1.0, "judge")
    recent.keep(0, HASHES[:500], _encode(RECORDS[:500]))
    recent.keep(500, HASHES[500:], _encode(RECORDS[500:]))
    found = kept(recent)
    assert found == list(range(found[0], 1_000))
    assert 2_800 < sum(len(recent.record(at)) for at in found) <= 3_000


def test_what_was_forgotten_takes_no_room():
    recent = RecordCache(most_bytes=200_000)
    recent.keep_for(lambda: 1.0, "judge")
    for _ in range(3):
        recent.keep(0, HASHES, BLOCK)
        assert len(kept(recent)) == 1_000
        recent.clear()
        assert kept(recent) == []


def test_a_larger_share_draws_those_of_a_smaller_one():
    hashes = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    few, many = is_drawn(hashes, 0.1), is_drawn(hashes, 0.4)
    assert not (few & ~many).any()
    assert few.mean() == pytest.approx(0.1, abs=0.01)
    assert many.mean() == pytest.approx(0.4, abs=0.01)
