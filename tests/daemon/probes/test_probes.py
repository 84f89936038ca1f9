"""Golden probes: one run, golden against golden, settings, what Prometheus is told."""

import subprocess
import sys

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from ragmon.alerts.sentences import detail, sentence
from ragmon.clock import ManualClock
from ragmon.config.sections import ProbeSettings
from ragmon.daemon.probes.findings import allowance, findings
from ragmon.daemon.probes.scheduler import plan
from ragmon.daemon.probes.state import Planned, ProbeState
from ragmon.detectors import AlertKey, StreamKey
from ragmon.errors import SettingsError
from ragmon.evaluate.document import describe, save
from ragmon.evaluate.loaders import read_cases
from ragmon.evaluate.run.endpoint import Template
from ragmon.evaluate.run.probe import ProbeOutcome, compare
from ragmon.evaluate.run.probe_process import run
from ragmon.evaluate.score.scoring import ScoringOptions, score
from ragmon.exposition.probes import Fall, ProbeMetrics, ProbeView, Quality
from ragmon.records import Chunk, QueryRecord
from tests.support.daemons import running
from tests.support.examples import NOON, record
from tests.support.probes import job, outcome, scored
from tests.support.rag_service import answering, golden_lines
from tests.support.vigil import Vigil
from tests.support.wait import eventually


@pytest.fixture
def service():
    with answering() as found:
        yield found


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text(golden_lines(40))
    return path


# ---- one run --------------------------------------------------------------------------------


def test_a_run_asks_every_question_and_scores_the_answers(service, golden):
    service.ranks = dict.fromkeys(range(10), 1) | dict.fromkeys(range(10, 20))
    found = run(job(service.url, golden, grounding=True), ManualClock(7.0))
    assert (found.end, found.cases, found.started_at, found.failures) == ("finished", 40, 7.0, {})
    means = {each.metric: each.mean for each in found.means}
    assert means["hit@1"] == 0.5
    assert means["hit@3"] == means["recall@3"] == 0.75
    assert means["reciprocal_rank"] == pytest.approx((20 + 10 / 2) / 40)
    assert means["faithfulness/grounding"] > 0.7
    assert means["error"] == 0.0
    assert set(means) == {
        *(f"{name}@{k}" for name in ("precision", "recall", "ndcg", "hit") for k in (1, 3)),
        *("reciprocal_rank", "faithfulness/grounding", "error"),
    }
    assert all(each.lower <= each.mean <= each.upper for each in found.means)
    assert found.golden.scores["hit@1"][9:11] == (0.0, 0.0)
    assert found.golden.scores["hit@1"][20] == 1.0


def test_only_the_first_questions_are_asked(service, golden):
    assert run(job(service.url, golden, most_cases=3), ManualClock()).cases == 3
    assert sorted(service.asked) == ["question 0", "question 1", "question 2"]


def test_a_service_that_is_down_is_a_finding(service, golden):
    service.status = 503
    found = run(job(service.url, golden), ManualClock())
    assert found.failures == {"server_error": 40}
    assert [(each.metric, each.mean) for each in found.means] == [("error", 1.0)]
    assert (
        ProbeState().after(found).reference is None
    )  # not what later runs are to be compared with


@pytest.mark.parametrize(
    ("more", "error"),
    [
        pytest.param({"cases": "nowhere.jsonl"}, "nowhere.jsonl: cannot be read", id="no cases"),
        pytest.param({"baseline": "no.json"}, "no.json: cannot be read", id="no baseline"),
        pytest.param(
            {"template": Template(url="http://x", headers={"key": "${NOT_SET_AT_ALL}"})},
            "NOT_SET_AT_ALL is not set",
            id="no secret",
        ),
    ],
)
def test_a_run_that_comes_to_nothing_says_why(golden, more, error):
    found = run(job(**{"cases": golden} | more), ManualClock())
    assert found.end == "failed"
    assert error in found.error


# ---- golden against golden ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([1.0] * 8, [1.0] * 8, (0, 0, 0.0, 1.0), id="the same"),
        pytest.param([1.0] * 8, [0.0] * 5 + [1.0] * 3, (5, 0, 0.625, 2**-5), id="five got worse"),
        pytest.param([0.0, 1.0], [1.0, 0.0], (1, 1, 0.0, 0.75), id="one each way"),
        pytest.param([1.0, None, 1.0], [0.0, 0.0, None], (1, 0, 1.0, 0.5), id="known in both"),
    ],
)
def test_two_runs_are_compared_case_by_case(before, after, expected):
    found = compare(scored(before), scored(after))
    assert list(found) == ["hit@3"]
    paired = found["hit@3"].paired
    assert (paired.worse, paired.better, paired.fall, paired.p_value) == expected


