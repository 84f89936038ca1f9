"""The embedded store: what fails changes nothing, what is deleted makes the file smaller."""

import random
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from ragmon.errors import StoreError, StoreFullError
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting, joining
from ragmon.stores.sqlite import maintenance
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.windows.snapshot import SavedBucket
from tests.support.stores import commit_of, encode, nothing, numbers, packed


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path, synchronous="NORMAL")
    yield opened
    opened.close()


@pytest.mark.parametrize("name", ["what?", "50%25", "a#b"])
def test_a_directory_may_have_any_name(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    opened = SqliteStore(directory, synchronous="OFF")
    fill(opened, 1)
    with opened.reader() as reader:
        assert len(reader.records(0)) == 1
    opened.close()


def fill(store, blocks, records=1, size=100, first_at=0.0):
    """Blocks of records that do not compress; the timestamp of each is its number."""
    chance = random.Random(store.shard.next_sequence)
    for _ in range(blocks):
        first = store.shard.next_sequence
        commit = commit_of(
            store,
            [f"id-{first + at}" for at in range(records)],
            [first_at + first + at for at in range(records)],
        )
        commit.records = encode([chance.randbytes(size) for _ in range(records)])
        store.shard.commit(commit)


def sizes(store):
    """(first sequence number, records) of each block."""
    return store._db.rows("SELECT first_sequence, records FROM blocks ORDER BY 1")


# ---- a failed commit changes nothing --------------------------------------------------------


class Failing:
    """A connection that raises at its n-th statement."""

    def __init__(self, connection, fail_at):
        self._connection = connection
        self._left = fail_at

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, *args):
        self._count()
        return self._connection.execute(*args)

    def executemany(self, *args):
        self._count()
        return self._connection.executemany(*args)

    def _count(self):
        self._left -= 1
        if self._left == 0:
            raise sqlite3.OperationalError("disk I/O error")


def everything(store):
    """What can be seen of a store."""
    hashes = [store.shard.hash(f"id-{at}") for at in range(10)]
    position, totals, buckets = store.state.load_windows()
    return (
        store.shard.next_sequence,
        store.shard.last_restatement,
        [each is not None for each in store.shard.find_many(np.array(hashes, dtype=np.uint64))],
        [store.shard.find(each) for each in hashes],
        [store.shard.record(each) for each in range(10)],
        store.shard.amendments(range(10)),
        store.shard.waiting(hashes),
        store.shard.waiting_count(),
        store.shard.offset("source"),
        (position, totals, list(buckets)),
        list(store.state.follow(position)),
    )


def full_commit(store):
    """Everything that one commit can change at once."""
    return commit_of(
        store,
        ["id-3", "id-4"],
        [3.0, 4.0],
        amendments=[(0, b"amended")],
        restatement=Restatement(b"old", b"new"),
        waiting=[Waiting(store.shard.hash("id-9"), "label", b"late", 9.0)],
        arrived=[store.shard.hash("id-4")],
        offsets=[("source", b"after")],
    )


def prepared(store):
    fill(store, 3)
    late = Waiting(store.shard.hash("id-4"), "feedback", b"early", 1.0)
    store.shard.commit(nothing(waiting=[late], offsets=[("source", b"before")]))
    return everything(store)


@pytest.mark.parametrize("fail_at", range(1, 20))
def test_a_commit_that_fails_at_any_statement_changes_nothing(store, tmp_path, fail_at):
    before = prepared(store)
    connection = store._db.connection
    store._db.connection = Failing(connection, fail_at)
    statements = 10  # begin, block, restatement, amendments, arrived, waiting, offsets, commit
    try:
        store.shard.commit(full_commit(store))
        failed = False
    except StoreError:
        failed = True
    finally:
        store._db.connection = connection
    assert failed == (fail_at < statements - 1)
    if failed:
        assert everything(store) == before
        again = SqliteStore(tmp_path)
        assert everything(again) == before
        again.close()
        store.shard.commit(full_commit(store))
    assert store.shard.record(4) is not None
    assert store.shard.offset("source") == b"after"


def test_a_commit_without_room_changes_nothing(store, tmp_path):
    before = prepared(store)
    commit = full_commit(store)
    commit.records = encode([random.Random(1).randbytes(1 << 20)] * 2)
    pages = store._db.number("PRAGMA page_count")
    store._db.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFullError, match="Free space") as caught:
        store.shard.commit(commit)
    assert caught.value.retryable
    assert everything(store) == before
    store._db.connection.execute("PRAGMA max_page_count = 1000000")
    store.shard.commit(commit)
    assert store.shard.next_sequence == 5


