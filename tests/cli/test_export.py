"""``ragmon export``: from a store and from a daemon, in every form, and after an interruption."""

import csv
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import Request, urlopen

import msgspec
import pytest

from ragmon.cli import main
from ragmon.cli.export_file import ExportFile, ExportState
from ragmon.clock import ManualClock, SystemClock
from ragmon.errors import SettingsError
from tests.support.daemons import running
from tests.support.modules import module
from tests.support.wait import eventually

QUERIES = 230
LARGE = "word " * 120_000  # of several, which one answer would not hold


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A daemon, its store, and what ``/v1/export`` sends of it."""
    data_dir = tmp_path_factory.mktemp("export") / "data"
    with running(data_dir) as daemon:
        now = SystemClock().now() - 3_600.0
        batch = [
            {
                "query_id": f"q/{at}",
                "pipeline": "docs" if at % 2 else "faq",
                "timestamp": now + at,
                "query": "=1+1" if at == 7 else f"question {at}",
                "answer": LARGE if 100 <= at < 110 else f"answer {at}\nwith a second line",
                "chunks": [{"id": "a", "score": 0.5, "text": "some text"}, {"id": "b"}],
                "latency_ms": {"total": at, "retrieval": 1},
                "tokens": {"prompt": 10, "completion": 5},
                "tags": {"tenant": "acme"},
                "feedback": -1 if at % 5 == 0 else None,
            }
            for at in range(QUERIES)
        ]
        for first in range(0, QUERIES, 50):
            assert daemon.post("/v1/queries", batch[first : first + 50]).status == 200
        label = {"query_id": "q/3", "relevant_ids": ["a"], "faithful": 1.0}
        assert daemon.post("/v1/labels", [label]).json["accepted"] == 1
        eventually(lambda: daemon.get("/v1/queries/q%2F3").json["labels"], "the label is there")
        daemon.data_dir = data_dir
        yield daemon


@pytest.fixture(autouse=True)
def _folder(clean_environment):
    """Each test writes into a folder of its own."""


def sources(site):
    return {"daemon": ["--url", site.url], "store": ["--data-dir", str(site.data_dir)]}


def exported(*arguments):
    assert main(["export", *arguments]) == 0


def sent(site, form):
    with urlopen(f"{site.url}/v1/export?format={form}&limit=1000") as answer:
        return answer.read()


@pytest.mark.parametrize("origin", ["daemon", "store"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "golden"])
def test_the_file_is_what_the_daemon_sends(site, tmp_path, origin, form):
    name = "golden.jsonl" if form == "golden" else f"out.{form}"
    exported(name, *(["--format", form] if form == "golden" else []), *sources(site)[origin])
    written = (tmp_path / name).read_bytes()
    assert written == sent(site, form)
    assert len(written) > (100 if form == "golden" else 6_000_000)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("origin", ["daemon", "store"])
def test_parquet_has_every_query_with_types(site, tmp_path, origin):
    parquet = module("pyarrow.parquet")
    exported("out.parquet", *sources(site)[origin])
    table = parquet.read_table(tmp_path / "out.parquet")
    lines = [json.loads(line) for line in sent(site, "jsonl").splitlines()]
    rows = table.to_pylist()
    assert [row["query_id"] for row in rows] == [line["record"]["query_id"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        record = line["record"]
        assert row["answer"] == record["answer"]
        assert row["asked_at"].timestamp() == pytest.approx(record["timestamp"], abs=1e-5)
        assert row["latency_ms"] == record["latency_ms"]["total"]
        assert dict(row["tags"]) == record["tags"]
        assert dict(row["signals"]) == line["signals"]
        assert [chunk["id"] for chunk in row["chunks"]] == ["a", "b"]
        assert row["feedback"] == line["feedback"]
        assert row["generation_ms"] is None
    [labelled] = [row for row in rows if row["query_id"] == "q/3"]
    assert labelled["labels"][0]["relevant_ids"] == ["a"]
    assert labelled["faithfulness"] == 1.0


@pytest.mark.parametrize("origin", ["daemon", "store"])
def test_the_filters_are_those_of_queries(site, tmp_path, origin):
    flags = ["--pipeline", "docs", "--feedback", "negative", "--since", "2h", "--limit", "5"]
    exported("out.csv", *flags, *sources(site)[origin])
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["query_id"] for row in rows] == [f"q/{at}" for at in (225, 215, 205, 195, 185)]


def test_to_standard_output(site, capfdbinary):
    exported("-", "--limit", "120", "--data-dir", str(site.data_dir))
    lines = [line for line in capfdbinary.readouterr().out.splitlines() if b'"record"' in line]
    assert len(lines) == 120


@contextmanager
def failing_after(site, pages):
    """The daemon behind a proxy that answers so many pages, and 503 from then on."""
    asked, limit = [], [pages]

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if len(asked) > limit[0]:
                self.send_error(503)
                return
            with urlopen(Request(site.url + self.path)) as answer:
                body = answer.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        proxy = f"http://127.0.0.1:{server.server_address[1]}"
        yield proxy, asked, lambda: (asked.clear(), limit.append(limit.pop() + 1_000))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_interrupted_export_goes_on_where_it_was(site, tmp_path, capsys, form):
    if form == "parquet":
        module("pyarrow.parquet")
    name = f"out.{form}"
    with failing_after(site, pages=2) as (url, asked, again):
        assert main(["export", name, "--url", url]) == 3
        printed = capsys.readouterr().err
        assert "503" in printed
        assert "go on with --resume" in printed
        assert not (tmp_path / name).exists()
        assert (tmp_path / f"{name}.part").stat().st_size > 10_000
        with (tmp_path / f"{name}.part").open("ab") as torn:
            torn.write(b'{"record": {"query_id": "half')
        again()
        assert main(["export", name, "--url", url, "--resume"]) == 0
        assert "cursor=" in asked[0]  # not from the beginning
    if form == "parquet":
        whole = module("pyarrow.parquet").read_table(tmp_path / name).num_rows
        assert whole == QUERIES
    else:
        assert (tmp_path / name).read_bytes() == sent(site, form)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_killed_export_goes_on_where_it_was(site, tmp_path):
    """Real kill -9 of the command, which reads the store; the daemon runs beside it."""
    command = [sys.executable, "-m", "ragmon", "export", "out.jsonl", "--data-dir"]
    command.append(str(site.data_dir))
    process = subprocess.Popen(command, cwd=tmp_path)
    part = tmp_path / "out.jsonl.part.state"
    try:
        eventually(
            lambda: part.exists() or process.poll() is not None, "it has begun", timeout_s=120
        )
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    exported("out.jsonl", "--data-dir", str(site.data_dir), "--resume", "--force")
    assert (tmp_path / "out.jsonl").read_bytes() == sent(site, "jsonl")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["there.jsonl"], "there.jsonl exists", id="the file exists"),
        pytest.param(["o.csv", "--since", "soon"], "since: 'soon'", id="no time"),
        pytest.param(["o.csv", "--failing", "all"], "failing: 'all'", id="no failure"),
        pytest.param(["o.csv", "--limit", "0"], "--limit must", id="nothing"),
        pytest.param(["no/o.csv"], "cannot write no/o.csv.part", id="no folder"),
        pytest.param(["-", "--resume"], "Name a file", id="output cannot be gone on with"),
    ],
)
def test_refusals_say_what_to_do(site, tmp_path, capsys, arguments, says):
    (tmp_path / "there.jsonl").write_text("precious")
    assert main(["export", *arguments, "--data-dir", str(site.data_dir)]) == 2
    assert says in capsys.readouterr().err
    assert (tmp_path / "there.jsonl").read_text() == "precious"


def test_a_store_that_is_not_there(capsys):
    assert main(["export", "o.csv", "--data-dir", "nowhere"]) == 2
    assert "ask it by --url" in capsys.readouterr().err


# ---- the file -------------------------------------------------------------------------------

REQUEST = ExportState(origin="http://a", form="jsonl", asked={"since": "1h"}, parameters={})


def test_only_whole_pages_count(tmp_path):
    clock = ManualClock(0.0)
    target = tmp_path / "x.jsonl"
    with ExportFile(target, clock).opened(REQUEST, resume=False) as out:
        clock.sleep(2.0)
        out.append(b"a\n", 1, "after-a")
        out.append(b"b\n", 1, "after-b")  # the end comes before the next save
    with ExportFile(target, clock).opened(REQUEST, resume=True) as out:
        assert (out.state.cursor, out.state.queries) == ("after-a", 1)
        out.append(b"B\n", 1, "")
    assert (tmp_path / "x.jsonl.part").read_bytes() == b"a\nB\n"


def test_resuming_needs_the_same_request(tmp_path):
    file = ExportFile(tmp_path / "x.jsonl", ManualClock(0.0))
    with file.opened(REQUEST, resume=False) as out:
        out.append(b"a\n", 1, "next")
    other = msgspec.structs.replace(REQUEST, asked={"since": "2h"})
    with pytest.raises(SettingsError, match="other arguments"), file.opened(other, resume=True):
        pass
    later = msgspec.structs.replace(REQUEST, parameters={"since": "17.0"})  # an age, later
    with file.opened(later, resume=True) as out:
        assert out.state.parameters == {}


def test_a_shortened_file_is_not_gone_on_with(tmp_path):
    file = ExportFile(tmp_path / "x.jsonl", ManualClock(0.0))
    with file.opened(REQUEST, resume=False) as out:
        out.append(b"abc\n", 1, "")
    (tmp_path / "x.jsonl.part").write_bytes(b"a")
    with pytest.raises(SettingsError, match="shorter"), file.opened(REQUEST, resume=True):
        pass


def test_two_exports_do_not_write_one_file(tmp_path):
    file = ExportFile(tmp_path / "x.jsonl", ManualClock(0.0))
    with (
        file.opened(REQUEST, resume=False),
        pytest.raises(SettingsError, match="another export"),
        file.opened(REQUEST, resume=False),
    ):
        pass
