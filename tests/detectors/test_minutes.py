"""The log of minutes: what is taken, what comes late, what is remembered."""

import numpy as np
import pytest

from ragmon.detectors.minutes import LATE, TENS, MinuteLog

START = 29_000_160


def log(streams=1, begin=START):
    found = MinuteLog()
    found.grow(streams)
    found.begin(begin)
    return found


def add(held, minute, n=1.0, lost=0.0, stream=0, *, first=True):
    cell = np.array([[n, lost, lost]])
    held.add(np.array([minute]), np.array([stream]), cell, np.array([first]))


def test_a_minute_is_taken_once():
    held = log()
    add(held, START, 5.0, 2.0)
    assert held.take().tolist() == [[5.0, 2.0, 2.0]]
    assert held.take().tolist() == [[0.0, 0.0, 0.0]]
    assert held.frontier == START + 2


@pytest.mark.parametrize(
    ("late", "first", "taken"),
    [
        pytest.param(1, True, 1.0, id="a delayed batch is judged with the minute that is open"),
        pytest.param(LATE, True, 1.0, id="up to an hour"),
        pytest.param(LATE + 1, True, 0.0, id="and no later"),
        pytest.param(1, False, 0.0, id="a change of mind is history"),
    ],
)
def test_what_comes_late(late, first, taken):
    held = log()
    for _ in range(LATE + 5):
        held.take()
    minute = held.frontier - late
    add(held, minute, first=first)
    assert held.take()[0, 0] == taken
    assert held.take()[0, 0] == 0.0
    assert held.span(minute, minute + 1)[0, 0] == 1.0  # references see it either way


def test_spans_are_sums_of_minutes():
    held, rng = log(2), np.random.default_rng(1)
    counts = rng.integers(0, 9, (3_000, 2)).astype(float)
    for at, row in enumerate(counts):
        for stream in (0, 1):
            add(held, START + at, row[stream], stream=stream)
        held.take()
    end = len(counts)
    for first, last in ((end - 5, end), (end - 60, end - 7), (end - 100, end), (0, end)):
        expected = counts[first:last].sum(axis=0)
        found = held.span(START + first, START + last)
        assert found[:, 0].tolist() == expected.tolist()
        picked = held.span(START + first, START + last, np.array([1]))
        assert picked[:, 0].tolist() == expected[1:].tolist()


def test_incidents_are_no_history_until_they_are_accepted():
    held = log()
    for at in range(40):
        add(held, START + at)
        held.take()
    tens = np.arange(START // 10, START // 10 + 4)
    held.exclude(np.array([0]), START + 10, START + 25)
    assert held.tens(tens)[:, 0, 0].tolist() == [10.0, 0.0, 0.0, 10.0]
    assert held.tens_total(START // 10, START // 10 + 4).tolist() == [[20.0, 0.0, 0.0]]
    assert held.counts(tens, np.array([0]))[:, 0].tolist() == [10.0] * 4
    assert held.excluded_in(START + 10, START + 20).tolist() == [True]
    held.rebase(0, START + 10)
    assert held.tens(tens)[:, 0, 0].tolist() == [0.0, 0.0, 10.0, 10.0]


def test_it_continues_where_it_was_saved():
    held = log(3)
    for at in range(300):
        add(held, START + at, float(at % 7), stream=at % 3)
        held.take()
    add(held, held.frontier - 2)
    saved, buckets = held.dump(), list(held.dump_dirty())
    assert list(held.dump_dirty()) == []
    other = MinuteLog()
    other.load(saved)
    for bucket in buckets:
        other.load_bucket(bucket)
    for each in (held, other):
        add(each, START + 300, 4.0)
    assert other.take().tolist() == held.take().tolist()
    assert other.span(START, START + 300).tolist() == held.span(START, START + 300).tolist()


def test_what_could_not_be_saved_is_saved_the_next_time():
    held = log(2)
    for at in range(30):
        add(held, START + at, 3.0, stream=at % 2)
        held.take()
    before = held.dirty()
    dumped = held.dump_dirty()
    saved = [next(dumped) for _ in range(12)]  # then the disk was full
    held.mark_dirty(before)
    again = list(held.dump_dirty())
    assert {each.tier for each in again} == {0, 1}
    assert again[:12] == saved
    assert not any(held.dirty())


def test_old_buckets_are_forgotten():
    held = log()
    add(held, START)
    add(held, START + 10 * TENS)
    assert held.tens(np.array([START // 10]))[0, 0, 0] == 0.0
