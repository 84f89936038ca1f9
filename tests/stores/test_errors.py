"""Whatever is wrong with the file, the store says so, and what to do about it."""

import functools
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ragmon.errors import StoreBusyError, StoreCorruptError, StoreError, StoreFullError
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting
from ragmon.stores.protocols import SpanRow
from ragmon.stores.sqlite import SqliteStore
from ragmon.stores.sqlite.database import translated
from ragmon.stores.sqlite.store import FILE
from ragmon.windows.snapshot import SavedBucket
from tests.support.stores import commit_of, encode, numbers, small_pieces

NAMES = [f"id-{at}" for at in range(60)]
PAGE = 16_384


@pytest.fixture
def healthy(tmp_path):
    """The directory of a closed store with something in every table."""
    directory = tmp_path / "healthy"
    directory.mkdir()
    with small_pieces():
        store = SqliteStore(directory, synchronous="OFF")
        chance = random.Random(1)
        for start in range(0, len(NAMES), 6):
            late = Waiting(store.shard.hash(f"late-{start}"), "label", b"body", 1.0)
            commit = commit_of(
                store,
                NAMES[start : start + 6],
                [float(start)] * 6,
                amendments=[(start, b"amended")],
                restatement=Restatement(b"old", b"new"),
                waiting=[late],
                offsets=[("source", b"offset")],
            )
            commit.records = encode([chance.randbytes(900) for _ in range(6)])
            store.shard.commit(commit)
            store.shard.index()
            store.shard.spans().append(
                [SpanRow(b"trace %d" % start, 1, False, chance.randbytes(900))]
            )
            if start == 30:
                buckets = [SavedBucket(0, at, chance.randbytes(4_000)) for at in range(8)]
                store.state.save_windows(buckets, b"totals", {0: Position(36, 3)})
        store.close()
    return directory


def uses(store):
    """Everything that can be asked of a store."""
    hashes = np.array([store.shard.hash(name) for name in NAMES], dtype=np.uint64)
    late = [store.shard.hash(f"late-{at}") for at in range(0, 60, 6)]
    yield lambda: list(store.state.load_windows()[2])
    yield lambda: list(store.state.follow({}))
    yield lambda: store.shard.find_many(hashes)
    yield from (functools.partial(store.shard.find, each) for each in hashes.tolist())
    yield from (functools.partial(store.shard.record, at) for at in range(0, 60, 5))
    yield lambda: store.shard.amendments(range(60))
    yield lambda: store.shard.waiting(late)
    yield lambda: store.shard.offset("source")
    yield lambda: store.shard.spans().bodies([b"trace 0"])
    yield functools.partial(_read, store)
    yield lambda: store.shard.commit(commit_of(store, ["new"], [100.0]))
    yield lambda: store.state.save_windows([SavedBucket(0, 1, b"x")], b"", {0: Position(60, 10)})
    yield lambda: store.shard.compact(0, 60)
    yield store.shard.index
    yield lambda: store.shard.expire(10.0, None)
    yield lambda: store.state.expire_windows([5, 5, 5, 5])
    yield lambda: store.shard.expire_waiting(0.5)


def _read(store):
    with store.reader() as reader:
        for block in reader.blocks(0.0, 1e9):
            numbers(block.observations)
            reader.records(block.first_sequence)


def complaints(directory):
    """What a store says when everything is asked of it; anything but StoreError gets out."""
    found = []
    with small_pieces():
        try:
            store = SqliteStore(directory, synchronous="OFF")
        except StoreError as error:
            return [error]
        for use in uses(store):
            try:
                use()
            except StoreError as error:
                found.append(error)
        store.close()
    return found


def test_a_healthy_store_complains_of_nothing(healthy):
    assert complaints(healthy) == []


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda chance: chance.randbytes(PAGE), id="garbage"),
        pytest.param(lambda _: bytes(PAGE), id="zeros"),
        pytest.param(lambda chance: chance.randbytes(40), id="a few bytes"),
    ],
)
def test_damage_to_any_page_is_named_when_it_is_met(healthy, tmp_path, damage):
    pages = (healthy / FILE).stat().st_size // PAGE
    assert pages > 10
    chance = random.Random(2)
    damaged = 0
    for page in range(pages):
        directory = Path(shutil.copytree(healthy, tmp_path / f"page-{page}"))
        with (directory / FILE).open("r+b") as file:
            file.seek(page * PAGE)
            file.write(damage(chance))
        found = complaints(directory)
        damaged += bool(found)
        assert all(error.hint for error in found)
    assert damaged > pages / 2


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_file(healthy, share):
    size = (healthy / FILE).stat().st_size
    os.truncate(healthy / FILE, int(size * share))
    found = complaints(healthy)
    assert found
    assert any(isinstance(error, StoreCorruptError) for error in found)
    assert all("ragmon backup" in error.hint for error in found)


def test_spans_that_were_changed_on_disk_are_not_believed(healthy):
    """SQLite itself does not look into what it stores."""
    db = sqlite3.connect(healthy / FILE)
    (body,) = db.execute("SELECT body FROM spans WHERE number = 1").fetchone()
    middle = len(body) // 2
    broken = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
    db.execute("UPDATE spans SET body = ? WHERE number = 1", (broken,))
    db.commit()
    db.close()
    store = SqliteStore(healthy)
    with pytest.raises(StoreCorruptError):
        store.shard.spans().bodies([b"trace 0"])
    assert store.shard.spans().bodies([b"trace 6"])
    store.close()


