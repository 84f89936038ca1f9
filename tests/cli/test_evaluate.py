"""The commands as a CI job runs them: files in, exit status and files out."""

import json
import re

import msgspec
import pytest
import yaml

from ragmon.cli import main
from ragmon.evaluate.cases import Case
from ragmon.evaluate.compare.rules import Policy
from ragmon.evaluate.document import Evaluation, load
from ragmon.evaluate.run.endpoint import Template
from tests.support.llm_server import error, serving
from tests.support.paths import ROOT


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
    tmp_path.joinpath("wild.yaml").write_text("alpha: 5\n")
    tmp_path.joinpath("bare.jsonl").write_text(lines([{"query": "What is a GIL?"}]))
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
    assert said.err == "hit@1 [odd=1]: 0 % is below 50 %\n"
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
        pytest.param("first", ["--alpha", "7"], 2, "alpha", id="a wrong flag"),
        pytest.param("first", ["--min", "hit@5=nan"], 2, "hit@5=nan", id="a limit of no number"),
        pytest.param("first", ["--max-missing", "-1"], 2, "max_missing", id="a share below 0"),
        pytest.param("first", ["--rules", "wild.yaml"], 2, "alpha", id="a wrong alpha in a file"),
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


def test_compare(folder, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert evaluate("first", "--quiet") == evaluate("second", "--quiet") == 0
    assert (
        main(
            ["compare", "first.json", "second.json", "--json", "c.json", "--moves", "3", "--noise"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    for wanted in (
        "won / lost / tied",
        "0 / 30 / 0",
        "30 shared cases",
        "noise sensitivity",
        " 50.0 % │",
        "needs an LLM judge",
    ):
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
        pytest.param(["evaluate", "bare.jsonl"], "--endpoint", id="cases that nobody answered"),
        pytest.param(["evaluate", "set"], "set: holds no answers", id="a folder without a run"),
        pytest.param(["evaluate", "set", "--demo"], "cases of their own", id="two golden sets"),
        pytest.param(
            ["evaluate", "set", "--run", "first.run", "--request", "wild.yaml"],
            "--request: needs a live service: use --endpoint",
            id="a run, and how to ask for one",
        ),
        pytest.param(
            ["evaluate", "set", "--endpoint", "http://localhost:9", "--min", "hit@1"],
            "--min: 'hit@1' has no number",
            id="a limit that is none, before anything is asked",
        ),
        pytest.param(
            ["evaluate", "set", "--run", "first.run", "--by", "knid"], "'knid'", id="no such key"
        ),
        pytest.param(["evaluate", "--demo", "--demo-version", "9"], "2026.1", id="no such release"),
        pytest.param(
            ["evaluate", "set", "--endpoint", "http://localhost:9", "--concurrency", "0"],
            "--concurrency",
            id="nobody asks",
        ),
        pytest.param(
            ["evaluate", "set", "--endpoint", "http://localhost:9", "--attempts", "0"],
            "--attempts",
            id="nothing is tried",
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


@pytest.fixture
def model():
    with serving() as running:
        yield running


def asked(model, *more):
    return ["--set", f"judge.llm.base_url={model.url}", "--set", "judge.llm.model=tiny", *more]


@pytest.fixture
def answered(folder):
    """Cases with the answers of two systems, of which only the new one is right."""
    text = "The lock is held"
    rows = [
        {"query": f"question {at}", "case_id": f"c{at}", "ground_truth_answer": f"{text} {at}"}
        for at in range(6)
    ]
    folder.joinpath("cases.jsonl").write_text(lines(rows))
    for name, answer in (("old", "Nobody knows"), ("new", text)):
        chunks = [{"id": "a", "text": f"{text} {at}."} for at in range(6)]
        folder.joinpath(f"{name}.jsonl").write_text(
            lines(
                {"query_id": f"c{at}", "answer": f"{answer} {at}", "chunks": [chunks[at]]}
                for at in range(6)
            )
        )
    return folder


def judged(model, name, *more):
    command = ["evaluate", "cases.jsonl", "--run", f"{name}.jsonl", "--json", f"{name}.json"]
    return main([*command, *asked(model), *more])


def test_an_llm_judges_answers_and_then_prefers_one(answered, model, capsys):
    assert judged(model, "old") == judged(model, "new") == 0
    printed = capsys.readouterr()
    said = printed.err.splitlines()
    assert len(said) == 2  # of two commands a line each, and of their bars nothing
    assert all(line.startswith("judging 6 answers: about") for line in said)
    for wanted in ("completeness/llm", "judge: llm (tiny) judged 6", "judge: grounding judged 6"):
        assert wanted in printed.out
    old, new = (load(answered / f"{name}.json") for name in ("old", "new"))
    assert [each.summary("faithfulness/llm").mean for each in (old, new)] == [0.0, 1.0]
    assert new.summary("faithfulness/grounding") is not None
    sent = len(model.chats)
    assert judged(model, "new", "--quiet") == 0
    assert len(model.chats) == sent  # the same again costs nothing
    assert capsys.readouterr().err == ""
    command = ["compare", "old.json", "new.json", "--json", "c.json", *asked(model)]
    assert main([*command, "--duels", "4"]) == 0
    printed = capsys.readouterr()
    assert "judging 4 pairs" in printed.err
    assert "the second wins 100 %" in printed.out
    found = msgspec.json.decode((answered / "c.json").read_bytes())["preferences"]
    assert (found["wins"], found["losses"], found["failed"]) == (4, 0, 0)
    assert model.tasks[-8:] == ["prefer"] * 8


def test_the_settings_of_the_daemon_configure_the_judge(answered, model, monkeypatch):
    answered.joinpath("ragmon.yaml").write_text(
        f"judge: {{llm: {{base_url: '{model.url}', model: tiny, modes: [claims]}}}}\n"
    )
    plain = ["evaluate", "cases.jsonl", "--run", "new.jsonl", "--json", "x.json", "--quiet"]
    assert main(plain) == 0
    assert set(model.tasks) == {"extract", "verify"}
    assert load(answered / "x.json").summary("faithfulness/llm").mean == 1.0
    sent = len(model.chats)
    assert main([*plain, "--no-llm"]) == main([*plain, "--no-judge"]) == 0
    assert len(model.chats) == sent


def test_a_gate_says_that_the_judge_failed_or_changed(answered, model, capsys):
    assert judged(model, "new", "--quiet", "--save-baseline", "live") == 0
    model.always = error(401, "no such key")
    assert judged(model, "new", "--replies", "none") == 0
    printed = capsys.readouterr().out
    assert "6 failed: auth 6" in printed
    assert "first error: 401: no such key" in printed
    gate = ["gate", "new.json", "--baseline", "live"]
    assert main(gate) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "context_utilization/llm: could not be judged: auth 6" in told
    assert main([*gate, "--strict"]) == 1
    assert main([*gate, "--max-drop", "faithfulness/llm=0"]) == 2
    model.always = None
    assert judged(model, "new", "--quiet", "--set", "judge.llm.model=other") == 0
    assert main(gate) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "*/llm was judged by tiny (prompts v1) and by other (v1)" in told


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param(["--max-cost", "1"], "the model has no price", id="no price, no limit"),
        pytest.param(
            ["--max-cost", "0.01", "--set", "judge.llm.prices={tiny: {prompt: 5, completion: 9}}"],
            "judging is likely to cost $",
            id="too dear",
        ),
        pytest.param(["--set", "judge.llm.modle=x"], "judge.llm.modle", id="a typo"),
        pytest.param(["--set", "judge"], "has no value", id="no value"),
        pytest.param(["--replies", "set"], "set: cannot be used", id="no file"),
    ],
)
def test_a_judge_that_may_not_or_cannot_be_asked(answered, model, capsys, more, said):
    assert judged(model, "new", *more) == 2
    assert said in capsys.readouterr().err
    assert model.chats == []


def test_answers_are_needed_to_prefer_one(folder, model, capsys):
    assert evaluate("first", "--quiet") == evaluate("second", "--quiet") == 0
    assert main(["compare", "first.json", "second.json", *asked(model)]) == 0
    assert "share no case with an answer" in " ".join(capsys.readouterr().out.split())
    assert model.chats == []


GUIDE = (ROOT / "deploy/docs/guides/evaluate.md").read_text()


@pytest.mark.parametrize(
    ("file", "kind"), [("--request ask.yaml", Template), ("--rules rules.yaml", Policy)]
)
def test_the_files_in_the_guide_are_read(file, kind):
    text = re.search(rf"```yaml\n# ragmon .*{file}\n(.*?)```", GUIDE, re.DOTALL)[1]
    found = msgspec.convert(yaml.safe_load(text), kind)
    assert found != kind(url=found.url) if kind is Template else len(found.rules) == 3


@pytest.mark.parametrize(
    "name",
    [*sorted(Case.__struct_fields__), *sorted(Evaluation.__struct_fields__)],
)
def test_every_field_is_in_the_guide(name):
    assert f"`{name}`" in GUIDE[: GUIDE.index("## Golden probes")]
