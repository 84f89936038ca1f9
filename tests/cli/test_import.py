"""``ragmon import``: files of every form, mapped, shown and sent."""

import gzip
import json

import pytest

from ragmon.cli import main
from ragmon.clock import SystemClock
from tests.support.modules import module

NOW = SystemClock().now() - 600.0
ORIGINALS = [
    {
        "id": f"o{at}",
        "ts": NOW + at,
        "q": f"question {at}",
        "hits": [{"doc": "a", "text": "x" * 900}],
    }
    for at in range(25)
]
MAP = """
query_id: id
timestamp: ts
query: q
answer: a
chunks: "hits[].{id: doc, text: text}"
"""


@pytest.fixture(autouse=True)
def _folder(clean_environment, tmp_path):
    (tmp_path / "map.yaml").write_text(MAP)


def write(path, originals=ORIGINALS):
    """The originals in the form that the name says."""
    lines = "".join(json.dumps(each) + "\n" for each in originals).encode()
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps(originals))
    elif path.suffix == ".csv":
        rows = (f'{each["id"]},{each["ts"]},"{each["q"]}"\r\n' for each in originals)
        path.write_text("id,ts,q\r\n" + "".join(rows))
    elif path.suffix == ".parquet":
        arrow = module("pyarrow")
        module("pyarrow.parquet").write_table(arrow.Table.from_pylist(originals), path)
    else:
        path.write_bytes(lines)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json", "x.csv", "x.parquet"])
def test_a_dry_run_shows_ten_records_beside_their_originals(tmp_path, capsys, name):
    write(tmp_path / name)
    if name == "x.csv":
        (tmp_path / "map.yaml").write_text(MAP.replace("ts\n", "to_number(ts)\n"))
    assert main(["import", name, "--map", "map.yaml", "--dry-run", "--json"]) == 0
    printed = capsys.readouterr()
    shown = [json.loads(line) for line in printed.out.splitlines()]
    assert [each["original"]["id"] for each in shown] == [f"o{at}" for at in range(10)]
    assert [each["record"]["query_id"] for each in shown] == [f"o{at}" for at in range(10)]
    assert shown[3]["record"]["query"] == "question 3"
    assert "25 rows: 25 can be sent, 0 are refused" in printed.err
    assert "answer: not found in 25 originals" in printed.err


def test_a_dry_run_for_people(tmp_path, capsys):
    write(tmp_path / "x.jsonl", [*ORIGINALS[:2], {"id": "bad", "ts": "soon", "q": "\x1b[2J"}])
    assert main(["import", "x.jsonl", "--map", "map.yaml", "--dry-run"]) == 1
    printed = capsys.readouterr()
    line = next(each for each in printed.out.splitlines() if '"q": "question 1"' in each)
    assert '"' in line.split('"q": "question 1"')[1]  # the record stands beside it
    assert "refused: timestamp" in printed.out
    assert "\x1b[2J" not in printed.out
    assert "x" * 200 not in printed.out  # long texts are cut
    assert "1 are refused" in printed.err
    assert "refused: 1 times timestamp" in printed.err


def test_everything_is_sent_once(daemon, tmp_path, capsys):
    write(tmp_path / "x.jsonl")
    arguments = ["import", "x.jsonl", "--map", "map.yaml", "--url", daemon.url]
    assert main(arguments) == 0
    assert "25 accepted, 0 duplicates, 0 rejected" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "0 accepted, 25 duplicates, 0 rejected" in capsys.readouterr().out
    assert daemon.get("/v1/queries/o7").json["record"]["query"] == "question 7"


def test_an_export_can_be_imported(daemon, tmp_path, capsys):
    record = {"query_id": "again", "query": "q", "timestamp": NOW, "pipeline": "again"}
    assert daemon.post("/v1/queries", [record]).json["accepted"] == 1
    assert main(["export", "out.jsonl", "--url", daemon.url, "--pipeline", "again"]) == 0
    (tmp_path / "map.yaml").write_text("mapping: {.: record, query_id: \"'copy'\"}")
    capsys.readouterr()
    assert main(["import", "out.jsonl", "--map", "map.yaml", "--url", daemon.url]) == 0
    copy = daemon.get("/v1/queries/copy").json["record"]
    assert copy == record | {"query_id": "copy", "repeat_number": 1}  # asked again in its minute


def test_an_export_can_be_replayed(daemon, capsys):
    record = {"query_id": "sent", "query": "q", "timestamp": NOW, "pipeline": "sent"}
    assert daemon.post("/v1/queries", [record]).json["accepted"] == 1
    assert main(["export", "out.jsonl", "--url", daemon.url, "--pipeline", "sent"]) == 0
    capsys.readouterr()
    assert main(["replay", "out.jsonl", "--url", daemon.url]) == 0
    assert capsys.readouterr().out == "0 accepted, 1 duplicates, 0 rejected\n"


def test_a_golden_set_says_how_many_of_the_queries_are_in_it(daemon, capsys):
    record = {"query_id": "gold", "query": "q", "timestamp": NOW, "pipeline": "gold"}
    assert daemon.post("/v1/queries", [record]).json["accepted"] == 1
    golden = ["export", "golden.jsonl", "--format", "golden", "--pipeline", "gold"]
    assert main([*golden, "--url", daemon.url]) == 0
    assert "golden.jsonl: 0 cases of 1 query, those with labels, 0 bytes" in capsys.readouterr().out


def test_rows_without_an_id_get_one_of_their_place(daemon, tmp_path, capsys):
    rows = [{"query": f"unnamed {at}", "timestamp": NOW} for at in range(3)]
    write(tmp_path / "unnamed.jsonl", rows)
    for expected in ("3 accepted, 0 duplicates", "0 accepted, 3 duplicates"):
        assert main(["import", "unnamed.jsonl", "--url", daemon.url]) == 0
        assert expected in capsys.readouterr().out


def test_refusals_are_told_and_the_rest_is_sent(daemon, tmp_path, capsys):
    lines = [json.dumps({"id": "g1", "ts": NOW, "q": "good"}), "no json", '{"ts": "soon"}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    assert main(["import", "x.jsonl", "--map", "map.yaml", "--url", daemon.url]) == 1
    printed = capsys.readouterr()
    assert "1 accepted, 0 duplicates, 2 rejected" in printed.out
    assert "rejected: timestamp" in printed.err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("x.csv", b"a,b\n1,2,3\n", "more cells", id="a ragged table"),
        pytest.param("x.json", b'{"a": 1}', "not an array", id="no array"),
        pytest.param("x.jsonl.gz", b"\x1f\x8b nonsense", "cannot be read", id="damaged"),
        pytest.param("x.parquet", b"nonsense", "not Parquet", id="not Parquet"),
    ],
)
def test_files_of_another_form(tmp_path, capsys, name, content, says):
    if name == "x.parquet":
        module("pyarrow")
    (tmp_path / name).write_bytes(content)
    assert main(["import", name, "--dry-run"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("query: 'a b'", "map.yaml: query: 'a b' is no JMESPath", id="an expression"),
        pytest.param("querry: a", "did you mean `query`", id="a field"),
        pytest.param("[query]", "must hold fields", id="a list"),
        pytest.param("query: [", "is not YAML", id="no YAML"),
    ],
)
def test_a_bad_map_is_named(tmp_path, capsys, content, says):
    (tmp_path / "map.yaml").write_text(content)
    write(tmp_path / "x.jsonl")
    assert main(["import", "x.jsonl", "--map", "map.yaml", "--dry-run"]) == 2
    assert says in capsys.readouterr().err