# ---- a file that cannot be used -------------------------------------------------------------


def spoil_with_text(path):
    path.write_text("these are my notes " * 100)


def spoil_with_the_future(path):
    SqliteStore(path.parent).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def spoil_with_another_program(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE meta (photo BLOB)")
    db.close()


def spoil_with_a_directory(path):
    path.mkdir()


def spoil_with_a_missing_directory(path):
    path.parent.rmdir()


UNUSABLE = [
    pytest.param(
        spoil_with_text, StoreCorruptError, "is damaged .*ragmon backup", id="no database at all"
    ),
    pytest.param(
        spoil_with_the_future, StoreError, "format 99.* Use the ragmon version", id="the future"
    ),
    pytest.param(
        spoil_with_another_program, StoreError, "format 0.* another data_dir", id="another program"
    ),
    pytest.param(spoil_with_a_directory, StoreError, "cannot write .* Make", id="a directory"),
    pytest.param(
        spoil_with_a_missing_directory, StoreError, "cannot write .* Make", id="no such directory"
    ),
]


@pytest.mark.parametrize(("spoil", "kind", "message"), UNUSABLE)
def test_a_file_that_cannot_be_used(tmp_path, spoil, kind, message):
    directory = tmp_path / "data"
    directory.mkdir()
    spoil(directory / FILE)
    with pytest.raises(kind, match=f"(?s){message}"):
        SqliteStore(directory)


@pytest.mark.parametrize("spoil", [spoil_with_text, spoil_with_the_future])
def test_the_command_says_it_in_one_line(tmp_path, spoil):
    spoil(tmp_path / FILE)
    command = [sys.executable, "-m", "ragmon", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ragmon: {tmp_path / FILE} ")
    assert done.stderr.count("\n") == 1


def test_a_file_locked_by_another_program(tmp_path):
    SqliteStore(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        impatient = functools.partial(sqlite3.connect, timeout=0.01)
        patch.setattr(sqlite3, "connect", impatient)
        with pytest.raises(StoreBusyError, match="Stop it, or use another data_dir") as caught:
            SqliteStore(tmp_path)
    assert caught.value.retryable
    other.close()
    SqliteStore(tmp_path).close()


def test_a_commit_waits_for_no_lock_and_changes_nothing(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0.01))
        store = SqliteStore(tmp_path)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError):
        store.shard.commit(commit_of(store, ["a"], [1.0]))
    assert store.shard.next_sequence == 0
    assert store.shard.find(store.shard.hash("a")) is None
    other.execute("ROLLBACK")
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    assert store.shard.find(store.shard.hash("a")) == 0
    other.close()
    store.close()


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_directory(existing):
    """Root may write everywhere, so as somebody else where possible."""
    directory = Path(tempfile.mkdtemp())
    if existing:
        SqliteStore(directory).close()
        (directory / FILE).chmod(0o444)
    directory.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
    somebody = 65_534
    try:
        if os.geteuid() == 0:
            os.seteuid(somebody)
        with pytest.raises(StoreError, match=r"cannot write .* Make .* writable for user"):
            SqliteStore(directory)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        directory.chmod(0o700)
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        pytest.param(sqlite3.SQLITE_FULL, StoreFullError, True, id="full"),
        pytest.param(sqlite3.SQLITE_BUSY, StoreBusyError, True, id="busy"),
        pytest.param(sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusyError, True, id="busy, extended"),
        pytest.param(sqlite3.SQLITE_CORRUPT, StoreCorruptError, False, id="corrupt"),
        pytest.param(sqlite3.SQLITE_NOTADB, StoreCorruptError, False, id="no database"),
        pytest.param(sqlite3.SQLITE_CORRUPT_INDEX, StoreCorruptError, False, id="index"),
        pytest.param(sqlite3.SQLITE_READONLY, StoreError, True, id="read-only"),
        pytest.param(sqlite3.SQLITE_IOERR_WRITE, StoreError, True, id="disk I/O"),
        pytest.param(None, StoreError, True, id="an error without a code"),
    ],
)
def test_every_error_of_sqlite_has_a_remedy(tmp_path, code, kind, retryable):
    failure = sqlite3.OperationalError("because")
    if code is not None:
        failure.sqlite_errorcode = code
    with pytest.raises(StoreError) as caught, translated(tmp_path / FILE):
        raise failure
    assert type(caught.value) is kind
    assert caught.value.retryable == retryable
    assert caught.value.hint
    assert str(tmp_path / FILE) in str(caught.value)


def test_a_hash_that_reads_as_text_is_damage(healthy):
    with sqlite3.connect(healthy / FILE) as database:
        assert database.execute("UPDATE waiting SET query_hash = 'text'").rowcount > 0
    database.close()
    store = SqliteStore(healthy, synchronous="OFF")
    assert store.shard.waiting_count() == 0
    [row] = store.damage.rows()
    assert (row.what, row.name) == ("index", "waiting_by_hash")
    store.close()
