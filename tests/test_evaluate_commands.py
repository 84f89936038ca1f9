"""The commands as a CI job runs them: files in, exit status and files out."""

import json

import msgspec
import pytest

from ragmon.cli import main
from ragmon.evaluate.document import load


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A BEIR folder of 30 questions, and runs that find the answer at rank 1, 2 and never."""
    monkeypatch.chdir(tmp_path)
    beir = tmp_path / "set"
    (beir / "qrels").mkdir(parents=True)
    ids = range(30)
    beir.joinpath("queries.jsonl").write_text(
        lines({"_id": str(at), "text": f"question {at}", "metadata": {"odd": at % 2}} for at in ids)
    )
    beir.joinpath("corpus.jsonl").write_text(
        lines({"_id": f"d{at}", "text": f"The text of document {at}."} for at in ids)
    )
    judged = [f"{at}\td{at}\t1\n" for at in ids]
    beir.joinpath("qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    for name, rank in (("first", 0), ("second", 1), ("never", 9)):
        rows = []
        for at in ids:
            found = [f"d{(at + 7 + each) % 30}" for each in range(3)]
            found[rank:rank] = [f"d{at}"] if rank < 3 else []
            rows += [f"{at} Q0 {each} 0 {-place} t\n" for place, each in enumerate(found)]
        tmp_path.joinpath(f"{name}.run").write_text("".join(rows))
    return tmp_path


def evaluate(run, *more):
    return main(
        ["evaluate", "set", "--run", f"{run}.run", "--json", f"{run}.json", "--no-judge", *more]
    )


def test_a_beir_folder_with_a_trec_run(folder, capsys):
    files = ("--html", "r.html", "--save-run", "r.jsonl", "--junit", "r.xml", "--by", "odd")
    assert evaluate("second", *files, "--k", "3,1", "--min", "recall@3=0.9") == 0
    assert "reciprocal_rank" in capsys.readouterr().out
    found = load(folder / "second.json")
    assert {each.name: each.mean for each in found.metrics if each.name.startswith("recall")} == {
        "recall@1": 0.0,
        "recall@3": 1.0,
    }
    assert found.summary("reciprocal_rank").mean == 0.5
    assert [(each.key, each.value) for each in found.strata] == [("odd", "0"), ("odd", "1")]
    assert "The text of document 7." in (folder / "r.html").read_text()
    assert 'failures="0"' in (folder / "r.xml").read_text()
    assert main(["evaluate", "set", "--run", "r.jsonl", "--json", "x.json", "--no-judge"]) == 0
    again = load(folder / "x.json")  # the recorded run scores the same without the service
    assert again.scores["reciprocal_rank"] == found.scores["reciprocal_rank"]


def test_a_missed_limit_fails(folder, capsys):
    assert evaluate("second", "--quiet", "--min", "hit@1:odd=1=0.5", "--max", "error=0") == 1
    said = capsys.readouterr()
    assert said.err == "hit@1: 0 is below 0.5\n"
    assert said.out == ""


@pytest.mark.parametrize(
    ("current", "flags", "status", "said"),
    [
        pytest.param("first", [], 0, "gate passed", id="the same again"),
        pytest.param("second", [], 1, "gate failed", id="worse"),
        pytest.param(
            "second", ["--max-drop", "hit@5=0"], 0, "gate passed", id="not in what counts"
        ),
        pytest.param("second", ["--max-drop", "hit@1:odd=0"], 1, "odd=0", id="in one stratum"),
        pytest.param("second", ["--rules", "rules.yaml"], 1, "gate failed", id="rules in a file"),
        pytest.param("first", ["--max-drop", "hti@5=0"], 2, "Did you mean hit@5?", id="a typo"),
        pytest.param("first", ["--alpha", "7"], 2, "--alpha", id="a wrong flag"),
        pytest.param("first", ["--rules", "typo.yaml"], 2, "max_dorp", id="a typo in a file"),
    ],
)
def test_gate(folder, capsys, current, flags, status, said):
    folder.joinpath("rules.yaml").write_text("rules: [{metric: 'ndcg@*', max_drop: 0.1}]\n")
    folder.joinpath("typo.yaml").write_text("rules: [{metric: 'ndcg@*', max_dorp: 0.1}]\n")
    assert evaluate("first", "--quiet", "--save-baseline", "live") == 0
    assert evaluate(current, "--quiet") == 0
    command = ["gate", f"{current}.json", "--baseline", "live", "--markdown", "s.md", *flags]
    assert main(command) == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert (folder / "s.md").exists() == (status < 2)


def test_compare(folder, capsys):
    assert evaluate("first", "--quiet") == evaluate("second", "--quiet") == 0
    assert (
        main(
            ["compare", "first.json", "second.json", "--json", "c.json", "--moves", "3", "--noise"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    for wanted in ("30 shared cases", "noise sensitivity", "+0.500", "needs an LLM judge"):
        assert wanted in printed
    found = msgspec.json.decode((folder / "c.json").read_bytes())
    change = {each["name"]: (each["change"], each["losses"]) for each in found["contrasts"]}
    assert change["reciprocal_rank"] == (-0.5, 30)
    assert len(found["moves"]) == 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["evaluate"], "no cases", id="no cases"),
        pytest.param(["evaluate", "nowhere.jsonl"], "nowhere.jsonl: cannot be read", id="no file"),
        pytest.param(["evaluate", "set", "--run", "first.run", "--k", "0"], "--k", id="k of 0"),
        pytest.param(["evaluate", "set", "--run", "x.run"], "x.run: cannot be read", id="no run"),
        pytest.param(
            ["evaluate", "set", "--run", "first.run", "--split", "dev"], "dev", id="no split"
        ),
        pytest.param(["evaluate", "--from-store", "."], "ragmon.sqlite", id="no store"),
        pytest.param(["evaluate", "--from-store", ".", "--since", "x"], "--since", id="no time"),
        pytest.param(["gate", "x.json", "--baseline", "live"], "x.json: cannot", id="no file"),
        pytest.param(["compare", "x.json", "y.json"], "x.json: cannot", id="nothing to compare"),
    ],
)
def test_what_cannot_be_used_is_status_2(folder, capsys, command, said):
    assert main(command) == 2
    assert said in capsys.readouterr().err


def test_the_packaged_set_and_its_worse_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", "--demo", "--quiet"]
    assert main([*command, "--save-baseline", "live", "--json", "now.json"]) == 0
    assert main(["gate", "now.json", "--baseline", "live"]) == 0
    worse = [*command, "--demo-version", "2026.2-fast", "--json", "worse.json"]
    assert main(worse) == 0
    assert main(["gate", "worse.json", "--baseline", "live"]) == 1
    found = load(tmp_path / "now.json")
    assert len(found.cases) > 200
    assert found.summary("recall@5").mean > 0.6
    assert found.summary("faithfulness/grounding").samples > 200
    assert "needs an LLM judge" in found.absent["completeness"]
