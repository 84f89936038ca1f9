"""What is damaged on disk costs itself only: it is left out, counted and reported once."""

import random
import sqlite3
from contextlib import closing
from itertools import islice

import numpy as np
import pytest

from ragmon.errors import StoreCorruptError
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting, joining
from ragmon.stores.damage import Damage
from ragmon.stores.identity import find_in_page
from ragmon.stores.packing import BlockSpan, read_hashes
from ragmon.stores.sealing import MARK, is_sealed, seal, unseal
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.windows.snapshot import SavedBucket
from tests.support.stores import commit_of, encode, numbers, small_pieces

NAMES = [f"id-{at}" for at in range(40)]


@pytest.fixture
def directory(tmp_path):
    """A closed store of ten blocks of four records, each with a change and a correction."""
    with small_pieces():
        store = SqliteStore(tmp_path, synchronous="OFF")
        chance = random.Random(3)
        for start in range(0, 40, 4):
            commit = commit_of(
                store,
                NAMES[start : start + 4],
                [float(start)] * 4,
                amendments=[(start, b"amended %d" % start)],
                restatement=Restatement(b"old %d" % start, b"new %d" % start),
                waiting=[Waiting(store.shard.hash(f"late-{start}"), "label", b"%d" % start, 1.0)],
            )
            commit.records = encode([chance.randbytes(9_000) for _ in range(4)])
            store.shard.commit(commit)
            store.shard.index()
        buckets = [SavedBucket(0, at, b"bucket %d" % at) for at in range(4)]
        store.state.save_windows(buckets, b"totals", {0: Position(0, 0)})
        store.close()
    return tmp_path


def rewrite(directory, *statements):
    db = sqlite3.connect(directory / FILE)
    for statement, *values in statements:
        assert db.execute(statement, values).rowcount == 1
    db.commit()
    db.close()


def flip(directory, column, row, at=0.5):
    """Change one bit of a stored body, in the middle or at another share of it."""
    table, _, where = row.partition(" ")
    db = sqlite3.connect(directory / FILE)
    (body,) = db.execute(f"SELECT {column} FROM {row}").fetchone()
    db.close()
    place = int(len(body) * at)
    broken = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
    rewrite(directory, (f"UPDATE {table} SET {column} = ? {where}", broken))


def everything(store):
    """All that a store gives, by kind."""
    with store.reader() as reader:
        blocks = list(reader.blocks(0.0, 1e9))
        read = {
            "blocks": [block.first_sequence for block in blocks],
            "amended": sorted(at for block in blocks for at in block.amendments),
            "opened": sorted(at for at in range(40) if reader.record(at)),
            "hashes": walked(reader),
            "buckets": [bucket.body for bucket in reader.saved_buckets(0, 0, 9)],
        }
    _, totals, buckets = store.state.load_windows()
    replayed = [entry.change for entry in store.state.follow({})]
    hashes = np.array([store.shard.hash(name) for name in NAMES], np.uint64)
    return read | {
        "loaded": [bucket.bucket for bucket in buckets],
        "totals": totals,
        "records": [at for at in range(40) if store.shard.record(at)],
        "replayed": [numbers(each)[0] for each in replayed if isinstance(each, bytes)],
        "restated": [each.old for each in replayed if isinstance(each, Restatement)],
        "known": [at for at, each in enumerate(store.shard.find_many(hashes)) if each is not None],
        "waiting": sorted(
            change.body
            for start in range(0, 40, 4)
            for change in store.shard.waiting([store.shard.hash(f"late-{start}")])
        ),
    }


def walked(reader):
    at, firsts = 0, []
    while (block := reader.hashes_from(at)) is not None:
        firsts.append(block[0])
        at = block[0] + len(block[1])
    return firsts


def without(values, *left_out):
    return [value for value in values if value not in left_out]


STARTS = list(range(0, 40, 4))
IN_FIFTH = [16, 17, 18, 19]
FIRST_PAGE = (
    "runs WHERE run = 15 AND first_hash = (SELECT min(first_hash) FROM runs WHERE run = 15)"
)
BLOCK_AT_16 = "blocks WHERE first_sequence = 16"


