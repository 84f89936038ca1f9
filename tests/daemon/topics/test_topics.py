"""Topics of a running daemon: the API, the page, the command, and the file that keeps their ids."""

import csv
import io
import json
import os
import signal

import pytest

from ragmon.cli import main
from ragmon.clock import SystemClock
from ragmon.daemon.topics.kept import FILE, KeptTopics
from ragmon.daemon.topics.process import TopicProcess, TopicsFailedError
from ragmon.daemon.topics.worker import AddedQueries
from ragmon.topics.grouping import KeptModel
from tests.support.daemons import json_among_logs, running
from tests.support.pages import HtmlPage, check_policy
from tests.support.wait import eventually
from tests.topics.test_topics import asked

HOSTILE = "=cmd()<script>alert(1)</script> \u202e"


def batch(now: float) -> list[dict[str, object]]:
    """400 queries of a shop; those about refunds miss half of the time. And 40 of another team."""
    texts, truth = asked(400)
    hits = [subject != "refund" or at % 2 == 0 for at, subject in enumerate(truth)]
    shop = [
        {
            "query_id": f"q{at}",
            "pipeline": "shop",
            "timestamp": now - 3_600.0 - 61.0 * at,
            "query": text,
            "chunks": [{"id": "a"}],
            "relevant_ids": ["a" if hit else "b"],
        }
        for at, (text, hit) in enumerate(zip(texts, hits, strict=True))
    ]
    secret = [
        {
            "query_id": f"s{at}",
            "pipeline": "secret",
            "timestamp": now - 3_600.0 - 61.0 * at,
            "query": f"{HOSTILE} merger negotiation price number {at}",
        }
        for at in range(40)
    ]
    return [*shop, *secret]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("topics")
    with running(data_dir, topics__max_cpu=1.0) as daemon:
        answer = daemon.post("/v1/queries", batch(SystemClock().now()))
        assert answer.json["accepted"] == 440
        yield daemon


def listed(site, path="/v1/topics", **headers):
    """The topics, once they are found."""
    eventually(lambda: site.get(path).status == 200, "the topics are found", 120)
    return site.get(path).json


def test_the_worst_topic_comes_first_with_its_questions(site):
    topics = listed(site)
    assert topics["queries"] == 440
    assert topics["read_share"] == 1.0
    first = topics["topics"][0]
    assert first["is_gap"]
    assert set(first["words"]) & {"refund", "deadline", "money", "back", "return", "receipt"}
    assert first["outcomes"]["hit_rate"]["topic"]["estimate"] < 0.7
    question = first["questions"][0]
    assert (
        site.get(f"/v1/queries/{question['query_id']}").json["record"]["query"]
        == (question["text"])
    )


def test_one_pipeline_has_topics_of_its_own(site):
    topics = listed(site, "/v1/topics?pipeline=shop&since=1d")
    assert topics["queries"] == 400
    assert not any("merger" in topic["words"] for topic in topics["topics"])


def test_no_queries_have_no_topics(site):
    topics = listed(site, "/v1/topics?pipeline=nobody")
    assert (topics["queries"], topics["topics"]) == (0, [])


@pytest.mark.parametrize(
    ("query", "part"),
    [
        pytest.param("since=1s", "at least 5 minutes", id="too short"),
        pytest.param("since=400d", "at most 90 days", id="too long"),
        pytest.param("since=soon", "since", id="no time"),
        pytest.param("nonsense=1", "nonsense", id="an unknown parameter"),
    ],
)
def test_what_cannot_be_asked_is_refused(site, query, part):
    answer = site.get(f"/v1/topics?{query}")
    assert answer.status == 400
    assert part in answer.json["detail"]


def test_the_page_shows_them_and_escapes_what_people_wrote(site):
    listed(site)
    eventually(lambda: "data-row" in site.get("/topics").text, "the page has rows", 120)
    answer = site.get("/topics")
    page = HtmlPage(answer.text)
    check_policy(page)
    assert "1 topic fares worse than the rest." in page.text
    assert "<script>alert" not in answer.text
    assert "merger" in page.text
    assert site.get("/topics?window=1x").status == 400


def test_the_page_of_no_queries_says_what_a_topic_needs(site):
    address = "/topics?pipeline=nobody&window=24h"
    eventually(lambda: "No topics" in site.get(address).text, "the page is made", 120)


def test_the_command_prints_a_table_json_and_csv(site, capsys):
    assert main(["topics", "--url", site.url]) == 0
    printed = capsys.readouterr().out
    assert "1 marked ✗ fare worse" in printed
    assert main(["topics", "--url", site.url, "--json"]) == 0
    assert json_among_logs(capsys.readouterr().out)["queries"] == 440
    assert main(["topics", "--url", site.url, "--csv"]) == 0
    text = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(text[text.index("topic,words") :])))
    assert [row["gap"] for row in rows] == ["1", *["0"] * (len(rows) - 1)]
    questions = [row["question_1"] for row in rows]
    assert any(text.startswith("'=cmd()") for text in questions)  # no formula for a spreadsheet


def test_the_command_writes_a_golden_set_to_label(site, tmp_path):
    file = tmp_path / "golden.jsonl"
    assert main(["topics", "--url", site.url, "--golden", str(file)]) == 0
    cases = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(cases) == 3
    assert all(case["query"] and case["case_id"].startswith("q") for case in cases)


def test_ids_are_kept_in_a_file_and_survive_its_loss(site):
    first = {tuple(topic["words"]): topic["id"] for topic in listed(site)["topics"]}
    file = site.daemon.settings.data_dir / FILE
    assert set(KeptTopics(file.parent).of("").model().weights.terms.tolist())
    later = listed(site, "/v1/topics?since=3d")["topics"]  # another analysis of the same queries
    assert {topic["id"] for topic in later} == set(first.values())
    assert {topic["change"] for topic in later} == {"same"}
    file.write_bytes(b"damaged")
    assert listed(site, "/v1/topics?since=4d")["topics"]


def test_a_process_that_ends_is_an_error_that_says_what_to_do():
    with TopicProcess(1.0, 60.0) as process:
        process.kill()
        with pytest.raises(TopicsFailedError, match="ended or took too long") as caught:
            process.find(KeptModel(made_at=0.0), 0.0, 10.0)
    assert "max_queries" in str(caught.value)


def test_a_process_that_is_stopped_holds_nobody():
    """As the OOM killer's neighbour or a debugger may stop it, while questions are sent to it."""
    questions = AddedQueries([0], ["x" * (4 << 20)], [0], {})  # more than a pipe holds
    with TopicProcess(1.0, 0.5) as process:
        os.kill(process._process.pid, signal.SIGSTOP)
        with pytest.raises(TopicsFailedError, match="took too long"):
            process.add(questions)


def test_nothing_is_begun_once_the_daemon_ends(tmp_path):
    with running(tmp_path / "data", topics__max_cpu=1.0) as site:
        site.daemon._topics.stop()
        answer = site.get("/v1/topics")
        assert answer.status == 503
        assert "ending" in answer.json["detail"]
