"""Backups in S3, against a server that speaks it (moto), and against one that fails."""

import contextlib
import hashlib
import os
import random
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from ragmon.backups import BackupError, backup_name, complete, s3
from ragmon.backups.making import make
from ragmon.backups.s3 import S3Place
from ragmon.cli import main
from ragmon.clock import SystemClock
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.stores.sqlite.verification import verify
from tests.support.daemons import running
from tests.support.examples import NOON, record
from tests.support.object_store import moto
from tests.support.stores import commit_of, encode
from tests.support.wait import eventually


class PatientClock(SystemClock):
    """Remembers pauses instead of waiting."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    with moto() as store:
        yield store.url


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.fixture
def place(server, request):
    """A new bucket, and a prefix in it."""
    bucket = "b" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    requests.put(f"{server}/{bucket}", timeout=10).raise_for_status()
    return S3Place(
        f"s3://{bucket}/ragmon/prod", endpoint=server, region="us-east-1", clock=PatientClock()
    )


@pytest.mark.parametrize("size", [0, 1, 5 << 20, (11 << 20) + 7])
def test_what_is_put_is_got(place, tmp_path, monkeypatch, size):
    monkeypatch.setattr(s3, "_PART_BYTES", 5 << 20)  # the least that S3 takes
    content = random.Random(size).randbytes(size)
    (tmp_path / "source").write_bytes(content)
    place.put(tmp_path / "source", "a name+with=odd ~characters.bin")
    (stored,) = place.files()
    assert stored == ("a name+with=odd ~characters.bin", size)
    place.get(stored.name, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content
    place.delete(stored.name)
    place.delete(stored.name)
    assert list(place.files()) == []


def test_objects_are_listed_with_folders_and_times(place, tmp_path):
    (tmp_path / "source").write_bytes(b"content")
    names = ["a.jsonl", "dt=2026-11-22/b.jsonl", "x/y/c d.jsonl"]
    for name in names:
        place.put(tmp_path / "source", name)
    listed = list(place.objects())
    assert sorted(each.name for each in listed) == names
    assert {each.size_bytes for each in listed} == {7}
    assert all(re.fullmatch(r"20\d\d-.*T.*Z", each.modified) for each in listed)
    assert len({len(each.modified) for each in listed}) == 1
    with (tmp_path / "target").open("w+b") as file:
        place.get_into("x/y/c d.jsonl", file)
        file.seek(0)
        assert file.read() == b"content"


def test_a_daemon_reads_the_objects_of_a_bucket_once(place, server, tmp_path):
    entry = {"kind": "objects", "url": place.url, "endpoint": server, "settle_s": 0, "poll_s": 0.1}

    def stored(site):
        return site.get("/v1/queries?limit=100&until=2100-01-01").json["matches"]

    def put(name, first):
        rows = (b'{"query_id": "o%d", "query": "why"}' % at for at in range(first, first + 20))
        (tmp_path / "source").write_bytes(b"\n".join(rows))
        place.put(tmp_path / "source", name)

    put("dt=1/a.jsonl", 0)
    with running(tmp_path / "data", sources=[entry]) as site:
        eventually(lambda: stored(site) == 20, "the first object is stored", timeout_s=60)
    put("dt=0/b.jsonl", 20)
    with running(tmp_path / "data", sources=[entry]) as site:
        eventually(lambda: stored(site) == 40, "the second object is stored", timeout_s=60)
        figures = site.get("/metrics").text
    assert re.search(r'ragmon_ingest_records_total{source="objects"} 20\b', figures)
    assert not re.search(r'ragmon_duplicates_total{source="objects"} [1-9]', figures)


def test_a_role_of_kubernetes_is_enough(server, tmp_path, monkeypatch):
    requests.put(f"{server}/of-a-role", timeout=10).raise_for_status()
    (tmp_path / "token").write_text("of the service account")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/backup")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server)
    place = S3Place("s3://of-a-role/p", endpoint=server, region="x", clock=PatientClock())
    (tmp_path / "source").write_bytes(b"content")
    place.put(tmp_path / "source", "file")
    assert [file.name for file in place.files()] == ["file"]


def test_a_long_list_comes_in_pages_and_without_other_prefixes(place, tmp_path, server):
    (tmp_path / "empty").write_bytes(b"x")
    names = {f"f{at}" for at in range(1_010)}
    base = f"{server}/{place.url.removeprefix('s3://').partition('/')[0]}"
    with requests.Session() as session:
        for name in names:
            session.put(f"{base}/ragmon/prod/{name}", data=b"x", timeout=10)
        session.put(f"{base}/ragmon/production", data=b"x", timeout=10)
        session.put(f"{base}/ragmon/prod/deeper/f", data=b"x", timeout=10)
    assert {file.name for file in place.files()} == names


def test_a_store_is_backed_up_and_restored_by_the_commands(place, server, tmp_path, capsys):
    (tmp_path / "data").mkdir()
    store = SqliteStore(tmp_path / "data", synchronous="OFF")
    records = [record(f"q{at}", at=NOON) for at in range(7)]
    commit = commit_of(store, [each.query_id for each in records], [NOON] * 7)
    commit.records = encode(records)
    store.shard.commit(commit)
    for at in range(3):
        make(tmp_path / "data" / FILE, place, NOON + at, keep=2, scratch=tmp_path)
    store.close()
    assert [each.name for each in complete(place)] == [backup_name(NOON + at) for at in (1, 2)]
    options = [f"--backup.endpoint={server}", "--data-dir", str(tmp_path / "data")]
    assert main(["backup", "--to", place.url, "--keep", "5", *options]) == 0
    assert "7 queries" in capsys.readouterr().out
    options = [f"--backup.endpoint={server}", "--data-dir", str(tmp_path / "new")]
    assert main(["restore", place.url, "--list", *options]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["restore", f"{place.url}/{backup_name(NOON + 1)}", *options]) == 0
    assert verify(tmp_path / "new" / FILE).records == 7


def test_a_bucket_that_is_missing_is_told(server, tmp_path):
    place = S3Place("s3://nothing-here", endpoint=server, region="x", clock=PatientClock())
    with pytest.raises(BackupError, match=r"refused GET of the list with 404: NoSuchBucket"):
        list(place.files())


class Failing(BaseHTTPRequestHandler):
    """Fails as often as it was told, then answers."""

    protocol_version = "HTTP/1.1"
    failures: list[int]
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.headers.get("Range", ""))
        status = self.failures.pop(0) if self.failures else 200
        body = b"0123456789"
        if status == 1:  # breaks off in the middle
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(body[:4])
            self.close_connection = True
            return
        begin = int(self.headers.get("Range", "bytes=0-")[6:-1])
        answer = body[begin:] if status == 200 else b"<Error><Code>Slow</Code></Error>"
        self.send_response(206 if begin else status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextlib.contextmanager
def failing(*failures: int) -> Iterator[tuple[S3Place, PatientClock, list[str]]]:
    handler = type("Handler", (Failing,), {"failures": list(failures), "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        clock = PatientClock()
        url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield S3Place("s3://b", endpoint=url, region="x", clock=clock), clock, handler.asked
        finally:
            http.shutdown()
            thread.join()


def test_a_busy_server_is_asked_again_after_growing_pauses(tmp_path):
    with failing(503, 500, 429) as (place, clock, _):
        place.get("name", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"0123456789"
    assert clock.pauses == [1.0, 2.0, 4.0]


def test_a_server_that_stays_busy_is_given_up(tmp_path):
    with (
        failing(*[503] * 9) as (place, clock, asked),
        pytest.raises(BackupError, match="with 503: Slow"),
    ):
        place.get("name", tmp_path / "target")
    assert len(asked) == 5
    assert clock.pauses == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [301, 400, 403, 404])
def test_a_refusal_is_not_repeated(tmp_path, status):
    with failing(status) as (place, clock, _), pytest.raises(BackupError, match=f"with {status}"):
        place.get("name", tmp_path / "target")
    assert clock.pauses == []


def test_a_connection_that_breaks_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(s3, "_CHUNK_BYTES", 2)
    with failing(1) as (place, _, asked):
        place.get("name", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"0123456789"
    assert asked == ["", "bytes=4-"]


def test_nobody_listens(tmp_path):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        place = S3Place("s3://b/p", endpoint=url, region="x", clock=PatientClock())
        with pytest.raises(BackupError, match="does not answer"):
            list(place.files())


@pytest.mark.parametrize(
    ("bucket", "base"),
    [
        ("plain", "https://plain.s3.eu-west-1.amazonaws.com"),
        ("with.dot", "https://s3.eu-west-1.amazonaws.com/with.dot"),
    ],
)
def test_addresses_at_aws(bucket, base):
    place = S3Place(f"s3://{bucket}/p/", endpoint="", region="eu-west-1", clock=PatientClock())
    assert place._client.base == base
