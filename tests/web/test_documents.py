"""``GET /v1/documents``: what is read, what is refused, and who may see which pipeline."""

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import running

LIMITED, ADMIN = "limited-secret", "admin-secret"


def query(number, now, *ids, pipeline="docs", **fields):
    return {
        "query_id": f"{pipeline}-{number}",
        "pipeline": pipeline,
        "timestamp": now - 600.0 + number,
        "chunks": [{"id": name, "source": f"{name[0]}.md", "score": 0.5} for name in ids],
        "citations": list(ids[:1]),
        **fields,
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tokens = [
        {"name": "limited", "token": LIMITED, "scopes": ["read"], "pipelines": ["docs"]},
        {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    ]
    path = tmp_path_factory.mktemp("documents") / "data"
    with running(path, auth__tokens=tokens) as running_site:
        now = SystemClock().now()
        batch = [query(at, now, "a1", "a2", "b1") for at in range(10)]
        batch += [query(10 + at, now, "b1", feedback="negative") for at in range(5)]
        batch[0]["version"] = "v1"
        batch += [query(at, now, "hidden-1", pipeline="secret") for at in range(3)]
        assert running_site.with_token(ADMIN).post("/v1/queries", batch).status == 200
        yield running_site


@pytest.fixture
def admin(site):
    return site.with_token(ADMIN)


def rows(answer):
    assert answer.status == 200, answer.text
    return {row["id"]: row for row in answer.json["rows"]}


def test_chunks_are_counted_with_ranks_citations_and_feedback(admin):
    answer = admin.get("/v1/documents?pipeline=docs")
    documents = rows(answer)
    assert list(documents) == ["b1", "a1", "a2"]
    assert documents["b1"]["retrieved"] == 15
    assert documents["b1"]["ranks"][:3] == [5, 0, 10]
    assert documents["b1"]["disliked"]["rate"]["estimate"] == 1.0
    assert documents["a1"]["cited"]["estimate"] == 1.0
    assert documents["a1"]["source"] == "a.md"
    assert (answer.json["queries"], answer.json["by"], answer.json["rated"]) == (15, "chunk", 5)
    assert answer.json["retrieved_ids"] is None


def test_sources_are_counted_once_an_answer(admin):
    documents = rows(admin.get("/v1/documents?by=source&pipeline=docs"))
    assert {name: row["retrieved"] for name, row in documents.items()} == {"a.md": 10, "b.md": 15}


def test_a_version_that_no_query_has_is_refused_with_those_that_there_are(admin):
    answer = admin.get("/v1/documents?release=v9&pipeline=docs")
    assert answer.status == 400
    assert answer.json["detail"].startswith(
        "release: none of these queries has version 'v9', there are 'v1'"
    )
    assert admin.get("/v1/documents?release=v1&pipeline=docs").status == 200
    answer = admin.get("/v1/documents?release=v1&pipeline=secret")
    assert "version 'v1', none has any" in answer.json["detail"]
    assert rows(admin.get("/v1/documents?since=20d&until=10d&release=v9")) == {}


def test_ids_of_all_are_listed_when_asked_for(admin):
    answer = admin.get("/v1/documents?ids=true&limit=1&pipeline=docs").json
    assert sorted(answer["retrieved_ids"]) == ["a1", "a2", "b1"]
    assert len(answer["rows"]) == 1


def test_a_time_without_queries_is_empty(admin):
    answer = admin.get("/v1/documents?since=20d&until=10d")
    assert rows(answer) == {}
    assert answer.json["findings"] == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("by=page", "by: 'page' is not one of chunk, source"),
        ("k=0", "k: '0' is not a number from 1 to 100"),
        ("since=soon", "since: 'soon' is neither unix seconds"),
        ("since=1h&until=2h", "the end is not after the start"),
        ("changed=1h&release=v2", "give one of them"),
        ("limit=0", "limit: '0' is not a number"),
        ("ids=yes", "ids: 'yes' is neither true nor false"),
        ("source=a", "source"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(admin, asked, said):
    answer = admin.get(f"/v1/documents?{asked}")
    assert answer.status == 400
    assert said in answer.json["detail"]


def test_a_token_sees_the_documents_of_its_pipelines_only(site, admin):
    limited = site.with_token(LIMITED)
    assert "hidden-1" in rows(admin.get("/v1/documents"))
    answer = limited.get("/v1/documents?ids=true")
    assert set(rows(answer)) == {"a1", "a2", "b1"}
    assert "hidden" not in answer.text
    assert answer.json["queries"] == 15
    assert limited.get("/v1/documents?pipeline=secret").status == 403
    assert site.get("/v1/documents").status == 401


def test_a_read_beyond_its_time_is_given_up_with_a_remedy(tmp_path):
    with running(tmp_path / "data", limits__query_timeout="1ms") as slow:
        now = SystemClock().now()
        batch = [
            query(at, now, *(f"d{at % 97}-{part}" for part in range(20))) for at in range(1_000)
        ]
        assert slow.post("/v1/queries", batch).status == 200
        answer = slow.get("/v1/documents")
        assert answer.status == 503
        assert "limits.query_timeout" in answer.json["detail"]


def test_live_lists_are_of_the_pipelines_that_may_be_read(site, admin):
    limited = site.with_token(LIMITED)
    assert [one["pipeline"] for one in limited.get("/v1/documents/top").json["pipelines"]] == [
        "docs"
    ]
    assert limited.get("/v1/documents/top?pipeline=secret").status == 403
    everything = admin.get("/v1/documents/top?limit=1").json
    assert [one["pipeline"] for one in everything["pipelines"]] == ["docs", "secret"]
    (first,) = everything["pipelines"][0]["documents"]
    assert (first["id"], first["retrieved"]["estimate"], first["retrieved"]["upper"]) == (
        "b1",
        15,
        15,
    )
