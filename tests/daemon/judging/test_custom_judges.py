"""Judges of the operator's own in a running daemon: asked, sampled, stored, shown, alerted on."""

import re

import numpy as np
import pytest
from structlog.testing import capture_logs

from ragmon.alerts.remedies import name_of
from ragmon.alerts.sentences import sentence
from ragmon.config import load
from ragmon.daemon.alerting.build import build_detection
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.judging.build import check_judges
from ragmon.detectors.intake import ObservationBuffer
from ragmon.detectors.losses import LossMap
from ragmon.errors import SettingsError
from ragmon.records import Amendments, Draw, QueryRecord, Verdict
from tests.support.daemons import running
from tests.support.llm_server import error, serving, with_fields
from tests.support.metrics import total, values
from tests.support.wait import eventually

WINDOW = {"window": "1h", "pipeline": "default"}
MODULE = """
import os, time

def length(question, answer, chunks):
    if "raise" in answer:
        raise ValueError("it said " + answer)
    if "hang" in answer:
        time.sleep(60)
    if "end" in answer:
        os._exit(3)
    return 1.0 if len(answer) < 30 else 0.25
"""


def answered(number, answer="please come at nine", **more):
    chunks = [{"id": "hours", "text": f"The office opens at nine on day {number}."}]
    return {"query_id": f"q{number}", "query": "When?", "answer": answer, "chunks": chunks} | more