@pytest.mark.parametrize(
    ("column", "row", "kind", "lost"),
    [
        pytest.param(
            "body", BLOCK_AT_16, "block", {"records": IN_FIFTH, "opened": IN_FIFTH}, id="records"
        ),
        pytest.param(
            "observations",
            BLOCK_AT_16,
            "block",
            {"blocks": [16], "amended": [16], "replayed": [16]},
            id="observations",
        ),
        pytest.param("hashes", BLOCK_AT_16, "block", {"hashes": [16]}, id="hashes, of a run"),
        pytest.param(
            "body",
            "amendments WHERE sequence = 16",
            "amendment",
            {"amended": [16]},
            id="an amendment",
        ),
        pytest.param(
            "old",
            "restatements WHERE number = 5",
            "restatement",
            {"restated": [b"old 16"]},
            id="a restatement",
        ),
        pytest.param(
            "body", "waiting WHERE rowid = 5", "waiting", {"waiting": [b"16"]}, id="waiting"
        ),
        pytest.param(
            "body",
            "windows WHERE bucket = 2",
            "windows",
            {"loaded": [2], "buckets": [b"bucket 2"]},
            id="a bucket",
        ),
        pytest.param(
            "entries",
            FIRST_PAGE,
            "run",
            {},
            id="the id index, which is written anew",
        ),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_flipped_bit_costs_its_row_only(directory, column, row, kind, lost, share):
    with small_pieces():
        sound = SqliteStore(directory)
        whole = everything(sound)
        assert sum(sound.damage.counts().values()) == 0
        sound.close()
        flip(directory, column, row, share)
        store = SqliteStore(directory)
        heard = []
        store.damage.listen(heard.append)
        for _ in range(2):
            left = everything(store)
            expected = {name: without(whole[name], *lost.get(name, ())) for name in lost}
            assert left == whole | expected
        assert {each: n for each, n in store.damage.counts().items() if n} == {kind: 1}
        assert [each.what for each in heard] == [kind]
        store.close()


def test_damaged_totals_are_none_and_the_buckets_stay(directory):
    flip(directory, "value", "meta WHERE name = 'totals'")
    store = SqliteStore(directory)
    _, totals, buckets = store.state.load_windows()
    assert (totals, len(list(buckets))) == (None, 4)
    assert store.damage.counts()["totals"] == 1
    store.close()


@pytest.mark.parametrize("name", ["seed", "position", "next_sequence"])
def test_a_store_that_cannot_be_described_is_refused(directory, name):
    flip(directory, "value", f"meta WHERE name = '{name}'")
    with pytest.raises(StoreCorruptError, match=rf"checksum of meta {name} .*ragmon backup"):
        SqliteStore(directory)


@pytest.mark.parametrize("column", ["hashes", "observations", "body"])
def test_a_body_of_another_row_is_not_believed(directory, column):
    """A page that was written to a wrong place is as well formed as any."""
    db = sqlite3.connect(directory / FILE)
    rows = db.execute(
        f"SELECT {column} FROM blocks WHERE first_sequence IN (16, 20) ORDER BY first_sequence"
    ).fetchall()
    db.close()
    update = f"UPDATE blocks SET {column} = ? WHERE first_sequence = ?"
    rewrite(directory, (update, rows[1][0], 16), (update, rows[0][0], 20))
    store = SqliteStore(directory)
    everything(store)
    assert store.damage.counts()["block"] == 2
    assert {row.name for row in store.damage.rows()} == {"16", "20"}
    store.close()


@pytest.mark.parametrize("column", ["records", "first_timestamp", "last_timestamp"])
def test_the_head_of_a_block_belongs_to_its_checksum(directory, column):
    rewrite(directory, (f"UPDATE blocks SET {column} = {column} + 1 WHERE first_sequence = 36",))
    db = sqlite3.connect(directory / FILE)
    *span, hashes = db.execute(
        "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes FROM blocks"
        " WHERE first_sequence = 36"
    ).fetchone()
    db.close()
    with pytest.raises(ValueError, match="checksum of hashes 36"):
        read_hashes(hashes, BlockSpan(*span))


def test_what_is_sent_again_does_not_count_twice_although_its_block_is_damaged(directory):
    flip(directory, "body", BLOCK_AT_16)
    with small_pieces():
        store = SqliteStore(directory)
        hashes = np.array([store.shard.hash(name) for name in NAMES], np.uint64)
        assert None not in store.shard.find_many(hashes)
        assert store.shard.find(store.shard.hash("id-17")) == 17
        assert store.shard.record(17) is None
        store.close()


def test_a_damaged_run_is_written_anew_while_the_store_runs(directory):
    with small_pieces():
        store = SqliteStore(directory)
        flip(directory, "entries", FIRST_PAGE)
        assert [store.shard.find(store.shard.hash(name)) for name in NAMES] == list(range(40))
        assert store.damage.counts()["run"] == 1
        rows = store._db.rows("SELECT first_hash, entries FROM runs WHERE run = 15")
        for first, page in rows:
            unseal(page, "runs", 15, first)
        store.close()
        again = SqliteStore(directory)
        assert again.damage.counts()["run"] == 0
        again.close()


def test_changes_of_a_damaged_amendment_are_refused(directory):
    """To restate a query without what was counted of it would count it twice."""
    flip(directory, "body", "amendments WHERE sequence = 16")
    store = SqliteStore(directory)
    with pytest.raises(StoreCorruptError):
        store.shard.amendments([16])
    assert store.shard.amendments([12]) == {12: b"amended 12"}
    assert store.damage.counts()["amendment"] == 1
    store.close()


def test_blocks_are_joined_around_a_damaged_one(directory, monkeypatch):
    flip(directory, "body", BLOCK_AT_16)
    with small_pieces(), monkeypatch.context() as patch:
        patch.setattr(joining, "RECORDS", 16)
        store = SqliteStore(directory)
        store.state.save_windows([], b"", {0: Position(40, 10)})
        at = 0
        while at < 40:
            joined, at = store.shard.compact(at, 40)
            assert joined
        assert [bool(store.shard.record(at)) for at in range(40)] == [
            at not in IN_FIFTH for at in range(40)
        ]
        firsts = [row[0] for row in store._db.rows("SELECT first_sequence FROM blocks")]
        assert len(firsts) < 10
        store.close()


def test_blocks_are_joined_around_one_whose_body_is_missing(directory, monkeypatch):
    with closing(sqlite3.connect(directory / FILE)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')")
    rewrite(directory, ("UPDATE blocks SET body = NULL WHERE first_sequence = 16",))
    with small_pieces(), monkeypatch.context() as patch:
        patch.setattr(joining, "RECORDS", 64)
        store = SqliteStore(directory)
        store.state.save_windows([], b"", {0: Position(40, 10)})
        at = 0
        while at < 40:
            joined, at = store.shard.compact(at, 40)
            assert joined
        assert store.damage.counts()["block"]
        assert store.shard.record(16) is None
        assert store.shard.record(20) is not None
        store.close()


def test_a_damaged_block_expires(directory):
    flip(directory, "body", BLOCK_AT_16)
    with small_pieces():
        store = SqliteStore(directory)
        store.state.save_windows([], b"", {0: Position(40, 10)})
        while store.shard.expire(100.0, None):
            pass
        assert store._db.number("SELECT count(*) FROM blocks") == 0
        store.close()


def test_a_body_without_a_checksum_is_read_as_format_2_wrote_it():
    assert unseal(b"\x92plain", "amendments", 1) == b"\x92plain"
    assert not is_sealed(b"\x92plain")
    sealed = seal(b"plain", "amendments", 1)
    assert sealed.startswith(MARK)
    assert unseal(sealed, "amendments", 1) == b"plain"
    for key in (("amendments", 2), ("old", 1)):
        with pytest.raises(ValueError, match="does not match"):
            unseal(sealed, *key)
    assert find_in_page(b"", 1) is None


class Disordered:
    """A connection whose table of blocks answers with its first rows, whatever is asked for."""

    def __init__(self, db):
        self._db = db

    def execute(self, sql, parameters=()):
        begins_anywhere = "first_sequence >= ?" in sql
        return self._db.execute(sql, (0,) if begins_anywhere else parameters)


def test_a_table_out_of_order_is_walked_through_by_its_index_and_ends(directory):
    """Two exchanged pages once kept a restart reading the same blocks for ever."""
    with closing(sqlite3.connect(directory / FILE)) as db:
        damage = Damage()
        table = BlockTable(Disordered(db), directory / FILE, damage)
        begun = islice(table.from_sequence(0), 100)
        assert sorted(set(begun)) == STARTS
        assert {row.name for row in damage.rows()} == {"blocks"}
