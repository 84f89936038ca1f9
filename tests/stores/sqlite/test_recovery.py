"""After a kill: what the write-ahead log gave back, and what was acknowledged and is gone."""

import errno
import os
import random
import shutil
import sqlite3

import pytest

from ragmon.records import Position
from ragmon.stores import Lost, Recovery, Restatement
from ragmon.stores.sqlite import commit_log
from ragmon.stores.sqlite.commit_log import COMMITS_FILE, CommitLog, lost_since
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.stores.sqlite.verification import verify
from ragmon.stores.sqlite.wal import WalContent, wal_content
from tests.support.stores import commit_of, copied, encode, nothing

COMMITS, RECORDS = 12, 3
WAL_HEAD, FRAME_HEAD, PAGE = 32, 24, 16_384


@pytest.fixture
def killed(tmp_path):
    """The files as kill -9 leaves them: a snapshot, and commits in the write-ahead log."""
    (tmp_path / "live").mkdir()
    store = SqliteStore(tmp_path / "live", synchronous="OFF")
    store._db.connection.execute("PRAGMA wal_autocheckpoint = 0")
    chance = random.Random(7)
    for at in range(COMMITS):
        names = [f"{at}-{number}" for number in range(RECORDS)]
        commit = commit_of(store, names, [1.0] * RECORDS, restatement=Restatement(b"o", b"n"))
        commit.records = encode([chance.randbytes(9_000) for _ in names])
        store.shard.commit(commit)
        if at == 2:
            store.state.save_windows([], b"totals", {0: store.shard.position})
            store._db.empty_log()
    directory = copied(tmp_path / "live", tmp_path / "killed")
    store.close()
    return directory


def opened(directory):
    store = SqliteStore(directory, synchronous="OFF")
    store.close()
    return store


def losses(directory):
    return [each for each in verify(directory / FILE).findings if each.what == "lost"]


def test_all_commits_come_back_and_are_counted(killed):
    assert not losses(killed)
    recovery = opened(killed).recovery
    assert recovery == Recovery(COMMITS - 3, 0, Lost())
    assert opened(killed).recovery == Recovery()  # it ended in order


def test_damage_within_the_log_is_a_loss_that_is_told_with_its_size(killed):
    log = killed / f"{FILE}-wal"
    content = bytearray(log.read_bytes())
    frames = (len(content) - WAL_HEAD) // (FRAME_HEAD + PAGE)
    middle = WAL_HEAD + (frames // 2) * (FRAME_HEAD + PAGE) + FRAME_HEAD + 100
    content[middle] ^= 1
    log.write_bytes(content)
    (finding,) = losses(killed)
    store = opened(killed)
    recovery, there = store.recovery, store.shard.next_sequence // RECORDS
    assert 3 < there < COMMITS
    assert recovery.commits == there - 3
    lost = COMMITS - there
    assert recovery.lost == Lost(lost, lost * RECORDS, lost)
    assert recovery.unread_bytes >= lost * (FRAME_HEAD + PAGE)
    assert f"{lost} acknowledged commits with {lost * RECORDS} queries" in finding.problem
    assert opened(killed).recovery == Recovery()  # told once, then counted from there


def test_a_log_that_was_deleted_is_a_loss(killed):
    (killed / f"{FILE}-wal").unlink()
    assert opened(killed).recovery == Recovery(lost=Lost(COMMITS - 3, (COMMITS - 3) * RECORDS, 9))


@pytest.mark.parametrize("length", range(0, PAGE * 3, 3_001))
def test_commits_are_counted_as_sqlite_counts_them_wherever_the_log_ends(killed, length):
    log = killed / f"{FILE}-wal"
    os.truncate(log, log.stat().st_size - length)
    written = wal_content(killed / FILE)
    store = opened(killed)
    assert written.commits == store.shard.next_sequence // RECORDS - 3
    assert store.recovery.lost.commits == COMMITS - store.shard.next_sequence // RECORDS


def test_damage_anywhere_is_found_where_sqlite_finds_it(killed, tmp_path):
    chance = random.Random(1)
    size = (killed / f"{FILE}-wal").stat().st_size
    for at in range(30):
        directory = copied(killed, tmp_path / str(at))
        log = directory / f"{FILE}-wal"
        content = bytearray(log.read_bytes())
        content[chance.randrange(size)] ^= 1 << chance.randrange(8)
        log.write_bytes(content)
        written = wal_content(directory / FILE)
        told = losses(directory)
        store = opened(directory)
        there = store.shard.next_sequence // RECORDS
        assert written.commits == max(0, there - 3)
        gone = COMMITS - there
        assert store.recovery.lost == (Lost(gone, gone * RECORDS, gone) if gone else Lost())
        assert bool(told) == bool(gone)
        shutil.rmtree(directory)


def test_space_of_the_log_before_is_not_read(killed):
    db = sqlite3.connect(killed / FILE, isolation_level=None)
    db.execute("PRAGMA wal_checkpoint(RESTART)")
    db.execute("REPLACE INTO offsets VALUES ('a', x'00')")
    size = (killed / f"{FILE}-wal").stat().st_size
    assert size > 20 * PAGE
    assert wal_content(killed / FILE) == WalContent(1, 0)
    db.close()


@pytest.mark.parametrize(
    "content", [b"", b"short", b"\0" * 5_000, b"\x37\x7f\x06\x82" + b"\0" * 99]
)
def test_what_is_no_log_holds_no_commits(tmp_path, content):
    assert wal_content(tmp_path / FILE) == WalContent()
    (tmp_path / f"{FILE}-wal").write_bytes(content)
    assert wal_content(tmp_path / FILE).commits == 0


def test_an_entry_behind_the_store_is_no_loss(killed):
    """Power went before the newest entries were written."""
    entries = killed / COMMITS_FILE
    os.truncate(entries, entries.stat().st_size - 4 * 32 - 7)
    assert opened(killed).recovery.lost == Lost()


def test_entries_of_another_store_count_nothing(killed, tmp_path):
    (tmp_path / "fresh").mkdir()
    shutil.copy(killed / COMMITS_FILE, tmp_path / "fresh")
    assert opened(tmp_path / "fresh").recovery.lost == Lost()


def test_more_commits_than_slots(tmp_path, monkeypatch):
    monkeypatch.setattr(commit_log, "_ENTRIES", 4)
    log = CommitLog(tmp_path, seed=5)
    log.begin(Position(100, 0))
    for at in range(1, 11):
        log.enter(100 + 2 * at, 0)
    assert (tmp_path / COMMITS_FILE).stat().st_size == 4 * 32
    assert (tmp_path / COMMITS_FILE).stat().st_mode & 0o777 == 0o600
    assert lost_since(log.entries(), Position(120, 0)) == Lost()
    assert lost_since(log.entries(), Position(116, 0)) == Lost(2, 4, 0)
    assert lost_since(log.entries(), Position(50, 0)) == Lost(4, 70, 0)  # at least these
    log.close()


def test_a_file_that_cannot_be_written_costs_no_commit(tmp_path, monkeypatch):
    (tmp_path / COMMITS_FILE).mkdir()
    store = SqliteStore(tmp_path, synchronous="OFF")
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    store.close()
    (tmp_path / COMMITS_FILE).rmdir()

    def refuse(*_arguments):
        raise OSError(errno.EIO, "broken")

    store = SqliteStore(tmp_path, synchronous="OFF")
    monkeypatch.setattr(os, "pwrite", refuse)
    store.shard.commit(commit_of(store, ["b"], [1.0]))
    store.shard.commit(nothing())
    assert store.shard.next_sequence == 2
    store.close()
    assert not losses(tmp_path)