def test_a_snapshot_that_fails_leaves_the_one_before(store):
    store.state.save_windows([SavedBucket(0, 1, b"first")], b"totals", {0: Position(0, 0)})
    before = everything(store)

    def buckets():
        yield SavedBucket(0, 1, b"second")
        raise RuntimeError("a defect of ours")

    with pytest.raises(RuntimeError):
        store.state.save_windows(buckets(), b"others", {0: Position(1, 0)})
    assert everything(store) == before
    assert not store._db.connection.in_transaction


# ---- retention ------------------------------------------------------------------------------


def expire(store, before, max_bytes=None):
    """Until nothing more goes of what was counted; how many records went in all."""
    store.state.save_windows([], b"", {0: store.shard.position})
    deleted = 0
    while step := store.shard.expire(before, max_bytes):
        deleted += step
    return deleted


def test_retention_by_age_shrinks_the_file(store, tmp_path):
    fill(store, 60, records=5, size=20_000)
    store._db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (tmp_path / FILE).stat().st_size
    assert expire(store, 250.0) == 250
    assert (tmp_path / FILE).stat().st_size < before / 4
    assert store.shard.record(249) is None
    assert store.shard.record(250) is not None


def test_a_block_lives_as_long_as_its_newest_record(store):
    store.shard.commit(commit_of(store, ["old", "new"], [1.0, 100.0]))
    assert expire(store, 50.0) == 0
    assert store.shard.find(store.shard.hash("old")) == 0
    assert expire(store, 100.5) == 2


def test_retention_by_size_keeps_the_newest_and_no_less_than_fits(store, tmp_path):
    fill(store, 100, records=5, size=20_000)
    limit = 4_000_000
    deleted = expire(store, 0.0, limit)
    store._db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (tmp_path / FILE).stat().st_size
    assert limit * 0.8 < size <= limit
    assert store.shard.record(deleted - 1) is None
    assert store.shard.record(deleted) is not None
    assert expire(store, 0.0, limit) == 0


def test_the_oldest_go_first_whenever_they_came(store):
    fill(store, 10, size=50_000, first_at=1_000.0)
    fill(store, 10, size=50_000)  # late: stamped before all others
    used = store._db.used_bytes()
    expire(store, 0.0, used - 300_000)
    assert store.shard.record(9) is not None
    assert store.shard.record(10) is None


def test_a_log_that_is_not_written_back_does_not_count(store):
    fill(store, 3)
    store._db.connection.execute("PRAGMA wal_autocheckpoint = 0")
    for at in range(50):
        store.state.save_windows(
            [SavedBucket(0, 0, random.Random(at).randbytes(100_000))], b"", {0: Position()}
        )
    assert store.size_bytes() > 3_000_000
    assert expire(store, 0.0, 1_000_000) == 0


def test_what_a_restart_will_count_again_does_not_expire(store):
    fill(store, 4)
    store.state.save_windows([], b"", {0: Position(2, 0)})
    fill(store, 1)
    while store.shard.expire(1e9, 1):
        pass
    assert [store.shard.record(at) is None for at in range(5)] == [True, True, False, False, False]


def test_saved_windows_and_waiting_feedback_expire(store):
    store.state.save_windows([SavedBucket(0, at, b"x") for at in range(5)], b"t", {0: Position()})
    waiting = [Waiting(store.shard.hash(f"id-{at}"), "label", b"", float(at)) for at in range(5)]
    store.shard.commit(nothing(waiting=waiting))
    store.state.expire_windows([3])
    assert store.shard.expire_waiting(2.0) == 2
    assert [bucket.bucket for bucket in store.state.load_windows()[2]] == [3, 4]
    assert store.shard.waiting_count() == 3


# ---- compaction -----------------------------------------------------------------------------


def compact(store, below):
    """One whole pass, as the engine makes it."""
    start, joined = 0, 0
    while start < below:
        taken, start = store.shard.compact(start, below)
        joined += taken
    return joined


def test_small_blocks_become_large_ones_in_one_pass(store):
    fill(store, 1_000)
    compact(store, store.shard.next_sequence)
    assert len(sizes(store)) <= 1_000 // joining.MOST_BLOCKS + 1
    assert sum(records for _, records in sizes(store)) == 1_000
    for at in (0, 255, 256, 511, 999):
        assert store.shard.find(store.shard.hash(f"id-{at}")) == at
        assert store.shard.record(at) is not None
    with store.reader() as reader:
        held = [numbers(block.observations) for block in reader.blocks(0, 1e9)]
    assert sorted(at for block in held for at in block) == list(range(1_000))


def test_compaction_keeps_off_what_a_restart_would_replay(store):
    fill(store, 10)
    store.state.save_windows([], b"", {0: Position(6, 0)})
    compact(store, 6)
    assert [first for first, _ in sizes(store)] == [0, 6, 7, 8, 9]


