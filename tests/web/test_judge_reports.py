"""The judges' report card over HTTP, as a page and as a command, from a running daemon."""

import numpy as np
import pytest

from ragmon.cli import main
from ragmon.clock import SystemClock
from ragmon.records import Verdict
from ragmon.sources import Submission
from tests.support.daemons import json_among_logs, running
from tests.support.pages import HtmlPage, check_policy
from tests.support.wait import eventually

LIMITED, ADMIN = "limited-secret", "admin-secret"
HOSTILE = "<b>\x1b[31m"
LABELS = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tokens = [
        {"name": "limited", "token": LIMITED, "scopes": ["read"], "pipelines": ["docs"]},
        {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    ]
    path = tmp_path_factory.mktemp("judges") / "data"
    settings = {"auth__tokens": tokens, "judge__grounding__enabled": False}
    with running(path, **settings) as running_site:
        plant(running_site)
        yield running_site


def plant(site) -> None:
    """A judge that knows how good answers are, and one that guesses."""
    rng, now = np.random.default_rng(8), SystemClock().now() - 3_600.0
    names = [f"q{at}" for at in range(LABELS)] + [f"{HOSTILE}{at}" for at in range(3)]
    admin = site.with_token(ADMIN)
    queries = [
        {"query_id": name, "pipeline": "docs", "timestamp": now + at, "answer": "An answer."}
        for at, name in enumerate(names)
    ]
    queries += [{"query_id": "hidden", "pipeline": "secret", "timestamp": now}]
    assert admin.post("/v1/queries", queries).status == 200
    chances = {name: (float(rng.random()), float(rng.random())) for name in [*names, "hidden"]}
    labels = [
        {"query_id": name, "faithful": float(rng.random() < chances[name][0])}
        for name in [*names[:LABELS], "hidden"]
    ]
    assert admin.post("/v1/labels", labels).status == 200
    verdicts = [
        Verdict(query_id=name, judge=judge, score=score, version="1")
        for name, scores in chances.items()
        for judge, score in zip(("grounding", "local"), scores, strict=True)
    ]
    done = []
    site.daemon._engine.writer.submit(Submission("test", 1, done.append, changes=verdicts))
    eventually(lambda: done, "the verdicts are stored")


@pytest.fixture
def admin(site):
    return site.with_token(ADMIN)


def by_judge(answer):
    assert answer.status == 200, answer.text
    return {judge["judge"]: judge for judge in answer.json["judges"]}


def test_planted_judges_are_called_what_they_are(admin):
    answer = admin.get("/v1/judges/report?pipeline=docs")
    judges = by_judge(answer)
    assert judges["grounding"]["assessment"] == "good"
    assert judges["local"]["assessment"] == "no_better_than_chance"
    assert (answer.json["labelled"], judges["local"]["labels"]) == (LABELS, LABELS)
    assert "do not trust the local model for anything" in answer.json["trust"]
    assert len(answer.json["disagreements"]) == 10


def test_a_token_sees_the_judges_of_its_pipelines_only(site, admin):
    limited = site.with_token(LIMITED).get("/v1/judges/report?limit=1000")
    assert limited.json["labelled"] == LABELS
    assert "hidden" not in limited.text
    assert admin.get("/v1/judges/report").json["labelled"] == LABELS + 1
    assert site.with_token(LIMITED).get("/v1/judges/report?pipeline=secret").status == 403
    assert site.get("/v1/judges/report").status == 401


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("since=soon", "since: 'soon' is neither unix seconds"),
        ("since=1h&until=2h", "the end is not after the start"),
        ("limit=0", "limit: '0' is not a number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(admin, asked, said):
    answer = admin.get(f"/v1/judges/report?{asked}")
    assert answer.status == 400
    assert said in answer.json["detail"]


def test_the_page_has_the_sentence_the_curves_and_links_to_the_queries(admin):
    answer = admin.get("/judge/report")
    assert answer.status == 200, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    assert "do not trust the local model for anything" in page.text
    assert "no better than chance" in page.text
    assert page.tags.count("svg") >= 4  # ROC and calibration of both
    assert "\x1b" not in answer.text
    queries = [link for link in page.links if link.startswith("/queries/")]
    assert len(queries) == 20
    for link in page.links:
        assert admin.get(link).status == 200, link
    assert "/judge/report" in HtmlPage(admin.get("/judge").text).links


def test_a_time_without_answers_says_what_is_needed(admin):
    text = HtmlPage(admin.get("/judge/report?since=20s").text).text
    assert "No judge has enough labels" in text


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(ADMIN, encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def ask(site, token_file, *flags):
    return main(["judge", "report", "--url", site.url, "--token-file", token_file, *flags])


def test_the_command_prints_tables_with_links(site, token_file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert ask(site, token_file, "--pipeline", "docs", "--limit", "3") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "do not trust the local model for anything" in out
    assert f"{LABELS} labelled answers" in out
    assert "It ranks answers no better than chance" in out
    assert out.count(f"{site.url}/queries/") == 3
    assert "\x1b[31m" not in out


def test_its_json_is_the_answer_of_the_api(site, token_file, capsys):
    assert ask(site, token_file, "--json") == 0
    report = json_among_logs(capsys.readouterr().out)
    assert {judge["judge"] for judge in report["judges"]} == {"grounding", "local"}