def test_cases_are_paired_by_id():
    assert compare(scored([1.0], ids=["a"]), scored([0.0], ids=["b"])) == {}
    found = compare(scored([1.0, 0.0], ids=["a", "b"]), scored([0.0, 1.0], ids=["b", "a"]))
    assert found["hit@3"].paired.worse == found["hit@3"].paired.better == 0


def test_the_first_whole_run_is_the_reference_until_a_baseline_is_named():
    first, later = scored([1.0] * 8, "first"), scored([0.0] * 8, "later")
    state = ProbeState().after(outcome(first, failures={"timeout": 1}))
    assert (state.reference, state.failures["timeout"]) == (None, 1)
    state = state.after(outcome(first)).after(outcome(later))
    assert state.reference is first
    assert state.falls["hit@3"].paired.worse == 8
    assert state.runs == {"finished": 3, "failed": 0}
    before = state.falls
    state = state.after(ProbeOutcome(probe="faq", started_at=3.0, duration_s=0.0, error="no"))
    assert (state.reference, state.falls, state.runs["failed"]) == (first, before, 1)
    named = scored([0.0] * 8, "named")
    assert state.after(outcome(later, baseline=named)).falls["hit@3"].paired.worse == 0


HOURLY = Planned(job(probe="faq", ks=(3,)), 3_600.0)


@pytest.mark.parametrize(
    ("worse", "is_found"),
    [
        pytest.param(0, False, id="nothing changed"),
        pytest.param(12, False, id="twelve of forty: p = 2^-12, and 720 runs a month"),
        pytest.param(13, True, id="thirteen"),
    ],
)
def test_a_fall_is_a_finding_when_chance_would_hardly_make_it(worse, is_found):
    right, now = scored([1.0] * 40, "first"), scored([0.0] * worse + [1.0] * (40 - worse))
    state = ProbeState().after(outcome(right)).after(outcome(now, 60.0)).after(outcome(now, 120.0))
    found = findings([HOURLY], {"faq": state}, allowance(1.0))
    assert bool(found) == is_found
    if found:
        (one,) = found
        assert one.alert == AlertKey("regression", StreamKey("probe faq", "hit"), "golden")
        assert (one.observed.mean, one.observed.n) == (worse / 40, 40)
        assert (one.reference.mean, one.changed_at) == (0.0, 60.0)
        text = sentence(one, 180.0)
        assert text == "hit rate of probe faq fell to 68 % (expected 100 %) since 00:01 UTC"
        assert (
            "over the same questions: 13 got worse and 0 better, which chance alone does in "
            "at most 1 of 8,192 runs; if nothing changed, all probes" in detail(one)
        )


def test_many_probes_share_what_is_allowed():
    right, now = scored([1.0] * 40), scored([0.0] * 13 + [1.0] * 27)
    state = ProbeState().after(outcome(right)).after(outcome(now))
    planned = [replace(HOURLY, job=job(probe=name)) for name in ("a", "b")]
    assert findings(planned, {"a": state, "b": state}, allowance(1.0)) == []
    assert len(findings(planned, {"a": state, "b": state}, allowance(2.0))) == 2


def test_a_metric_that_recovers_is_no_longer_worse():
    right, now = scored([1.0] * 40), scored([0.0] * 20 + [1.0] * 20)
    state = ProbeState().after(outcome(right)).after(outcome(now)).after(outcome(right))
    assert state.worse_since == {}
    assert findings([HOURLY], {"faq": state}, allowance(1.0)) == []


def test_an_evaluation_as_baseline(service, golden, tmp_path):
    cases = read_cases(golden)
    answers = {
        case.case_id: QueryRecord(
            query_id=case.case_id, timestamp=0.0, chunks=[Chunk(id=f"d{case.case_id[1:]}")]
        )
        for case in cases.cases
    }
    file = tmp_path / "live.json"
    save(describe(score(cases, answers, ScoringOptions(ks=(1, 3))), "live", 5.0), file)
    service.ranks = dict.fromkeys(range(40))
    asked = job(service.url, golden, baseline=str(file))
    assert "no relevant id was ever retrieved" in run(asked, ManualClock()).error
    found = run(replace(asked, ids_match=True), ManualClock())  # it was, by an earlier run
    assert (found.baseline.name, found.baseline.created_at) == ("live", 5.0)
    assert ProbeState().after(found).falls["hit@3"].paired.worse == 40


# ---- settings and metrics -------------------------------------------------------------------