@pytest.fixture
def function(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "own_checks.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    entry = "own_checks:length"
    return {"name": "length", "kind": "python", "entry": entry, "max_cpu": 16.0, "timeout_s": 1.0}


@pytest.fixture
def tone(tmp_path):
    (tmp_path / "tone.txt").write_text("Task: grade the tone of $answer.")
    return {"name": "tone", "prompt_file": str(tmp_path / "tone.txt")}


def asking(llm, *judges):
    return {
        "judge__llm__base_url": llm.url,
        "judge__llm__model": "tiny",
        "judge__llm__modes": ["rubric"],
        "judge__llm__attempts": 1,
        "judge__llm__prices": {"tiny": {"prompt": 1_000.0, "completion": 1_000.0}},
        "judge__every": 0.2,
        "judge__custom": list(judges),
        "sampling__judgements_per_hour": 100_000,
        "sampling__judgements_per_day": None,
        "sampling__dollars_per_day": None,
    }


def outcomes(site, judge, outcome):
    return site.total("ragmon_judged_total", judge=judge, outcome=outcome)


def test_the_language_model_is_asked_and_its_grades_are_sampled_stored_and_shown(tmp_path, tone):
    (tmp_path / "polite.txt").write_text("Task: say whether it is polite: $answer ($question)")
    polite = {"name": "polite", "prompt_file": str(tmp_path / "polite.txt"), "scale": "yes-no"}
    with serving() as llm, running(tmp_path / "data", **asking(llm, tone, polite)) as site:
        rude = [answered(n, "no", version="v2") for n in range(4)]
        site.post("/v1/queries", [*rude, *(answered(n) for n in range(4, 10))])
        eventually(lambda: outcomes(site, "polite", "scored") == 10, "all graded", 60.0)
        page = site.page()
        kept = {v["judge"]: v for v in site.get("/v1/queries/q0").json["verdicts"]}
        report = site.get("/v1/report?window=1h").json["pipelines"][0]
        series = site.get("/v1/series?pipeline=default&metric=custom_score/tone&from=1h").json
        of_query, of_judges = site.get("/queries/q0").text, site.get("/judge?window=1h").text
        labels = {chat.task: set(chat.blocks) for chat in llm.chats}
        asked = llm.tasks.count("tone")  # two answers, of which the others have the cached reply
    assert labels["tone"] == {"answer"}
    assert labels["polite"] == {"answer", "question"}
    assert kept["tone"]["score"] == 0.25
    assert kept["tone"]["probability"] == kept["llm"]["probability"] == 1.0
    assert kept["tone"]["rationale"] == "It is so."
    assert kept["tone"]["version"].startswith("tiny ")
    assert kept["polite"]["score"] == 0.0
    mean = report["metrics"]["custom_score/tone"]
    assert mean["estimate"] == pytest.approx(0.7)
    assert mean["samples"] == 10
    assert 0.3 < mean["lower"] < 0.7 < mean["upper"] < 0.95
    slices = {each["value"]: each["metrics"] for each in report["slices"]}
    assert slices["v2"]["custom_score/tone"]["estimate"] == pytest.approx(0.25)
    assert series["points"][-1]["value"] == pytest.approx(0.7)
    of_tone = {"judge": "tone", **WINDOW}
    assert values(page, "ragmon_custom_score_ratio", **of_tone) == [pytest.approx(0.7)]
    assert values(page, "ragmon_custom_score_ratio_samples", **of_tone) == [10]
    assert values(page, "ragmon_faithfulness_ratio", judge="llm", **WINDOW) == [0.75]
    assert total(page, "ragmon_custom_judged_answers_total", judge="tone") == 10
    assert total(page, "ragmon_custom_judged_score_total", judge="tone") == pytest.approx(7.0)
    assert total(page, "ragmon_judge_tokens_total", judge="tone", kind="prompt") == 100 * asked
    assert total(page, "ragmon_judge_cost_dollars_total", judge="tone") == pytest.approx(
        0.12 * asked
    )
    assert re.search(r"<td>[^\n]*tone[^\n]*<td>[^\n]*It is so", of_query.replace("\n<td", "<td"))
    assert re.search(r"tone(<[^>]+>)?, 10 verdicts", of_judges)


def test_a_prompt_is_read_again_for_every_answer(tmp_path, tone):
    with serving() as llm, running(tmp_path / "data", **asking(llm, tone)) as site:
        site.post("/v1/queries", [answered(1)])
        eventually(lambda: outcomes(site, "tone", "scored") == 1, "graded", 60.0)
        (tmp_path / "tone.txt").write_text("Task: grade the tone of $answer, severely.")
        site.post("/v1/queries", [answered(2)])
        eventually(lambda: outcomes(site, "tone", "scored") == 2, "graded", 60.0)
        first, second = (
            next(v["version"] for v in site.get(f"/v1/queries/q{n}").json["verdicts"]
                 if v["judge"] == "tone")
            for n in (1, 2)
        )  # fmt: skip
    assert first != second
    assert "severely" in llm.chats[-1].prompt


def test_a_prompt_that_breaks_holds_no_other_judge_up(tmp_path, tone):
    (tmp_path / "polite.txt").write_text("Task: say whether it is polite: $answer")
    polite = {"name": "polite", "prompt_file": str(tmp_path / "polite.txt"), "scale": "yes-no"}
    with (
        capture_logs() as logs,
        serving() as llm,
        running(tmp_path / "data", **asking(llm, tone, polite)) as site,
    ):
        (tmp_path / "tone.txt").write_text("Task: grade the tone.")
        site.post("/v1/queries", [answered(1), answered(2)])
        eventually(lambda: outcomes(site, "polite", "scored") == 2, "the others graded", 30.0)
        entries = site.get("/v1/quarantine?stage=judge").json["entries"]
        failed = outcomes(site, "tone", "bad_prompt")
        (tmp_path / "tone.txt").write_text("Task: grade the tone of $answer.")
        for entry in entries:
            site.post(f"/v1/quarantine/{entry['id']}/retry", b"")
        eventually(lambda: outcomes(site, "tone", "scored") == 2, "graded after all", 30.0)
    assert failed == 2
    assert {(entry["name"], entry["reason"]) for entry in entries} == {
        ("q1", "bad_prompt"),
        ("q2", "bad_prompt"),
    }
    assert "tone.txt has no $answer" in entries[0]["error"]
    (said,) = [each for each in logs if each["event"] == "custom_prompt_unusable"]
    assert said["judge"] == "tone"
    assert "has no $answer" in said["detail"]


def test_a_failed_question_is_counted_and_never_a_score(tmp_path, tone):
    with serving() as llm, running(tmp_path / "data", **asking(llm, tone)) as site:
        beyond = with_fields(grade=9)  # asked for once more, and refused then
        llm.always = lambda chat: (beyond if chat.task == "tone" else with_fields())(chat)
        site.post("/v1/queries", [answered(1), answered(2)])
        eventually(lambda: outcomes(site, "tone", "malformed") == 2, "both failed", 60.0)
        page = site.page()
        kept = {v["judge"]: v for v in site.get("/v1/queries/q1").json["verdicts"]}
    assert kept["llm"]["score"] == 0.75
    assert kept["tone"]["reason"] == "malformed"
    assert "score" not in kept["tone"] or kept["tone"]["score"] is None
    assert total(page, "ragmon_judge_failures_total", judge="tone", reason="malformed") >= 1
    assert values(page, "ragmon_custom_score_ratio", judge="tone") == []
    assert total(page, "ragmon_judge_cost_dollars_total", judge="tone") > 0


def test_an_endpoint_that_fails_is_asked_again_without_paying_for_both(tmp_path, tone):
    with serving() as llm, running(tmp_path / "data", **asking(llm, tone)) as site:
        down = [True]
        llm.always = lambda chat: (
            error(400, "no") if chat.task == "tone" and down[0] else with_fields()(chat)
        )
        site.post("/v1/queries", [answered(1)])
        eventually(lambda: outcomes(site, "tone", "bad_request") == 1, "it failed", 60.0)
        assert outcomes(site, "llm", "scored") == 1


def test_a_function_reads_every_answer_in_a_process_of_its_own(tmp_path, function):
    with running(tmp_path / "data", judge__custom=[function]) as site:
        long = "a long answer that goes on and on about the office"
        site.post("/v1/queries", [answered(n, long if n < 5 else "short") for n in range(20)])
        eventually(lambda: outcomes(site, "length", "scored") == 20, "all read", 60.0)
        page = site.page()
        (kept,) = site.get("/v1/queries/q0").json["verdicts"]
    assert (kept["judge"], kept["score"], kept["probability"]) == ("length", 0.25, 1.0)
    assert kept["version"].startswith("own_checks:length")
    of_length = {"judge": "length", **WINDOW}
    assert values(page, "ragmon_custom_score_ratio", **of_length) == [pytest.approx(0.8125)]
    assert total(page, "ragmon_judge_cpu_seconds_total", judge="length") > 0.0
    assert total(page, "ragmon_judge_queue_length", judge="length") == 0
    assert values(page, "ragmon_unfaithful_ratio", **WINDOW) == []  # it says nothing of that


def test_what_a_function_fails_on_is_counted_quarantined_and_tried_again(tmp_path, function):
    said = [answered(1, "raise"), answered(2, "hang"), answered(3, "end"), answered(4, "well")]
    with running(tmp_path / "data", judge__custom=[function], privacy__text="redact") as site:
        site.post("/v1/queries", said)
        eventually(lambda: site.total("ragmon_judged_total", judge="length") == 4, "all", 90.0)
        by_outcome = {
            reason: outcomes(site, "length", reason)
            for reason in ("scored", "raised", "timeout", "judge_crashed")
        }
        entries = {each["name"]: each for each in site.get("/v1/quarantine").json["entries"]}
        page = site.page()
        module = tmp_path / "site" / "own_checks.py"
        module.write_text(MODULE.replace('if "raise" in answer', "if False"))
        site.post(f"/v1/quarantine/{entries['q1']['id']}/retry", {})
        eventually(
            lambda: site.get("/v1/queries/q1").json["verdicts"][0].get("score") == 1.0, "graded"
        )
    assert by_outcome == {"scored": 1, "raised": 1, "timeout": 1, "judge_crashed": 1}
    assert {name: each["reason"] for name, each in entries.items()} == {
        "q1": "raised",
        "q2": "timeout",
        "q3": "judge_crashed",
    }
    assert "ValueError: it said raise" in entries["q1"]["error"]
    samples = values(page, "ragmon_custom_score_ratio_samples", judge="length", **WINDOW)
    assert samples == [1]


def test_a_start_refuses_what_cannot_judge(function):
    broken = function | {"entry": "own_checks:width"}
    with pytest.raises(SettingsError, match="own_checks has no function width"):
        check_judges(load(None, {"judge.custom": [broken]}, {}).settings)


def judged(pipeline, known):
    records = [
        QueryRecord(query_id=f"q{n}", timestamp=n / 10, answer="yes") for n in range(len(known))
    ]
    return pipeline.observe(records, known)


def test_each_custom_judge_has_a_loss_of_its_own(function, tone):
    flags = {"judge.custom": [function, tone], "judge.llm.base_url": "http://localhost:1/v1"}
    pipeline = build_pipeline(load(None, flags, {}).settings)
    drawn = Draw(query_id="q1", probability=0.25, proxy=0.5, drawn=True)
    known = [
        Amendments(),
        Amendments(draw=drawn, verdicts=(Verdict(query_id="q1", judge="tone", score=0.75),)),
        Amendments(draw=drawn),
        Amendments(verdicts=(Verdict(query_id="q3", judge="length", score=0.25),)),
    ]
    losses = LossMap(pipeline.columns)
    lost = losses.losses(judged(pipeline, known).values)
    by_judge = {
        judge: lost[:, losses.index[f"custom_score/{judge}"]].tolist()
        for judge in ("tone", "length")
    }
    assert by_judge["tone"][1:3] == [1.0, 0.0]  # a quarter drawn: one stands for four
    assert by_judge["length"][3] == 0.75
    assert np.isnan([*by_judge["tone"][::3], *by_judge["length"][:3]]).all()


@pytest.mark.parametrize("metric", ["custom_score", "custom_score/length"])
def test_a_rule_fires_for_the_custom_judge_that_grades_worse(function, tone, metric):
    rule = {"kind": "threshold", "metric": metric, "limit": 0.3}
    flags = {
        "judge.custom": [function, tone],
        "judge.llm.base_url": "http://localhost:1/v1",
        "detectors.rules": [rule],
    }
    settings = load(None, flags, {}).settings
    pipeline = build_pipeline(settings)
    drawn = Draw(query_id="q", probability=1.0, proxy=0.5, drawn=True)
    verdicts = (
        Verdict(query_id="q", judge="length", score=0.25),
        Verdict(query_id="q", judge="tone", score=1.0),
    )
    buffer = ObservationBuffer(pipeline.columns)
    before = judged(pipeline, [Amendments(draw=drawn)] * 100)
    buffer.log(before)
    buffer.restate(before, judged(pipeline, [Amendments(draw=drawn, verdicts=verdicts)] * 100))
    detection = build_detection(settings, buffer.columns)
    batch = buffer.take()
    detection.begin(0.0)
    detection.fold(batch.logged)
    detection.restate(batch.before, batch.after)
    found = [finding for closed in detection.advance(3) for finding in closed.findings]
    assert {finding.alert.stream.metric for finding in found} == {"custom_score/length"}
    assert {name_of(finding.alert) for finding in found} == {"RagmonCustomScore"}
    assert sentence(found[-1], 180.0).startswith("length score of default is 25 % (at least 70 %")


def test_a_rule_on_a_custom_judge_that_does_not_exist_ends_the_start(function):
    rule = {"kind": "threshold", "metric": "custom_score/lenght", "limit": 0.3}
    settings = load(None, {"judge.custom": [function], "detectors.rules": [rule]}, {}).settings
    with pytest.raises(SettingsError, match="did you mean `length`"):
        build_detection(settings, ObservationBuffer(build_pipeline(settings).columns).columns)


def test_labels_of_people_correct_a_custom_judge_and_are_compared_with_it(tmp_path, function):
    with running(tmp_path / "data", judge__custom=[function]) as site:
        long = "a long answer that goes on and on about the office"
        site.post("/v1/queries", [answered(n, long if n < 20 else "short") for n in range(80)])
        eventually(lambda: outcomes(site, "length", "scored") == 80, "all read", 60.0)
        labels = [
            {"query_id": f"q{n}", "scores": {"length": 0.75 if n < 20 else 1.0}} for n in range(40)
        ]
        site.post("/v1/labels", labels)
        site.post("/v1/labels", [{"query_id": "q79", "faithful": 0.0}])  # says nothing of length
        report = site.get("/v1/report?window=1h").json["pipelines"][0]["metrics"]
        page = site.page()
        card = site.get("/v1/judges/report?since=1h").json
        of_query = site.get("/v1/queries/q0").json["labels"]
        shown = site.get("/judge?window=24h").text
        site.post("/v1/labels", [{"query_id": f"q{n}", "withdrawn": True} for n in range(40)])
        eventually(
            lambda: (
                "custom_score/length_corrected"
                not in site.get("/v1/report?window=1h").json["pipelines"][0]["metrics"]
            ),
            "withdrawn",
        )
    assert report["custom_score/length"]["estimate"] == pytest.approx(0.8125)
    corrected = report["custom_score/length_corrected"]
    assert corrected["samples"] == 40
    assert corrected["estimate"] == pytest.approx(0.9375, abs=0.01)  # people like long ones
    assert corrected["lower"] < corrected["estimate"] < corrected["upper"]
    of_corrected = {"judge": "length_corrected", **WINDOW}
    assert values(page, "ragmon_custom_score_ratio", **of_corrected) == [
        pytest.approx(corrected["estimate"])
    ]
    (length,) = [judge for judge in card["judges"] if judge["judge"] == "length"]
    assert length["labels"] == 40
    assert [label["scores"] for label in of_query] == [{"length": 0.75}]
    assert "length, corrected by labels" in shown
