"""A local model in a running daemon: read, stored, estimated, corrected, and drawn by."""

import pytest
from structlog.testing import capture_logs

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.judging.build import check_judges
from ragmon.errors import SettingsError
from ragmon.windows.row_layout import RowLayout
from tests.support.daemons import running
from tests.support.llm_server import serving
from tests.support.metrics import total, values
from tests.support.stand_in_model import StandInModel
from tests.support.wait import eventually

WINDOW = {"window": "1h", "pipeline": "default"}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    model = StandInModel(tmp_path / "stand-in")
    for name, value in model.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(model.site))
    return model


def settings(stand_in, **more):
    usual = {
        "judge__local__kind": "lettucedetect",
        "judge__local__model": str(stand_in.model),
        "judge__local__max_cpu": 16.0,  # a test waits for it
    }
    return usual | more


def answered(number, *, invents=False):
    opened = "noon" if invents else "nine"
    return {
        "query_id": f"q{number}",
        "query": "When?",
        "answer": f"The office opens at {opened}.",
        "chunks": [{"id": "hours", "text": f"The office opens at nine on day {number}."}],
    }


def read_by_it(site, **labels):
    return site.total("ragmon_judged_total", judge="local", **labels)


def test_answers_are_read_stored_estimated_and_corrected_by_people(tmp_path, stand_in):
    with running(tmp_path / "data", **settings(stand_in)) as site:
        for n in range(0, 80, 20):  # it reads a share of more, until its speed is known
            site.post("/v1/queries", [answered(n + k, invents=n < 20) for k in range(20)])
            eventually(lambda n=n: read_by_it(site, outcome="scored") == n + 20, "all read", 60.0)
        (verdict,) = site.get("/v1/queries/q3").json["verdicts"]
        site.post(
            "/v1/labels", [{"query_id": f"q{n}", "faithful": float(n >= 40)} for n in range(80)]
        )
        page = site.page()
        worst = site.get("/v1/queries?failing=unfaithful&limit=100").json
        report = site.get("/v1/report?window=1h").json
    assert (verdict["judge"], verdict["probability"]) == ("local", 1.0)
    assert verdict["score"] == pytest.approx(0.1)
    (doubt,) = verdict["doubts"]
    assert (doubt["start"], doubt["end"], doubt["reason"]) == (20, 24, "unsupported_span")
    assert verdict["version"] == "lettucedetect words"
    local = {"judge": "local", **WINDOW}
    assert values(page, "ragmon_faithfulness_ratio", **local) == [pytest.approx(0.7)]
    assert values(page, "ragmon_faithfulness_ratio_samples", **local) == [80]
    (lower,) = values(page, "ragmon_faithfulness_ratio_lower", **local)
    (upper,) = values(page, "ragmon_faithfulness_ratio_upper", **local)
    assert 0.55 < lower < 0.7 < upper < 0.85
    corrected = WINDOW | {"judge": "local_corrected"}
    assert values(page, "ragmon_faithfulness_ratio", **corrected) == [pytest.approx(0.5)]
    assert values(page, "ragmon_judge_agreement_answers", call="both_bad", **local) == [20]
    assert values(page, "ragmon_judge_agreement_answers", call="judge_only", **local) == [20]
    assert total(page, "ragmon_judged_answers_total", judge="local") == 80
    assert total(page, "ragmon_judged_score_total", judge="local") == pytest.approx(56.0)
    assert total(page, "ragmon_judge_cpu_seconds_total", judge="local") > 0.0
    assert total(page, "ragmon_judge_queue_length", judge="local") == 0
    assert len(worst["queries"]) == 40  # people's labels count before it
    assert report["pipelines"][0]["metrics"]["faithfulness/local"]["samples"] == 80


