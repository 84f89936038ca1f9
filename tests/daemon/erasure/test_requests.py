"""Forgetting a user: everything of hers goes, from the bytes of the files too; counts stay."""

import hashlib
import re

import pytest

from ragmon.privacy.erasure import ERASED
from tests.support.carve import carved
from tests.support.daemons import Process, running
from tests.support.otlp import as_json, span
from tests.support.wait import eventually

JANE, JOHN = "jane-7731", "john-2290"
HERS = (
    "where-does-jane-live", "jane-lives-in-lane", "chunk-about-jane", "janes-file.pdf",
    "jane-secret-tag", "jane-was-unhappy", "janes-session-55", "janes-trace-99", "jane-failed-why",
    "jane-asked-the-retriever", "janes-span-77", "janes-chunk-id",
)  # fmt: skip


def query(query_id, user, **fields):
    mine = user == JOHN
    words = [text.replace("jane", "john") if mine else text for text in HERS]
    return {
        "query_id": query_id,
        "user_id": user,
        "pipeline": "docs",
        "query": words[0],
        "answer": f"{words[1]} [{words[11]}]",
        "chunks": [{"id": words[11], "score": 0.9, "text": words[2], "source": words[3]}],
        "tags": {"note": words[4]},
        "session_id": words[6],
        "trace_id": words[7],
        "span_id": words[10],
        "retrieval_query": words[9],
        "relevant_ids": [words[11]],
        "latency_ms": 120,
        "error": words[8] if query_id.endswith("0") else None,
    } | fields


def forget(site, path, **asked):
    answer = site.request("DELETE", path + "?" + "&".join(f"{k}={v}" for k, v in asked.items()))
    assert answer.status == 202, answer.text
    return finished(site, answer.json["request"])


def finished(site, request):
    def done():
        receipt = site.get(f"/v1/forgotten/{request}").json
        return receipt if receipt["state"] == "done" else None

    return eventually(done, "the receipt is done", 30)


def send(site, count=20, feedback=True):
    for user in (JANE, JOHN):
        site.post("/v1/queries", [query(f"{user}-q{at}", user) for at in range(count)])
    if feedback:
        site.post(
            "/v1/feedback",
            [
                {"query_id": f"{user}-q1", "rating": -1, "comment": f"{user[:4]}-was-unhappy"}
                for user in (JANE, JOHN)
            ],
        )
        labels = {"labeller": "ann", "relevant_ids": ["janes-chunk-id", "janes-other-id"]}
        site.post("/v1/labels", [{"query_id": f"{JANE}-q2"} | labels])


def counted(site):
    metrics = site.get("/v1/report?window=24h").json["metrics"]
    report = site.get("/v1/report?window=24h").json
    return report["queries"], metrics, report["failure_modes"]


def test_everything_of_a_user_leaves_the_files_and_the_counts_stay(tmp_path):
    data = tmp_path / "data"
    with running(data) as site:
        send(site)
        before = counted(site)
        stored = carved(data)
        assert [text for text in (*HERS, JANE) if text.encode() not in stored] == []
        receipt = forget(site, f"/v1/users/{JANE}")
        assert receipt["removed"]["records"] == 20
        assert receipt["removed"]["changes"] == 2
        stored = carved(data)
        assert [text for text in (*HERS, JANE) if text.encode() in stored] == []
        assert b"john-lives-in-lane" in stored
        assert b"john-was-unhappy" in stored
        assert counted(site) == before
        assert site.get(f"/v1/queries/{JANE}-q1").status == 404
        assert site.get(f"/v1/queries/{JOHN}-q1").json["record"]["user_id"] == JOHN
    assert [text for text in (*HERS, JANE) if text.encode() in carved(data)] == []
    with running(data) as site:
        assert counted(site) == before


def test_a_batch_that_is_sent_again_does_not_bring_it_back(tmp_path):
    with running(tmp_path / "data") as site:
        send(site)
        forget(site, f"/v1/users/{JANE}")
        again = site.post("/v1/queries", [query(f"{JANE}-q{at}", JANE) for at in range(20)]).json
        assert again["duplicates"] == 20
        late = {"query_id": f"{JANE}-q3", "rating": 1, "comment": "jane-was-unhappy"}
        assert site.post("/v1/feedback", [late]).json["duplicates"] == 1
        assert b"jane-was-unhappy" not in carved(tmp_path / "data")
        listed = site.get("/v1/queries?failing=error&limit=10").json["queries"]
        erased = [each for each in listed if each["record"]["query_id"].startswith(ERASED)]
        assert len(erased) == 2
        assert all(each["record"].get("query") is None for each in erased)


def test_later_queries_of_the_same_user_are_kept(tmp_path):
    with running(tmp_path / "data") as site:
        send(site)
        forget(site, f"/v1/users/{JANE}")
        assert site.post("/v1/queries", [query("new", JANE)]).json["accepted"] == 1
        assert site.get("/v1/queries/new").json["record"]["user_id"] == JANE


