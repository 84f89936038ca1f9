"""`ragmon verify` calls a sound store sound; every damage is told, and costs itself only."""

import json
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from ragmon.cli import main
from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.errors import StoreError
from ragmon.stores import identity
from ragmon.stores.compression import compressor
from ragmon.stores.sqlite import SqliteStore
from ragmon.stores.sqlite.store import FILE
from ragmon.stores.sqlite.verification import verify
from tests.support.examples import NOON, pipeline, record, windows
from tests.support.rig import rated, sent
from tests.support.stores import small_pieces

PIPELINE = pipeline(ks=(1,))
PAGE = 16_384
RECORDS = 48


def filled(directory):
    """A store as the engine fills it: batches, feedback, a snapshot, and more after it."""
    directory.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(directory, synchronous="OFF")
    engine = Engine(
        store, PIPELINE, windows(PIPELINE), ManualClock(NOON), Settings(data_dir=directory)
    )
    engine.restore()
    chance = random.Random(5)
    for start in range(0, RECORDS, 6):
        records = [
            record(f"q{at}", at=NOON - at, answer=chance.randbytes(3_000).hex())
            for at in range(start, start + 6)
        ]
        changes = [rated(f"q{start}", -1.0), rated(f"late{start}")]
        engine.committer.commit([sent(*records, changes=changes)], NOON)
        store.shard.index()
        if start == 30:
            engine.snapshot()
    return store


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """The directory of a closed store, and another with a write-ahead log."""
    root = tmp_path_factory.mktemp("healthy")
    with small_pieces():
        store = filled(root / "closed")
        shutil.copytree(root / "closed", root / "log", ignore=shutil.ignore_patterns("*-shm"))
        store.close()
    return root


def copy_of(healthy, tmp_path, name="closed"):
    return Path(shutil.copytree(healthy / name, tmp_path / "copy"))


def execute(directory, statement, *values):
    db = sqlite3.connect(directory / FILE)
    db.execute(statement, values)
    db.commit()
    db.close()


def told(directory):
    return {(finding.what, finding.row) for finding in verify(directory / FILE).findings}


@pytest.mark.parametrize("name", ["closed", "log"])
def test_a_sound_store(healthy, tmp_path, name):
    stages = []
    directory = copy_of(healthy, tmp_path, name)
    result = verify(
        directory / FILE, lambda stage, done, total: stages.append((stage, done, total))
    )
    assert result.findings == []
    assert (result.format, result.blocks, result.records) == (3, 8, RECORDS)
    assert result.indexed == RECORDS
    assert result.without_checksum == 0
    assert {stage for stage, _, _ in stages} == {"structure", "blocks", "id index", "duplicates"}


def test_rows_with_the_checksum_of_their_compression_are_not_called_older(healthy, tmp_path):
    directory = copy_of(healthy, tmp_path)
    execute(directory, "CREATE TABLE minutes (tier INTEGER, bucket INTEGER, body BLOB)")
    execute(directory, "INSERT INTO minutes VALUES (0, 1, ?)", compressor().compress(b"minute"))
    result = verify(directory / FILE)
    assert result.sound
    assert result.without_checksum == 0


def test_a_store_in_use(tmp_path):
    with small_pieces():
        store = filled(tmp_path)
        assert verify(tmp_path / FILE).sound
        store.shard.compact(0, 36)
        assert verify(tmp_path / FILE).sound
        store.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        pytest.param(
            "UPDATE blocks SET body = (SELECT body FROM blocks WHERE first_sequence = 6)"
            " WHERE first_sequence = 12",
            ("block", "12"),
            id="the records of another block",
        ),
        pytest.param(
            "UPDATE blocks SET last_timestamp = 5 WHERE first_sequence = 18",
            ("block", "18"),
            id="another time",
        ),
        pytest.param(
            "UPDATE amendments SET sequence = 1 WHERE sequence = 6",
            ("amendment", "1"),
            id="feedback of another query",
        ),
        pytest.param(
            "UPDATE waiting SET kind = 'label' WHERE rowid = 2", ("waiting", "2"), id="another kind"
        ),
        pytest.param(
            "UPDATE restatements SET old = new", ("restatement", "7"), id="another restatement"
        ),
        pytest.param(
            "UPDATE windows SET bucket = bucket + 100000 WHERE tier = 3",
            ("windows", "3/"),
            id="a bucket",
        ),
        pytest.param(
            "UPDATE runs SET entries = zeroblob(48) WHERE run = 11", ("index", "run 11"), id="a run"
        ),
        pytest.param("DELETE FROM runs WHERE run = 23", ("index", ""), id="a run that is gone"),
        pytest.param("UPDATE meta SET value = '7' WHERE name = 'seed'", ("block", "0"), id="seed"),
    ],
)
def test_what_is_at_the_wrong_place_is_named(healthy, tmp_path, statement, finding):
    directory = copy_of(healthy, tmp_path)
    execute(directory, statement)
    assert any(what == finding[0] and row.startswith(finding[1]) for what, row in told(directory))