def test_its_score_counts_before_the_embedded_judges(tmp_path, stand_in):
    given = settings(stand_in, judge__grounding__enabled=True, judge__grounding__max_cpu=1.0)
    with running(tmp_path / "data", **given) as site:
        site.post("/v1/queries", [answered(1), answered(2, invents=True)])
        eventually(lambda: read_by_it(site) == 2, "it read both", 60.0)
        eventually(
            lambda: site.total("ragmon_judged_total", judge="grounding") == 2, "both did", 60.0
        )
        (worst,) = site.get("/v1/queries?failing=unfaithful").json["queries"]
        judges = {each["judge"]: each for each in worst["verdicts"]}
    assert worst["record"]["query_id"] == "q2"
    assert judges["local"]["score"] == pytest.approx(0.1)
    assert judges["grounding"]["score"] > judges["local"]["score"] + 0.2


def test_it_draws_for_the_language_model_where_it_is_the_proxy(tmp_path, stand_in):
    with serving() as llm:
        given = settings(
            stand_in,
            judge__local__proxy=True,
            judge__grounding__enabled=True,
            judge__llm__base_url=llm.url,
            judge__llm__model="tiny",
            judge__llm__attempts=1,
            judge__every=0.2,
            sampling__judgements_per_hour=100_000,
            sampling__judgements_per_day=None,
        )
        with running(tmp_path / "data", **given) as site:
            site.post("/v1/queries", [answered(n, invents=n < 5) for n in range(10)])
            eventually(lambda: site.total("ragmon_judged_total", judge="llm") == 10, "judged", 60.0)
            engine = site.daemon._engine
            rows = engine.thread.ask(
                lambda: engine.windows.merge(3_600.0, SystemClock().now()).rows
            )
            at = engine.pipeline.catalogue.index("sampled_moment", of="proxy")
            layout = RowLayout(len(engine.pipeline.catalogue.columns))
            proxies = rows[:, layout.sum][:, at].max()
            page = site.page()
    assert values(page, "ragmon_faithfulness_ratio_samples", judge="llm", **WINDOW) == [10]
    assert proxies == pytest.approx(5 * 0.1 + 5 * 0.9)  # its scores, not the embedded judge's


def test_an_answer_that_ends_its_process_is_quarantined_and_the_others_are_read(tmp_path, stand_in):
    with running(tmp_path / "data", **settings(stand_in)) as site:
        poisoned = answered(0) | {"answer": "A poison in the office."}
        site.post("/v1/queries", [poisoned, *(answered(n) for n in range(1, 4))])
        eventually(lambda: read_by_it(site) == 4, "each was read or left out", 60.0)
        assert read_by_it(site, outcome="judge_crashed") == 1
        assert read_by_it(site, outcome="scored") == 3
        assert site.total("ragmon_judge_restarts_total", judge="local") >= 2
        (entry,) = site.get("/v1/quarantine").json["entries"]
    assert (entry["stage"], entry["name"], entry["reason"]) == ("judge", "q0", "judge_crashed")


def test_a_model_that_cannot_be_loaded_costs_no_answer_and_is_said(tmp_path, stand_in):
    stand_in.break_()
    with capture_logs() as logged, running(tmp_path / "data", **settings(stand_in)) as site:
        site.post("/v1/queries", [answered(1)])
        eventually(
            lambda: any(e["event"] == "local-judge_failed" for e in logged), "it is logged", 60.0
        )
        assert read_by_it(site) == 0
        assert site.total("ragmon_judge_queue_length", judge="local") == 1
        stand_in.heal()
        eventually(lambda: read_by_it(site, outcome="scored") == 1, "tried again", 60.0)
    (error, *_) = [e for e in logged if e["event"] == "local-judge_failed"]
    assert "no weights" in str(error)


def test_check_config_refuses_a_model_that_is_not_there(tmp_path, stand_in):
    flags = {"judge.local.kind": "nli", "judge.local.model": str(tmp_path / "nowhere")}
    with pytest.raises(SettingsError, match=r"config\.json"):
        check_judges(load(None, flags, {}).settings)