def test_a_session_in_one_pipeline(tmp_path):
    with running(tmp_path / "data") as site:
        shared = {"session_id": "s/1 ?"}
        site.post("/v1/queries", [query("a", JANE, **shared), query("b", JOHN, **shared)])
        site.post("/v1/queries", [query("c", JANE, pipeline="other", **shared)])
        receipt = forget(site, "/v1/sessions/s%2F1%20%3F", pipeline="docs")
        assert (receipt["removed"]["records"], receipt["pipeline"]) == (2, "docs")
        assert site.get("/v1/queries/c").status == 200


def test_a_dry_run_changes_nothing_and_keeps_no_receipt(tmp_path):
    with running(tmp_path / "data") as site:
        send(site)
        receipt = forget(site, f"/v1/users/{JANE}", dry_run="true")
        assert (receipt["dry_run"], receipt["removed"]["records"]) == (True, 20)
        assert site.get(f"/v1/queries/{JANE}-q1").status == 200
        assert site.get("/v1/forgotten").json == {"receipts": []}


def test_the_receipt_proves_whose_it_was_and_does_not_tell(tmp_path):
    with running(tmp_path / "data", backup__to="s3://copies/ragmon") as site:
        (tmp_path / "data" / "ragmon.sqlite.format2.bak").write_bytes(b"as it was")
        send(site)
        forget(site, f"/v1/users/{JANE}")
        [receipt] = site.get("/v1/forgotten").json["receipts"]
        text = f"{receipt['salt']}\0user\0{JANE}"
        assert receipt["subject_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert JANE not in str(receipt)
        places = " ".join(each["place"] for each in receipt["remaining"])
        assert "backups and volume snapshots made before" in places
        assert "such as those in s3://copies/ragmon (backup.to)" in places
        assert "ragmon.sqlite.format2.bak" in places


def test_a_trace_that_is_not_complete_is_deleted(tmp_path):
    data = tmp_path / "data"
    with running(data, otlp__idle_timeout="1h") as site:
        for name, user in (("01", JANE), ("02", JOHN)):
            part = span(
                7,
                trace_id=bytes.fromhex(name * 16),
                parent_id=b"\1" * 8,
                attributes={
                    "openinference.span.kind": "RETRIEVER",
                    "input.value": f"{user}-typed-this",
                    "user.id": user,
                },
            )
            assert (
                site.post("/v1/traces", as_json(part), content_type="application/json").status
                == 200
            )
        waits = {"query_id": "01" * 16, "rating": 1, "comment": "jane-waits-for-it"}
        site.post("/v1/feedback", [waits])
        assert b"jane-7731-typed-this" in carved(data)
        receipt = forget(site, f"/v1/users/{JANE}")
        assert receipt["removed"] == {
            "traces": 1, "waiting": 1, "records": 0, "changes": 0, "alerts": 0,
            "quarantine": 0,
        }  # fmt: skip
        stored = carved(data)
        assert b"jane-7731-typed-this" not in stored
        assert b"jane-waits-for-it" not in stored
        assert b"john-2290-typed-this" in stored
        assert site.total("ragmon_otlp_pending_traces") == 1


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("/v1/users/" + "a" * 300, "1 to 256 characters", id="an id too long"),
        pytest.param("/v1/users/a?dry_run=perhaps", "neither true nor false", id="a flag"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(daemon, path, problem):
    answer = daemon.request("DELETE", path)
    assert (answer.status, problem in answer.json["detail"]) == (400, True)


def test_an_unknown_receipt(daemon):
    assert daemon.get("/v1/forgotten/77").status == 404


def test_it_takes_an_admin(tmp_path):
    tokens = [
        {"name": scope, "scopes": [scope], "token": f"token-{scope}-0123456789"}
        for scope in ("ingest", "read", "admin")
    ]
    with running(tmp_path / "data", auth__tokens=tokens) as site:
        for scope, status in (("ingest", 403), ("read", 403), ("admin", 202)):
            asked = site.with_token(f"token-{scope}-0123456789")
            assert asked.request("DELETE", f"/v1/users/{JANE}").status == status


def test_kill_in_the_middle_is_taken_up_again(tmp_path):
    """The counts of both runs add up, as each block is replaced together with its count."""
    data = tmp_path / "data"
    with Process(data, "--judge.grounding.enabled=false") as site:
        for at in range(60):
            site.post("/v1/queries", [query(f"{JANE}-{at}-{n}", JANE) for n in range(10)])
        request = site.request("DELETE", f"/v1/users/{JANE}").json["request"]
        some = re.compile(rb'"records":[1-9]')
        eventually(lambda: some.search(site.get(f"/v1/forgotten/{request}").body), "it began", 10)
        site.kill()
    with Process(data, "--judge.grounding.enabled=false") as site:
        receipt = finished(site, request)
        assert receipt["removed"]["records"] == 600
        assert site.terminate() == 0
    stored = carved(data)
    assert [text for text in (*HERS, JANE) if text.encode() in stored] == []