def test_compaction_never_joins_across_a_gap(store):
    fill(store, 4)
    fill(store, 1, records=joining.RECORDS)
    fill(store, 4)
    before = {at: store.shard.record(at) for at in range(store.shard.next_sequence)}
    store._db.connection.execute("DELETE FROM blocks WHERE first_sequence = 1")
    compact(store, store.shard.next_sequence)
    first_after = 4 + joining.RECORDS
    assert sizes(store) == [(0, 1), (2, 2), (4, joining.RECORDS), (first_after, 4)]
    for at, record in before.items():
        assert store.shard.record(at) == (None if at == 1 else record)


def test_large_bodies_are_not_joined_into_huge_ones(store):
    fill(store, 8, size=1_200_000)
    compact(store, store.shard.next_sequence)
    held = store._db.rows("SELECT length(body) FROM blocks")
    assert max(size for (size,) in held) <= joining._BYTES * 1.1
    assert len(held) < 8


def test_blocks_that_are_large_when_opened_are_not_joined_into_huge_ones(store):
    for at in range(8):
        commit = commit_of(store, [f"id-{at}"], [float(at)])
        commit.records = encode([b"z" * 1_200_000])
        store.shard.commit(commit)
    compact(store, store.shard.next_sequence)
    with store.reader() as reader:
        opened = [sum(map(len, reader.records(first))) for first, _ in sizes(store)]
    assert sum(opened) > 8 * 1_200_000
    assert max(opened) <= joining._BYTES
    assert len(opened) < 8


def test_joined_blocks_expire_by_their_newest_record(store):
    fill(store, 10)
    compact(store, 10)
    assert sizes(store) == [(0, 10)]
    assert expire(store, 9.0) == 0
    assert expire(store, 9.5) == 10


def test_a_reader_finds_the_records_of_blocks_that_are_joined_meanwhile(store):
    fill(store, 6, records=2)
    with store.reader() as reader:
        blocks = list(reader.blocks(0.0, 1e9))
        compact(store, 12)
        assert len(sizes(store)) == 1
        for block in blocks:
            first = block.first_sequence
            expected = [store.shard.record(first), store.shard.record(first + 1)]
            assert reader.records(first)[:2] == expected
        expire(store, 1e9)
        assert reader.records(0) == []


def test_a_reader_sees_one_moment_while_it_goes_through_blocks(store):
    fill(store, 6)
    with store.reader() as reader:
        seen = []
        for block in reader.blocks(0.0, 1e9):
            compact(store, 6)
            seen += reader.records(block.first_sequence)
        assert seen == [store.shard.record(at) for at in range(5, -1, -1)]


def test_a_reader_may_stay_open_and_sees_what_comes(store):
    with store.reader() as reader:
        assert reader.record(0) is None
        fill(store, 1)
        assert reader.record(0) is not None


def test_a_backup_is_a_store(store, tmp_path):
    fill(store, 5)
    target = tmp_path / "copies"
    target.mkdir()
    with store.reader() as reader:
        reader.backup(target / FILE)
        with pytest.raises(StoreError, match="Name a new file"):
            reader.backup(target / FILE)
    again = SqliteStore(target)
    assert [again.shard.record(at) for at in range(5)] == [
        store.shard.record(at) for at in range(5)
    ]
    assert again.shard.find(again.shard.hash("id-4")) == 4
    again.close()


@pytest.mark.parametrize("pages", [0, 10**6])
def test_shrinking_a_file_without_free_pages_is_nothing(store, pages):
    fill(store, 1)
    store._db.shrink(pages)
    assert store.shard.record(0) is not None
    assert numbers(packed([7], [1.0])) == [7]


def test_upkeep_gives_the_space_of_the_log_back(store, tmp_path):
    log = tmp_path / f"{FILE}-wal"
    fill(store, 3, size=50_000)
    assert log.stat().st_size > 150_000
    store.state.expire_windows([])
    assert log.stat().st_size == 0
    assert [store.shard.record(at) is None for at in range(3)] == [False] * 3


def test_a_log_that_a_reader_needs_stays_and_nobody_waits(store, tmp_path):
    fill(store, 2, size=50_000)
    with store.reader() as reader:
        seen = reader.blocks(0.0, 1e9)
        newest = next(seen)
        store.state.expire_windows([])
        assert (tmp_path / f"{FILE}-wal").stat().st_size > 0
        fill(store, 1)
        assert [newest.first_sequence, *(each.first_sequence for each in seen)] == [1, 0]
    assert store._db.number("PRAGMA busy_timeout") == 5_000


def test_no_statement_numbers_its_placeholders():
    """Python 3.12.0 to 3.12.3 warns of ``?1`` with a sequence, as of a name without a value."""
    sources = Path(maintenance.__file__).parent.glob("*.py")
    assert [path.name for path in sources if re.search(r"\?\d", path.read_text("utf-8"))] == []
