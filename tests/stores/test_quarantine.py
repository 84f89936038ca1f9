"""The quarantine of a store: bounded, with the oldest out first, and part of a commit."""

import pytest

from ragmon.stores.quarantine import QuarantineBounds, QuarantinedItem
from tests.support.stores import KINDS, commit_of, copied, nothing, opened

NOW = 1_800_000_000.0


def item(number, body=b"body", **fields):
    known = {"stage": "map", "reason": "defect", "at": NOW + number, "name": f"trace {number}"}
    return QuarantinedItem(**{**known, "error": "an error", "body": body, **fields})


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    opened_store = opened(request.param, tmp_path)
    yield opened_store
    opened_store.close()


@pytest.fixture
def entries(store):
    return store.shard.quarantine(QuarantineBounds(entries=3, size_bytes=2_000))


def names(entries, stage=""):
    return [row.name for row in entries.rows(10, stage)]


def test_an_item_is_kept_with_all_that_is_known_of_it(entries):
    entries.put([item(1, b"spans", attempts=0)])
    [row] = entries.rows(10)
    found, body = entries.find(row.number)
    assert found == row
    assert body == b"spans"
    assert row[1:7] == ("map", "defect", NOW + 1, "trace 1", "an error", 0)
    assert entries.counts["map"] == 1
    assert entries.totals == {("map", "defect"): 1}
    assert entries.find(row.number + 1) is None


def test_the_oldest_go_beyond_the_number_of_entries(entries):
    entries.put([item(number) for number in range(5)])
    entries.put([item(5)])
    assert names(entries) == ["trace 5", "trace 4", "trace 3"]
    assert entries.counts["map"] == 3
    assert entries.totals == {("map", "defect"): 6}


def test_the_oldest_go_beyond_the_size(entries):
    noise = bytes(range(256)) * 3
    entries.put([item(1, noise[1:]), item(2, noise[2:])])
    big = b"".join(number.to_bytes(2, "big") for number in range(900))
    entries.put([item(3, big)])
    assert names(entries)[0] == "trace 3"
    assert sum(row.size_bytes for row in entries.rows(10)) <= 2_000


def test_the_same_item_again_takes_the_place_of_the_one_before(entries):
    entries.put([item(1), item(2)])
    entries.put([item(1, at=NOW + 9)])
    assert names(entries) == ["trace 1", "trace 2"]
    assert entries.totals == {("map", "defect"): 2}


def test_entries_are_told_apart_by_stage(entries):
    entries.put([item(1), item(2, stage="decode", reason="invalid")])
    assert names(entries, "decode") == ["trace 2"]
    assert {stage: entries.counts[stage] for stage in ("decode", "map")} == {"decode": 1, "map": 1}


def test_an_attempt_is_counted_before_it_is_made_and_its_error_afterwards(entries):
    entries.put([item(1)])
    [row] = entries.rows(1)
    entries.note_attempt(row.number)
    entries.note_attempt(row.number, "it failed again")
    [row] = entries.rows(1)
    assert (row.attempts, row.error) == (1, "it failed again")


def test_what_is_deleted_or_too_old_is_gone(entries):
    entries.put([item(1), item(2), item(3)])
    newest = entries.rows(1)[0].number
    assert entries.delete([newest, newest, 999]) == 1
    assert entries.expire(NOW + 2) == 1
    assert names(entries) == ["trace 2"]
    assert entries.counts["map"] == 1
    assert entries.delete([newest]) == 0


def test_it_is_part_of_a_commit_and_outlives_a_crash(store, entries, tmp_path):
    store.shard.commit(commit_of(store, ["a"], [NOW], quarantined=[item(1)]))
    store.shard.commit(nothing(quarantined=[item(2)]))
    assert entries.counts["map"] == 2
    kind = type(store).__module__.split(".")[2]
    again = opened(kind, copied(tmp_path, tmp_path / "copy"))
    try:
        kept = again.shard.quarantine()
        assert names(kept) == ["trace 2", "trace 1"]
        assert kept.counts["map"] == 2
        kept.put([item(3)])
        assert kept.rows(1)[0].number == 3
    finally:
        again.close()


def test_marks_of_traces_live_until_the_traces_are_deleted(store):
    spans = store.shard.spans()
    spans.mark([b"one", b"two"], NOW)
    spans.note_risk(b"one")
    assert [tuple(mark) for mark in spans.marked()] == [(b"one", 1), (b"two", 0)]
    spans.delete([b"one"])
    assert [mark.trace_id for mark in spans.marked()] == [b"two"]
    spans.mark([b"two"], NOW)
    assert [mark.deaths for mark in spans.marked()] == [0]
