"""Fixed answers judged again: a judge that changes is seen, over restarts, within the budget."""

import json

import pytest

from tests.support.daemons import running
from tests.support.llm_server import serving, with_fields
from tests.support.metrics import values
from tests.support.wait import eventually


@pytest.fixture
def llm():
    with serving() as server:
        yield server


@pytest.fixture
def file(tmp_path):
    lines = [
        {"query": "q", "answer": f"It is {n}.", "faithful": 1.0,
         "chunks": [{"id": "c", "text": f"It is {n}"}]}
        for n in range(4)
    ]  # fmt: skip
    path = tmp_path / "anchors.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def settings(llm, file, **more):
    usual = {
        "judge__llm__base_url": llm.url,
        "judge__llm__model": "tiny",
        "judge__llm__modes": "[rubric]",
        "judge__anchors": str(file),
        "judge__anchors_every": 3_600.0,
    }
    return usual | more


def shown(site):
    page = site.page()
    names = ("score", "drift")
    return [values(page, f"ragmon_judge_anchor_{name}", judge="llm") for name in names]


def test_a_judge_that_becomes_milder_drifts(tmp_path, llm, file):
    llm.always = with_fields(faithfulness=3)
    with running(tmp_path / "data", **settings(llm, file)) as site:
        eventually(lambda: shown(site)[0], "a first round")
        assert shown(site) == [[0.5], [0.0]]
        assert len(llm.chats) == 4
    with running(tmp_path / "data", **settings(llm, file)) as site:
        assert shown(site) == [[0.5], [0.0]]  # not due, and not forgotten
    llm.always = with_fields(faithfulness=5)
    with running(tmp_path / "data", **settings(llm, file, judge__anchors_every=0.2)) as site:
        eventually(lambda: shown(site) == [[1.0], [0.5]], "a later round")


def test_another_model_begins_anew(tmp_path, llm, file):
    llm.always = with_fields(faithfulness=3)
    with running(tmp_path / "data", **settings(llm, file)) as site:
        eventually(lambda: shown(site)[0], "a first round")
    llm.always = with_fields(faithfulness=5)
    with running(tmp_path / "data", **settings(llm, file, judge__llm__model="other")) as site:
        eventually(lambda: shown(site) == [[1.0], [0.0]], "a first round of the other")


def test_anchors_wait_for_a_budget_that_holds_them(tmp_path, llm, file):
    given = settings(llm, file, sampling__judgements_per_hour=3, judge__anchors_every=0.2)
    with running(tmp_path / "data", **given) as site:
        eventually(lambda: site.total("ragmon_evaluation_timestamp_seconds"), "it runs")
        assert shown(site) == [[], []]
        assert site.total("ragmon_judge_budget_remaining_ratio") == 1.0
    assert llm.chats == []