def test_a_probe_as_configured(golden):
    given = {"name": "faq", "cases": golden, "endpoint": "http://rag/ask", "every": "10m"}
    request = {"body": {"q": "{query}"}, "headers": {"authorization": "Bearer ${TOKEN}"}}
    made = plan(ProbeSettings(**given, request=request, ks=[5, 1], timeout=3), grounding=True)
    assert made.every_s == 600.0
    assert made.job.template.url == "http://rag/ask"
    assert made.job.template.body == {"q": "{query}"}
    assert (made.job.template.timeout_s, made.job.ks) == (3.0, (1, 5))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"cases": "nowhere.jsonl"}, "cases: nowhere.jsonl is not there", id="cases"),
        pytest.param({"baseline": "live.json"}, "baseline: live.json is not there", id="baseline"),
        pytest.param({"request": {"boddy": {}}}, "request: .*boddy", id="a typo"),
    ],
)
def test_a_probe_that_cannot_be_run_is_refused_at_the_start(golden, more, said):
    given = {"name": "faq", "cases": golden, "endpoint": "http://rag/ask"} | more
    with pytest.raises(SettingsError, match=f"probes \\(faq\\): {said}"):
        plan(ProbeSettings(**given), grounding=True)


def page(*views):
    registry = CollectorRegistry()
    registry.register(ProbeMetrics(lambda: views))
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_series_of_a_probe():
    view = ProbeView(
        "faq",
        started_at=5.0,
        duration_s=2.0,
        cases=40,
        quality=[
            Quality("recall@3", 0.5, 0.4, 0.6, 40),
            Quality("faithfulness/grounding", 0.9, None, None, 1),
        ],
        falls=[Fall("hit@3", 0.25, 0.01)],
        runs={"finished": 3},
        failures={"timeout": 2},
    )
    assert sorted(page(view)) == [
        'ragmon_probe_cases{probe="faq"} 40.0',
        'ragmon_probe_failures_total{probe="faq",reason="timeout"} 2.0',
        'ragmon_probe_faithfulness_ratio_samples{judge="grounding",probe="faq"} 1.0',
        'ragmon_probe_faithfulness_ratio{judge="grounding",probe="faq"} 0.9',
        'ragmon_probe_fall_p_value{metric="hit@3",probe="faq"} 0.01',
        'ragmon_probe_fall_ratio{metric="hit@3",probe="faq"} 0.25',
        'ragmon_probe_last_run_duration_seconds{probe="faq"} 2.0',
        'ragmon_probe_last_run_timestamp_seconds{probe="faq"} 5.0',
        'ragmon_probe_recall_lower{k="3",probe="faq"} 0.4',
        'ragmon_probe_recall_samples{k="3",probe="faq"} 40.0',
        'ragmon_probe_recall_upper{k="3",probe="faq"} 0.6',
        'ragmon_probe_recall{k="3",probe="faq"} 0.5',
        'ragmon_probe_runs_total{outcome="finished",probe="faq"} 3.0',
    ]


def test_before_the_first_run_there_is_no_quality():
    assert page(ProbeView("faq", runs={"finished": 0}, failures={"timeout": 0})) == [
        'ragmon_probe_runs_total{outcome="finished",probe="faq"} 0.0',
        'ragmon_probe_failures_total{probe="faq",reason="timeout"} 0.0',
    ]


def test_a_daemon_probes_a_live_service_and_remembers(service, golden, tmp_path):
    given = {"name": "faq", "cases": str(golden), "endpoint": service.url, "ks": [3]}
    service.ranks = dict.fromkeys(range(10))
    with running(tmp_path / "data", probes=[given]) as site:
        labels = {"probe": "faq", "k": "3"}
        eventually(lambda: site.total("ragmon_probe_runs_total"), "a run is done", 40)
        assert site.total("ragmon_probe_hit_ratio", **labels) == 0.75
        assert site.total("ragmon_probe_cases") == 40
    asked = len(service.asked)
    with running(tmp_path / "data", probes=[given]) as site:
        eventually(lambda: site.total("ragmon_probe_runs_total"), "the last run is known")
        assert site.total("ragmon_probe_hit_ratio", **labels) == 0.75
    assert len(service.asked) == asked == 40  # not due again


def test_a_worse_golden_run_fires_an_alert_that_ends_with_it(tmp_path):
    right, now = scored([1.0] * 40, "first"), scored([0.0] * 20 + [1.0] * 20)
    worse = ProbeState().after(outcome(right)).after(outcome(now, NOON))
    states = {"faq": worse}
    allowed = allowance(1.0)
    vigil = Vigil(tmp_path, NOON, other_findings=lambda _now: findings([HOURLY], states, allowed))
    for minute in range(40):
        if minute == 10:
            states["faq"] = worse.after(outcome(right, NOON + 600.0))
        vigil.commit([record(f"q{minute}", at=vigil.clock.now())])
        vigil.tick(60.0)
    mine = [each for each in vigil.events() if each.alert.key.rule == "golden"]
    assert [each.change for each in mine] == ["firing", "resolved"]
    alert = mine[0].alert
    assert (alert.name, alert.key.stream.pipeline) == ("RagmonHitRate", "probe faq")
    assert "over the same questions: 20 got worse" in alert.evidence.detail
    assert alert.evidence.worst == ()
    vigil.end()


def test_without_probes_nothing_of_the_evaluation_is_imported():
    code = "import sys, ragmon.daemon.serve; print('ragmon.evaluate' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
