"""`ragmon backup --to DIR` and `ragmon restore`: complete, checked, private, and nothing else."""

import hashlib
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ragmon.backups import (
    CHECKSUM,
    BackupError,
    backup_name,
    complete,
    is_backup,
    keep_newest,
)
from ragmon.backups.directory import DirectoryPlace
from ragmon.backups.making import make
from ragmon.backups.restoring import fetch
from ragmon.cli import backup, main
from ragmon.clock import ManualClock
from ragmon.stores.sqlite import verification
from ragmon.stores.sqlite.commit_log import COMMITS_FILE
from ragmon.stores.sqlite.lease import DirectoryLease
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE, SqliteStore
from tests.support.daemons import running
from tests.support.examples import NOON, record
from tests.support.stores import commit_of, encode
from tests.support.wait import eventually

HOUR = 3_600.0


def filled(directory: Path, queries: int = 5) -> SqliteStore:
    directory.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(directory, synchronous="OFF")
    add(store, "q", queries)
    return store


def add(store: SqliteStore, name: str, queries: int = 5, answer: str = "yes") -> None:
    records = [record(f"{name}{at}", at=NOON - at, answer=answer) for at in range(queries)]
    commit = commit_of(store, [each.query_id for each in records], [NOON] * queries)
    commit.records = encode(records)
    store.shard.commit(commit)


def test_every_stage_says_how_far_it_is(data, tmp_path):
    reports: dict[str, list[tuple[int, int]]] = {}

    def progress(stage: str, done: int, total: int) -> None:
        reports.setdefault(stage, []).append((done, total))

    place = DirectoryPlace(tmp_path / "place")
    backup = make(data / FILE, place, NOON, keep=1, scratch=tmp_path, progress=progress).backup
    size = (data / FILE).stat().st_size
    assert next(iter(reports)) == "Copying"
    assert [*reports][-2:] == ["Compressing", "Storing"]
    assert len(reports) > 5  # between them it is checked
    assert reports["Copying"][-1][0] == reports["Copying"][-1][1] >= size
    assert reports["Compressing"][-1] == (reports["Copying"][-1][1] * 2,) * 2
    reports.clear()
    (tmp_path / "again").mkdir()
    fetch(place, backup, tmp_path / "again", progress)
    assert [*reports][:2] == ["Fetching", "Unpacking"]
    assert reports["Unpacking"][-1] == (backup.size_bytes, backup.size_bytes)


def test_a_copy_is_of_one_moment_whatever_is_committed_between_its_steps(tmp_path):
    store = filled(tmp_path / "data", 1)
    for number in range(16):
        add(store, f"long{number}", 1, random.Random(number).randbytes(400_000).hex())
    copied: list[int] = []

    def meanwhile(done: int, _total: int) -> None:
        assert not copied or done > copied[-1], "it began anew"
        copied.append(done)
        add(store, f"meanwhile{len(copied)}-")

    with SqliteReader(tmp_path / "data" / FILE) as reader:
        reader.backup(tmp_path / "copy.sqlite", meanwhile)
    store.close()
    assert len(copied) > 1
    result = verification.verify(tmp_path / "copy.sqlite")
    assert (result.findings, result.records) == ([], 17)


def made(store_dir: Path, place: DirectoryPlace, now: float, *, keep: int = 28):
    return make(store_dir / FILE, place, now, keep=keep, scratch=store_dir)


@pytest.fixture
def data(tmp_path):
    """The directory of a store that is open, as that of a running daemon."""
    store = filled(tmp_path / "data")
    yield tmp_path / "data"
    store.close()


def run(*words: object) -> int:
    return main([str(word) for word in words])


# ------------------------------------------------------------------------------------ making


