"""`ragmon judge`: says what it may cost, draws with a known chance, judges within the budget."""

import numpy as np
import pytest

from ragmon.cli import main
from ragmon.daemon.judging.on_demand import JudgeRunPlan, StoredAnswer, redrawn
from ragmon.records import Draw
from tests.support.daemons import running
from tests.support.llm_server import serving
from tests.support.metrics import values
from tests.support.wait import eventually

NEVER = 1e-9  # judgements a day: nothing is drawn on schedule


@pytest.fixture
def llm():
    with serving() as server:
        yield server


def answered(number):
    return {
        "query_id": f"q{number}",
        "query": "When?",
        "answer": f"It is {number}.",
        "chunks": [{"id": "c", "text": f"It is {number}, they say"}],
    }


def settings(llm, **more):
    usual = {
        "judge__llm__base_url": llm.url,
        "judge__llm__model": "tiny",
        "judge__llm__modes": "[claims]",
        "judge__llm__prices": {"tiny": {"prompt": 1.0, "completion": 2.0}},
        "judge__every": 0.2,
        "sampling__judgements_per_hour": 100_000,
        "sampling__judgements_per_day": None,
        "sampling__dollars_per_day": 1_000.0,
    }
    return usual | more


def run(site, *words):
    return main(["judge", "--url", site.url, *words])


def drawn_by_nobody(tmp_path, count):
    """Answers of a store that was never judged."""
    with running(tmp_path / "data") as site:
        site.post("/v1/queries", [answered(number) for number in range(count)])
        assert site.get("/v1/queries/q1").json["draw"] is None


def test_past_answers_are_judged_once_somebody_asks(tmp_path, llm, capsys):
    drawn_by_nobody(tmp_path, 20)
    # With the follower behind them, these answers are not drawn on schedule.
    with running(tmp_path / "data", **settings(llm, sampling__judgements_per_hour=0)) as site:
        eventually(lambda: site.total("ragmon_judge_queue_length", judge="grounding") == 0, "read")
        assert run(site, "--since", "1h", "--limit", "8", "--dry-run") == 0
        out = capsys.readouterr().out
        assert "of 20 answers to judge (0 judged before)" in out
        assert "at most $" in out
        assert "allows 0 judgements" in out
        assert llm.chats == []


def test_what_is_asked_for_is_judged_and_weighed(tmp_path, llm, capsys):
    with running(tmp_path / "data", **settings(llm)) as site:
        site.post("/v1/queries", [answered(number) for number in range(12)])
        eventually(lambda: site.total("ragmon_judged_total", judge="llm") == 12, "all judged")
        before = site.get("/v1/queries/q1").json["draw"]
        assert run(site, "--limit", "6", "--yes") == 0
        assert "0 of 12 answers to judge (12 judged before)" in capsys.readouterr().out
        assert site.get("/v1/queries/q1").json["draw"] == before  # nothing had to be drawn


def test_a_sample_is_judged_and_counted(tmp_path, llm, capsys):
    llm_off = settings(llm, sampling__least=1e-9, sampling__judgements_per_hour=0)
    with running(tmp_path / "data", **llm_off) as site:
        site.post("/v1/queries", [answered(number) for number in range(30)])
        eventually(lambda: site.get("/v1/queries/q29").json["draw"], "all had their chance")
        assert site.total("ragmon_judge_queue_length", judge="llm") == 0
    with running(tmp_path / "data", **settings(llm)) as site:
        assert run(site, "--since", "1h", "--limit", "10", "--yes") == 0
        out = capsys.readouterr().out
        page = site.page()
        draws = [site.get(f"/v1/queries/q{number}").json["draw"] for number in range(30)]
    assert "10 of 30 answers to judge" in out
    assert "All of them are judged." in out
    assert "Faithfulness of the last 1h: 100 %" in out
    assert values(page, "ragmon_faithfulness_ratio_samples", judge="llm", window="1h") == [10]
    assert [draw["probability"] for draw in draws] == pytest.approx([1 / 3] * 30, rel=1e-6)
    assert sum(draw.get("drawn", False) for draw in draws) == 10


def test_nobody_is_asked_without_consent(tmp_path, llm, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    llm_off = settings(llm, sampling__least=1e-9, sampling__judgements_per_hour=0)
    with running(tmp_path / "data", **llm_off) as site:
        site.post("/v1/queries", [answered(1)])
        assert run(site, "--limit", "5") == 2
    assert "Add --yes" in capsys.readouterr().err
    assert llm.chats == []


def test_without_a_language_model_it_says_how_to_get_one(tmp_path, capsys):
    with running(tmp_path / "data") as site:
        assert run(site, "--yes") == 2
    assert "judge.llm.base_url" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--dry-run"], ["--yes"], ["--json", "--yes"], ["report"]])
def test_a_misspelt_pipeline_is_refused_with_the_nearest_name(tmp_path, llm, capsys, words):
    with running(tmp_path / "data", **settings(llm)) as site:
        site.post("/v1/queries", [answered(number) | {"pipeline": "docs"} for number in range(3)])
        capsys.readouterr()  # the daemon's log
        assert run(site, *words, "--pipeline", "docz") == 2
        said = capsys.readouterr()
        assert said.err == "ragmon: there is no pipeline 'docz'. Did you mean docs?\n"
        assert said.out == ""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({"limit": 0}, 400, id="no answers"),
        pytest.param({"since": "yesterday"}, 400, id="no moment"),
        pytest.param({"limits": 5}, 400, id="a typo"),
        pytest.param({"dry_run": True}, 200, id="a forecast"),
    ],
)
def test_what_may_be_asked(tmp_path, llm, body, status):
    with running(tmp_path / "data", **settings(llm)) as site:
        assert site.post("/v1/judge", body).status == status


def test_two_draws_make_one_chance():
    """An answer is in one draw or the other, as often as its stored probability says."""
    rng = np.random.default_rng(0)
    q, p, times = 0.3, 0.25, 4_000
    hits = 0
    for _ in range(times):
        first = Draw(query_id="q", probability=q, proxy=0.5, drawn=bool(rng.random() < q))
        found = StoredAnswer("q", 0, first, False, 0.5)
        (again,) = redrawn(JudgeRunPlan([found], [bool(rng.random() < p)], p), 1.0)
        hits += again.drawn
        assert again.round == 1
    assert again.probability == pytest.approx(1 - 0.7 * 0.75)
    assert hits / times == pytest.approx(again.probability, abs=0.03)
