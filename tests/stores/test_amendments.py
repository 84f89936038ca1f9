"""Amendments as the store holds them, whole and damaged."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from ragmon.records import Amendments, Feedback
from ragmon.stores import amendments

KNOWN = Amendments(feedback=Feedback(query_id="q", rating=1.0, timestamp=5.0))


def test_what_moved_is_put_back():
    original, row = np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, np.nan])
    body = amendments.encode(KNOWN, 7, original, row)
    stored = amendments.decode(body)
    assert (stored.known, stored.layout) == (KNOWN, 7)
    amendments.apply(amendments.decode_moved(body), original, np.arange(3))
    assert np.array_equal(original, row, equal_nan=True)


def test_columns_that_are_left_out_are_not_moved():
    original, row = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    body = amendments.encode(KNOWN, 7, original, row)
    some = original[[2, 0]]
    amendments.apply(amendments.decode_moved(body), some, np.array([1, -1, 0]))
    assert some.tolist() == [6.0, 4.0]


def test_a_column_that_there_is_not_is_damage():
    stored = amendments.decode_moved(amendments.encode(KNOWN, 7, np.zeros(3), np.ones(3)))
    damaged = replace(stored, at=np.array([0, 1, 3], dtype=np.uint16).tobytes())
    with pytest.raises(ValueError, match="column 3, of 3"):
        amendments.apply(damaged, np.zeros(3), np.arange(3))


def test_many_are_put_back_as_each_alone():
    rng = np.random.default_rng(5)
    originals, rows = rng.integers(0, 3, (9, 6)).astype(float), rng.integers(0, 3, (9, 6)) * 1.0
    moved = [
        (at, amendments.decode_moved(amendments.encode(KNOWN, 7, originals[at], rows[at])))
        for at in (0, 2, 3, 8)
    ]
    places = np.array([3, -1, 0, 2, -1, 1])
    alone, together = originals[:, [2, 5, 3, 0]], originals[:, [2, 5, 3, 0]]
    for at, one in moved:
        amendments.apply(one, alone[at], places)
    amendments.apply_all(moved, together, places)
    assert np.array_equal(alone, together)
    assert not np.array_equal(together, originals[:, [2, 5, 3, 0]])
    amendments.apply_all([], together, places)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        pytest.param({"at": b"\x03\x00"}, "column 3, of 3", id="a column that there is not"),
        pytest.param({"values": b"\0" * 24}, "a value for each", id="more values than columns"),
        pytest.param({"at": b"\x00\x00\x01"}, "buffer size", id="half a column"),
    ],
)
def test_one_that_is_damaged_among_many_is_refused(damage, error):
    changed = amendments.encode(KNOWN, 7, np.zeros(3), np.array([0.0, 1.0, 0.0]))
    good = amendments.decode_moved(changed)
    with pytest.raises(ValueError, match=error):
        amendments.apply_all(
            [(0, good), (1, replace(good, **damage))], np.zeros((2, 3)), np.arange(3)
        )


def test_bytes_that_are_no_amendment_are_refused():
    with pytest.raises(msgspec.MsgspecError):
        amendments.decode(b"\x93\x01\x02\x03")
