"""Selections of stored queries over HTTP: every filter, pages, counts and exports."""

import csv
import io
import json

import pytest

from ragmon.clock import SystemClock
from ragmon.evaluate.loaders import read_cases
from tests.support.daemons import running

PIPELINE = "explored"


@pytest.fixture(scope="module")
def site(daemon):
    now = SystemClock().now() - 600.0
    batch = [
        {
            "query_id": f"x{at}",
            "pipeline": PIPELINE,
            "timestamp": now + at,
            "environment": "prod" if at % 2 else "test",
            "model": f"m{at % 3}",
            "session_id": f"s{at // 5}",
            "user_id": f"u{at % 4}",
            "trace_id": f"{at:032x}",
            "query": f"How much is item {at}?",
            "answer": '=SUM(A1) "quoted",\n<script>' if at == 7 else "It costs 5 Euro.",
            "latency_ms": 10 * at,
            "feedback": "negative" if at == 3 else None,
            **({"error": "boom"} if at == 4 else {}),
            **({"session_id": None} if at == 9 else {}),
        }
        for at in range(10)
    ]
    assert daemon.post("/v1/queries", batch).json["accepted"] == 10
    labels = [
        {"query_id": "x1", "faithful": 1.0},
        {"query_id": "x2", "faithful": 0.25},
        {"query_id": "x5", "relevant_ids": ["d1", "d2"]},
    ]
    assert daemon.post("/v1/labels", labels).status == 200
    return daemon


def listed(site, asked):
    answer = site.get(f"/v1/queries?pipeline={PIPELINE}&{asked}")
    assert answer.status == 200, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("environment=prod", "97531", id="environment"),
        pytest.param("model=m1", "741", id="model"),
        pytest.param("session=s1", "8765", id="session"),
        pytest.param("session=", "9", id="no session"),
        pytest.param("user=u2", "62", id="user"),
        pytest.param(f"trace={6:032x}", "6", id="trace"),
        pytest.param("failure_mode=generation", "3", id="failure mode"),
        pytest.param("feedback=negative", "3", id="feedback"),
        pytest.param("feedback=none&environment=prod", "9751", id="not rated"),
        pytest.param("min_score=0.5", "1", id="judged at least"),
        pytest.param("max_score=0.5", "2", id="judged at most"),
        pytest.param("words=ITEM+7", "7", id="words of the question"),
        pytest.param("words=euro+4", "4", id="words of both"),
        pytest.param("words=tem", "", id="not a whole word"),
        pytest.param("order=worst", "21", id="worst first"),
        pytest.param("order=slowest&limit=3", "987", id="slowest first"),
        pytest.param("failing=error,disliked", "43", id="failing"),
    ],
)
def test_filters(site, asked, expected):
    found = listed(site, asked)
    assert "".join(each["record"]["query_id"][1:] for each in found["queries"]) == expected
    if "limit" not in asked:
        assert (found["matches"], found["matches_at_least"]) == (len(expected), False)
        assert found["next_cursor"] is None


@pytest.mark.parametrize("order", ["newest", "slowest"])
def test_pages_follow_one_another_while_more_come_in(site, order):
    seen, cursor = [], ""
    for page in range(4):
        found = listed(site, f"order={order}&limit=3&until=5m&{cursor}")
        seen += [each["record"]["query_id"] for each in found["queries"]]
        assert (found["matches"] is None) == bool(page)
        assert (found["next_cursor"] is None) == (page == 3)
        cursor = f"cursor={found['next_cursor']}"
        extra = {"query_id": f"later-{order}-{page}", "pipeline": PIPELINE, "latency_ms": 1}
        assert site.post("/v1/queries", extra).json["accepted"] == 1
    assert seen == [f"x{at}" for at in reversed(range(10))]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("min_score=1.5", "min_score: '1.5' is not a number from 0 to 1"),
        ("max_score=nan", "max_score: 'nan' is not a number from 0 to 1"),
        ("feedback=bad", "feedback: 'bad' is not one of positive, negative"),
        ("failure_mode=bad", "failure_mode: 'bad' is not one of retrieval"),
        ("words=%3F", "words: '?' holds no word"),
        (f"words={'a' * 501}", "words: 501 characters, 500 are allowed"),
        ("cursor=abc", "cursor: 'abc' is none"),
        ("cursor=" + "A" * 300, "is none; take next_cursor"),
        ("order=oldest", "order: 'oldest' is not one of newest, slowest, worst"),
    ],
)
def test_refusals_name_the_remedy(site, asked, says):
    for path in ("/v1/queries", "/v1/export"):
        if path == "/v1/export" and "cursor" in asked:
            continue
        answer = site.get(f"{path}?{asked}")
        assert (answer.status, says in answer.json["detail"]) == (400, True), answer.text


def test_a_cursor_belongs_to_its_order(site):
    cursor = listed(site, "limit=3")["next_cursor"]
    answer = site.get(f"/v1/queries?order=slowest&cursor={cursor}")
    assert "made for order=newest, this is slowest" in answer.json["detail"]


def exported(site, asked):
    answer = site.get(f"/v1/export?pipeline={PIPELINE}&until=5m&{asked}")
    assert answer.status == 200, answer.text
    return answer


def test_an_export_as_lines_holds_each_query_once(site):
    answer = exported(site, "format=jsonl")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["record"]["query_id"] for each in lines] == [f"x{at}" for at in range(9, -1, -1)]
    assert 'filename="queries.jsonl"' in answer.headers["content-disposition"]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert len(exported(site, "limit=4").text.splitlines()) == 4


def test_an_export_as_table_computes_nothing(site):
    answer = exported(site, "format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 10
    assert rows[2]["answer"] == '\'=SUM(A1) "quoted",\n<script>'
    assert (rows[0]["session_id"], rows[0]["latency_ms"]) == ("", "90.0")
    assert rows[8]["faithfulness"] == "1.0"


def test_an_export_as_golden_set_is_what_evaluate_reads(site, tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text(exported(site, "format=golden").text)
    cases = {case.case_id: case for case in read_cases(path).cases}
    assert sorted(cases) == ["x1", "x5"]  # x2 was found unfaithful, the others nobody judged
    assert cases["x1"].ground_truth_answer == "It costs 5 Euro."
    assert cases["x5"].judgements == {"d1": 1.0, "d2": 1.0}


def test_an_export_in_many_parts_is_whole(tmp_path):
    with running(tmp_path / "data") as site:
        text = "x" * 30_000
        for part in range(3):
            batch = [{"query_id": f"p{part}-{at}", "answer": text} for at in range(100)]
            assert site.post("/v1/queries", batch).json["accepted"] == 100
        lines = site.get("/v1/export").text.splitlines()
        records = [json.loads(line)["record"] for line in lines]
        assert len({each["query_id"] for each in records}) == 300 == len(records)
        assert all(each["answer"] == text for each in records)


def test_an_unknown_form_is_refused(site):
    answer = site.get("/v1/export?format=xml")
    assert "format: 'xml' is not one of jsonl, csv, golden" in answer.json["detail"]