def test_an_id_stored_twice_is_told(tmp_path):
    with small_pieces():
        store = filled(tmp_path)
        known = store.shard.hash("q3")
        store.shard._ids._tail.clear()
        store.shard._ids._generations.clear()
        engine = Engine(
            store, PIPELINE, windows(PIPELINE), ManualClock(NOON), Settings(data_dir=tmp_path)
        )
        engine.committer.commit([sent(record("q3", at=NOON))], NOON)
        assert ("duplicate", f"hash {known}") in told(tmp_path)
        store.close()


def test_the_command(healthy, tmp_path, capsys):
    directory = copy_of(healthy, tmp_path)
    assert main(["verify", "--data-dir", str(directory)]) == 0
    assert capsys.readouterr().out.endswith("48 queries, 48 ids in the index on disk\nsound\n")
    execute(directory, "UPDATE blocks SET body = zeroblob(90) WHERE first_sequence = 12")
    assert main(["verify", "--json", "--file", str(directory / FILE)]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["sound"]
    [finding] = result["findings"]
    assert (finding["what"], finding["row"]) == ("block", "12")
    assert "restore a backup" in finding["remedy"]
    assert main(["verify", "--data-dir", str(directory)]) == 1
    assert capsys.readouterr().out.startswith("block 12: ")


@pytest.mark.parametrize("words", [(), ("--file", "nowhere")])
def test_what_cannot_be_checked_is_no_damage(tmp_path, capsys, words):
    assert main(["verify", "--data-dir", str(tmp_path), *words]) == 2
    assert "does not exist" in capsys.readouterr().err


# ---- whatever is done to the bytes ----------------------------------------------------------


def flip(data, chance, pages):
    for _ in range(chance.choice((1, 3, 20))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(7)


def zero(data, chance, pages):
    at = chance.randrange(pages) * PAGE
    data[at : at + PAGE] = bytes(len(data[at : at + PAGE]))


def swap(data, chance, pages):
    one, two = (PAGE * at for at in chance.sample(range(pages), 2))
    data[one : one + PAGE], data[two : two + PAGE] = (
        bytes(data[two : two + PAGE]),
        bytes(data[one : one + PAGE]),
    )


def cut(data, chance, pages):
    del data[chance.randrange(len(data) // 4, len(data)) :]


@pytest.fixture(scope="module")
def sound(healthy, tmp_path_factory):
    """Every record of the healthy store, by sequence number."""
    records, damaged = used(copy_of(healthy, tmp_path_factory.mktemp("sound")))
    assert (len(records), damaged) == (RECORDS, 0)
    return records


def harm(path, kind, seed):
    data = bytearray(path.read_bytes())
    kind(data, random.Random(seed), max(2, len(data) // PAGE))
    path.write_bytes(data)


def used(directory):
    """Every record that a damaged store still gives, by sequence number; None where refused."""
    with small_pieces():
        try:
            store = SqliteStore(directory, synchronous="OFF")
        except StoreError as error:
            return None, len(error.hint)
        try:
            return records_of(store), sum(store.damage.counts().values())
        except StoreError as error:
            return {}, len(error.hint)
        finally:
            store.close()


def records_of(store):
    read = {at: store.shard.record(at) for at in range(RECORDS)}
    list(store.state.load_windows()[2])
    list(store.state.follow({}))
    store.shard.find_many(
        identity.np.array([store.shard.hash(f"q{at}") for at in range(RECORDS)], "u8")
    )
    store.shard.waiting([store.shard.hash(f"late{at}") for at in range(0, RECORDS, 6)])
    with store.reader() as reader:
        for block in reader.blocks(0.0, 2 * NOON):
            records = reader.records(block.first_sequence)
            for at, body in enumerate(records, block.first_sequence):
                assert read[at] in (None, body)
    return {at: body for at, body in read.items() if body is not None}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", [flip, zero, swap, cut])
def test_damage_to_the_file_never_gives_a_wrong_record_and_verify_tells(
    healthy, sound, tmp_path, kind, seed
):
    directory = copy_of(healthy, tmp_path)
    before = (directory / FILE).read_bytes()
    harm(directory / FILE, kind, seed)
    if (directory / FILE).read_bytes() == before:
        return
    found = found_by_verify(directory)
    read, damaged = used(directory)
    if read is not None:
        assert all(sound[at] == body for at, body in read.items())
        assert found or (len(read) == RECORDS and not damaged)


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("kind", [flip, zero, cut])
def test_damage_to_the_log_never_gives_a_wrong_record(healthy, sound, tmp_path, kind, seed):
    directory = copy_of(healthy, tmp_path, "log")
    harm(directory / f"{FILE}-wal", kind, seed)
    found_by_verify(directory)
    read, _ = used(directory)
    if read is not None:
        assert all(sound[at] == body for at, body in read.items())


def found_by_verify(directory):
    try:
        return bool(verify(directory / FILE).findings)
    except StoreError as error:
        return bool(error.hint)
