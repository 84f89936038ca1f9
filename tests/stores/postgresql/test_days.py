"""Blocks by day of arrival: a day that is over goes as a whole, what is late by itself."""

import pytest

from ragmon.records import Position
from ragmon.stores.postgresql.schema import add_day
from tests.support.postgres import shared_server
from tests.support.stores import commit_of, nothing, opened, small_pieces

DAY = 86_400


@pytest.fixture
def store(tmp_path):
    with small_pieces():
        store = opened("postgresql", tmp_path)
        yield store
        store.close()


def today(store) -> int:
    return store.shard._db.number("SELECT floor(extract(epoch FROM now()) / 86400)::int")


def days(store) -> list[str]:
    schema = store.shard._db.schema
    sql = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass"
    names = shared_server().execute(f"{sql} ORDER BY 1", (f"{schema}.blocks",))
    return [name.rpartition("_")[2] for (name,) in names]


def arrived(store, first: int, day: int) -> None:
    """Have a block lie in another day, as if it had arrived then."""
    add_day(store.shard._db, day)
    schema = store.shard._db.schema
    sql = f"UPDATE {schema}.blocks SET day = %s WHERE first_sequence = %s"
    shared_server().execute(sql, (day, first))


def fill(store, at: float, day: int, ids: str) -> int:
    first = store.shard.next_sequence
    store.shard.commit(commit_of(store, [f"{ids}-{each}" for each in range(3)], [at] * 3))
    store.shard.commit(nothing(amendments=[(first, b"amended")]))
    arrived(store, first, day)
    return first


def counted(store) -> None:
    store.state.save_windows([], b"", {0: store.shard.position})


def test_a_day_that_is_over_is_dropped_with_all_that_belongs_to_it(store):
    now = today(store)
    old = fill(store, (now - 9) * DAY + 5.0, now - 9, "old")
    new = fill(store, (now - 2) * DAY + 5.0, now - 2, "new")
    counted(store)
    before = (now - 7) * float(DAY)
    assert store.shard.expire(before, None) == 3
    assert str(now - 9) not in days(store)
    assert str(now - 2) in days(store)
    assert store.shard.record(old) is None
    assert store.shard.find(store.shard.hash("old-0")) is None
    assert store.shard.amendments([old, new]) == {new: b"amended"}
    assert store.shard.record(new) is not None
    assert store.shard.expire(before, None) == 0


def test_a_day_stays_while_one_of_its_records_does(store):
    now = today(store)
    old = fill(store, (now - 9) * DAY + 9.0, now - 8, "old")
    new = fill(store, (now - 8) * DAY + 9.0, now - 8, "new")
    counted(store)
    assert store.shard.expire((now - 8) * DAY + 7.0, None) == 0  # it goes with its day
    assert store.shard.record(old) is not None
    assert store.shard.expire((now - 6) * float(DAY), None) == 6
    assert store.shard.record(new) is None


def test_what_was_old_when_it_arrived_goes_at_once(store):
    now = today(store)
    late = fill(store, (now - 30) * float(DAY), now - 1, "late")
    fresh = fill(store, (now - 1) * float(DAY), now - 1, "fresh")
    counted(store)
    assert store.shard.expire((now - 7) * float(DAY), None) == 3
    assert store.shard.record(late) is None
    assert store.shard.record(fresh) is not None


def test_what_was_not_counted_stays(store):
    now = today(store)
    fill(store, (now - 9) * DAY + 5.0, now - 9, "old")
    assert store.shard.expire((now - 1) * float(DAY), None) == 0
    store.state.save_windows([], b"", {0: Position(2, 0)})
    assert store.shard.expire((now - 1) * float(DAY), None) == 0
    counted(store)
    assert store.shard.expire((now - 1) * float(DAY), None) == 3


def test_a_day_that_nobody_prepared_is_made_by_the_commit(store):
    schema = store.shard._db.schema
    for day in days(store):
        shared_server().execute(f"DROP TABLE {schema}.blocks_{day}")
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    assert store.shard.record(0) is not None
    assert days(store) == [str(today(store)), str(today(store) + 1)]


def test_a_reader_that_is_in_the_way_is_not_waited_for(store):
    now = today(store)
    fill(store, (now - 8) * DAY + 5.0, now - 8, "old")
    counted(store)
    before = (now - 7) * DAY + 1.0
    with store.reader() as reader, reader.moment():
        assert len(reader.block_times()) == 1
        assert store.shard.expire(before, None) == 0
        store.shard.commit(commit_of(store, ["a"], [before + 9.0]))  # nobody waits behind it
    assert store.shard.expire(before, None) == 3


def test_the_oldest_go_where_the_size_is_limited(store):
    now = today(store)
    first = fill(store, 5.0 + now * DAY, now, "a")
    fill(store, 9.0 + now * DAY, now, "b")
    counted(store)
    store.shard.expire(0.0, None)  # measures
    whole = store.size_bytes()
    assert store.shard.expire(0.0, 2 * whole) == 0
    assert store.shard.expire(0.0, 1) > 0
    assert store.shard.record(first) is None
    assert store.size_bytes() < whole


def test_blocks_of_two_days_are_not_joined(store):
    now = today(store)
    for at, day in enumerate((now - 1, now - 1, now, now)):
        fill(store, now * DAY + at, day, f"q{at}")
    counted(store)
    start = joined = 0
    while start < 12:
        step, start = store.shard.compact(start, 12)
        joined += step > 1
    assert store.damage.rows() == []
    with store.reader() as reader:
        assert [(block.first_sequence, block.records) for block in reader.block_times()] == [
            (0, 6),
            (6, 6),
        ]
    assert joined == 2, store.damage.rows()