def test_a_running_daemon_is_backed_up_and_restored(tmp_path, capsys):
    place = tmp_path / "backups"
    with running(tmp_path / "data") as site:
        site.post("/v1/queries", [{"pipeline": "kept", "query_id": f"q{at}"} for at in range(50)])
        assert run("backup", "--to", place, "--data-dir", tmp_path / "data") == 0
        assert "50 queries" in capsys.readouterr().out
        site.post("/v1/queries", {"pipeline": "kept", "query_id": "too late"})
    [name] = [path.name for path in place.iterdir() if is_backup(path.name)]
    assert re.fullmatch(r"ragmon-\d{8}T\d{6}Z\.sqlite\.zst", name)
    assert {path.name for path in place.iterdir()} == {name, name + CHECKSUM}
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    assert place.stat().st_mode & 0o777 == 0o700
    assert run("restore", place, "--data-dir", tmp_path / "new") == 0
    assert "50 queries, sound" in capsys.readouterr().out
    with running(tmp_path / "new") as site:
        assert site.total("ragmon_queries_total", pipeline="kept") == 50
        assert site.get("/v1/queries/q49").status == 200
        assert site.get("/v1/queries/too%20late").status == 404
        assert site.total("ragmon_store_lost_commits") == 0


def test_the_checksum_is_what_sha256sum_reads(data, tmp_path):
    made(data, DirectoryPlace(tmp_path / "b"), NOON)
    command = ["sha256sum", "--check", "--strict", backup_name(NOON) + CHECKSUM]
    subprocess.run(command, cwd=tmp_path / "b", check=True, capture_output=True)


def test_the_newest_are_kept_and_other_files_are_left_alone(data, tmp_path):
    place = DirectoryPlace(tmp_path / "b")
    (tmp_path / "b").mkdir()
    others = {"notes.txt", "ragmon-2026.sqlite.zst", "ragmon-x.sqlite.zst.sha256"}
    for name in others:
        (tmp_path / "b" / name).write_text("mine")
    interrupted = backup_name(NOON - HOUR)
    (tmp_path / "b" / interrupted).write_text("half of it")
    for at in range(5):
        result = made(data, place, NOON + at * HOUR, keep=3)
        assert len(result.deleted) == (at == 0 or at >= 3)  # first what was interrupted
    newest = [backup_name(NOON + at * HOUR) for at in (2, 3, 4)]
    assert [each.name for each in complete(place)] == newest
    names = {path.name for path in (tmp_path / "b").iterdir()}
    assert names == {*others, *newest, *(name + CHECKSUM for name in newest)}


def test_what_another_process_is_still_writing_is_not_deleted(data, tmp_path):
    place = DirectoryPlace(tmp_path / "b")
    made(data, place, NOON)
    later = tmp_path / "b" / backup_name(NOON + HOUR)
    later.write_text("its checksum comes in a moment")
    assert keep_newest(place, 1) == []
    assert later.exists()
    assert [each.name for each in complete(place)] == [backup_name(NOON)]


def test_a_damaged_store_is_not_backed_up_and_no_backup_is_deleted(tmp_path, capsys):
    filled(tmp_path / "data").close()
    place = DirectoryPlace(tmp_path / "b")
    made(tmp_path / "data", place, NOON)
    db = sqlite3.connect(tmp_path / "data" / FILE)
    db.execute("UPDATE blocks SET body = x'c100'")
    db.commit()
    db.close()
    words = ("--to", tmp_path / "b", "--keep", 1, "--data-dir", tmp_path / "data")
    assert run("backup", *words) == 2
    err = capsys.readouterr().err
    assert "the store is damaged: block 0" in err
    assert "no backup was made and none deleted" in err
    assert [each.name for each in complete(place)] == [backup_name(NOON)]


def test_a_directory_that_cannot_be_written_leaves_nothing(data, tmp_path, capsys):
    (tmp_path / "b").write_text("a file")
    assert run("backup", "--to", tmp_path / "b", "--data-dir", data) == 2
    err = capsys.readouterr().err
    assert f"cannot write to {tmp_path / 'b'}" in err
    assert err.count("\n") == 1


def test_a_full_disk_leaves_no_half_of_a_backup(data, tmp_path, monkeypatch):
    place = DirectoryPlace(tmp_path / "b")

    def fill(_source, target):
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(BackupError, match="No space left"):
        made(data, place, NOON)
    assert list((tmp_path / "b").iterdir()) == []
    assert not list(data.glob(".ragmon-backup-*"))


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (("--to", "ftp://host/x"), 2, "write a directory or s3://bucket/prefix"),
        (("--to", "b", "--every", "soon"), 2, "is not a duration"),
        (("--to", "b", "--keep", "0"), 2, "greater than or equal to 1"),
        ((), 2, "give a FILE, or --to PLACE"),
    ],
)
def test_wrong_words_are_refused(data, words, status, error):
    command = [sys.executable, "-m", "ragmon", "backup", *words, "--data-dir", str(data)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == status
    assert error in done.stderr


# --------------------------------------------------------------------------------- repeating


class StoppingClock(ManualClock):
    """Ends the loop after some pauses."""

    def __init__(self, now: float, pauses: int) -> None:
        super().__init__(now)
        self.pauses = []
        self._most = pauses

    def sleep(self, seconds: float) -> None:
        if len(self.pauses) == self._most:
            raise KeyboardInterrupt
        self.pauses.append(seconds)
        super().sleep(seconds)


def repeat(data: Path, place: Path, clock: ManualClock, *words: str) -> None:
    parser = main.__globals__["argparse"].ArgumentParser()
    backup.arguments(parser)
    args = parser.parse_args(["--to", str(place), "--every", "6h", *words])
    args.rest, args.parser = [f"--data-dir={data}"], parser
    with pytest.raises(KeyboardInterrupt):
        backup.run(args, clock)


def metrics(path: Path) -> dict[str, float]:
    lines = path.read_text().splitlines()
    return {name: float(value) for name, value in
            (line.split() for line in lines if not line.startswith("#"))}  # fmt: skip


def test_it_goes_on_at_its_interval_and_counts_what_is_there(data, tmp_path):
    place = DirectoryPlace(tmp_path / "b")
    made(data, place, NOON - 2 * HOUR)
    clock = StoppingClock(NOON, pauses=2)
    repeat(data, tmp_path / "b", clock)
    assert clock.pauses == [4 * HOUR, 6 * HOUR]
    assert [each.made_at for each in complete(place)] == [
        NOON - 2 * HOUR,
        NOON + 4 * HOUR,
        NOON + 10 * HOUR,
    ]


def test_failures_are_retried_logged_and_told_to_prometheus(data, tmp_path, capsys):
    place, textfile = tmp_path / "b", tmp_path / "ragmon_backup.prom"
    place.write_text("in the way")
    repeat(data, place, StoppingClock(NOON, pauses=4), "--textfile", str(textfile))
    told = metrics(textfile)
    assert told["ragmon_backup_failures"] == 4
    assert told["ragmon_backup_last_success_timestamp_seconds"] == 0
    assert told["ragmon_backup_last_failure_timestamp_seconds"] == NOON + 60 + 120 + 240
    assert "backup_failed" in capsys.readouterr().err
    place.unlink()
    repeat(data, place, StoppingClock(NOON + HOUR, pauses=1), "--textfile", str(textfile))
    told = metrics(textfile)
    assert told["ragmon_backup_failures"] == 0
    assert told["ragmon_backup_last_success_timestamp_seconds"] == NOON + HOUR
    assert told["ragmon_backup_last_size_bytes"] > 0
    assert told["ragmon_backup_interval_seconds"] == 6 * HOUR
    assert textfile.stat().st_mode & 0o777 == 0o644


@pytest.mark.end_to_end
def test_a_process_that_goes_on_ends_with_sigterm_and_leaves_nothing(data, tmp_path):
    place, scratch = tmp_path / "b", tmp_path / "scratch"
    scratch.mkdir()
    words = [f"--data-dir={data}", "--to", str(place), "--every", "1h"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ragmon", "backup", *words],
        env=os.environ | {"TMPDIR": str(scratch)},
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: place.is_dir() and complete(DirectoryPlace(place)), timeout_s=60.0)
        process.terminate()
        assert process.wait(30.0) == 0
    finally:
        process.kill()
        process.wait()
    assert len(complete(DirectoryPlace(place))) == 1
    assert not list(scratch.iterdir())


# --------------------------------------------------------------------------------- restoring


@pytest.fixture
def backups(tmp_path):
    """A directory with two backups, of five queries and of ten."""
    store = filled(tmp_path / "source")
    place = DirectoryPlace(tmp_path / "b")
    made(tmp_path / "source", place, NOON)
    add(store, "more")
    made(tmp_path / "source", place, NOON + HOUR)
    store.close()
    return tmp_path / "b"


def stored(data: Path) -> int:
    return verification.verify(data / FILE).records


def test_the_newest_is_restored_or_the_one_that_is_named(backups, tmp_path, capsys):
    assert run("restore", backups, "--list", "--data-dir", tmp_path / "none") == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [backup_name(NOON), backup_name(NOON + HOUR)]
    assert not (tmp_path / "none").exists()
    assert run("restore", tmp_path / "nowhere", "--list", "--data-dir", tmp_path / "none") == 0
    assert capsys.readouterr().out == f"No backup is complete in {tmp_path / 'nowhere'}.\n"
    assert run("restore", backups, "--data-dir", tmp_path / "new") == 0
    assert stored(tmp_path / "new") == 10
    assert run("restore", backups / backup_name(NOON), "--data-dir", tmp_path / "old") == 0
    assert stored(tmp_path / "old") == 5
    left = {path.name for path in (tmp_path / "old").iterdir()}
    assert left - {f"{FILE}-wal", f"{FILE}-shm"} == {FILE, "lock"}
    assert (tmp_path / "old" / FILE).stat().st_mode & 0o777 == 0o600


def test_a_store_that_is_there_is_replaced_only_by_force_and_kept(backups, tmp_path, capsys):
    data = tmp_path / "data"
    filled(data, queries=3).close()
    shutil.copy(data / FILE, tmp_path / "before")
    assert run("restore", backups, "--data-dir", data) == 2
    assert "Use --force" in capsys.readouterr().err
    assert (data / FILE).read_bytes() == (tmp_path / "before").read_bytes()
    assert run("restore", backups, "--force", "--data-dir", data) == 0
    assert stored(data) == 10
    [aside] = data.glob(f"{FILE}.before-restore-*")
    assert aside.read_bytes() == (tmp_path / "before").read_bytes()
    assert not (data / COMMITS_FILE).exists()


def test_the_log_of_the_store_before_is_not_applied_to_the_restored_one(backups, tmp_path):
    store = filled(tmp_path / "live", queries=3)
    data = tmp_path / "data"
    shutil.copytree(tmp_path / "live", data, ignore=shutil.ignore_patterns("*-shm"))
    store.close()
    assert (data / f"{FILE}-wal").stat().st_size > 0
    assert run("restore", backups, "--force", "--data-dir", data) == 0
    assert stored(data) == 10
    [aside] = data.glob(f"{FILE}.before-restore-*Z")
    assert verification.verify(aside).records == 3


def test_a_running_daemon_is_never_replaced(backups, tmp_path, capsys):
    data = tmp_path / "data"
    filled(data, queries=3).close()
    lock = DirectoryLease(data)
    try:
        assert run("restore", backups, "--force", "--data-dir", data) == 2
    finally:
        lock.release()
    assert "in use by another ragmon" in capsys.readouterr().err
    assert stored(data) == 3


@pytest.mark.parametrize("harm", ["content", "checksum", "lost", "unsound"])
def test_what_is_damaged_is_not_put_in_place(backups, tmp_path, harm, capsys):
    name = backup_name(NOON + HOUR)
    path = backups / name
    if harm == "content":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif harm == "checksum":
        (backups / (name + CHECKSUM)).write_text("0" * 64 + f"  {name}\n")
    elif harm == "lost":
        (backups / (name + CHECKSUM)).unlink()
    else:
        unsound(path)
    assert run("restore", path, "--data-dir", tmp_path / "new") == 2
    assert name in capsys.readouterr().err
    assert not (tmp_path / "new" / FILE).exists()
    assert not list((tmp_path / "new").glob(".r*")) if (tmp_path / "new").exists() else True


def unsound(path: Path) -> None:
    """Damage a row before it was compressed, with the right checksum around it."""
    from ragmon.backups import making
    from ragmon.backups.restoring import _unpack

    plain = path.with_name("plain")
    _unpack(path, plain)
    db = sqlite3.connect(plain)
    db.execute("UPDATE blocks SET body = x'c100'")
    db.commit()
    db.close()
    path.unlink()
    digest = making.compress(plain, path)
    plain.unlink()
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / (path.name + CHECKSUM)).write_text(f"{digest}  {path.name}\n")


def test_no_backup_is_a_clear_error(tmp_path, capsys):
    assert run("restore", tmp_path, "--data-dir", tmp_path / "new") == 2
    assert f"no complete backup in {tmp_path}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        run("restore", "--data-dir", tmp_path / "new")
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []
