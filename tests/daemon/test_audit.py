"""Every change has a line: who, what, when; on disk before the answer, rotated, and readable."""

import json
import os
import re

import msgspec
import pytest

from ragmon.access import ANONYMOUS
from ragmon.clock import ManualClock
from ragmon.daemon.audit import AuditFile, AuditLog
from ragmon.token_schema import AuditEntry
from ragmon.web import openapi
from tests.support.daemons import running
from tests.support.people import Browser
from tests.support.wait import eventually

ADMIN, READ = "admin-secret", "read-secret"
TOKENS = [
    {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    {"name": "grafana", "token": READ, "scopes": ["read"]},
]
SCOPE = {"client": ("10.0.0.7", 5), "method": "POST", "path": "/v1/silences"}
SILENCE = {
    "matchers": [{"name": "pipeline", "value": "docs", "regex": False}],
    "duration": "2h",
    "created_by": "ann",
    "comment": "reindexing",
}


def file(tmp_path, **given):
    return AuditFile(tmp_path / "audit.jsonl", **({"max_bytes": 10_000, "files": 2} | given))


def entry(number, at=None):
    return AuditEntry(at=float(number if at is None else at), who="ops", what=f"change {number}")


def names(entries):
    return [each.what for each in entries]


class TestFile:
    def test_lines_are_json_that_only_the_owner_reads(self, tmp_path):
        file(tmp_path).append([entry(1), entry(2)])
        path = tmp_path / "audit.jsonl"
        first, _ = path.read_text().splitlines()
        assert json.loads(first) == {"at": 1.0, "who": "ops", "what": "change 1"}
        assert path.stat().st_mode & 0o777 == 0o600

    def test_it_is_rotated_and_bounded(self, tmp_path):
        log = file(tmp_path)
        for number in range(2_000):
            log.append([entry(number)])
        assert sorted(each.name for each in tmp_path.iterdir()) == [
            "audit.jsonl", "audit.jsonl.1", "audit.jsonl.2",
        ]  # fmt: skip
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 3 * 10_200
        found = log.entries(0.0, 1_000)
        assert names(found) == [f"change {1_999 - at}" for at in range(len(found))]
        assert len(found) > 350

    def test_the_newest_come_first_from_a_moment_on(self, tmp_path):
        log = file(tmp_path)
        log.append([entry(number) for number in range(9)])
        assert names(log.entries(6.0, 50)) == ["change 8", "change 7", "change 6"]
        assert names(log.entries(0.0, 2)) == ["change 8", "change 7"]
        assert file(tmp_path / "none").entries(0.0, 5) == []

    def test_lines_longer_than_a_block_are_whole(self, tmp_path):
        log = file(tmp_path, max_bytes=10_000_000)
        long = AuditEntry(at=1.0, who="ops", what="x" * 200_000)
        log.append([entry(0), long, entry(2)])
        assert [len(each) for each in names(log.entries(0.0, 5))] == [8, 200_000, 8]

    def test_a_torn_line_costs_only_itself(self, tmp_path):
        log = file(tmp_path)
        log.append([entry(1)])
        with (tmp_path / "audit.jsonl").open("ab") as torn:
            torn.write(b'{"at": 2.0, "who": "o')
        log.append([entry(3)])
        assert names(log.entries(0.0, 5)) == ["change 3", "change 1"]

    def test_what_it_says_is_on_disk_before_it_returns(self, tmp_path, monkeypatch):
        synced = []
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda number: (synced.append(number), real(number)))
        file(tmp_path).append([entry(1)])
        assert len(synced) == 1


class TestLog:
    def test_refusals_of_one_kind_are_collected_for_a_minute(self, tmp_path):
        clock = ManualClock(100.0)
        log = AuditLog(file(tmp_path), clock)
        for _ in range(5):
            log.refused(SCOPE, "", "unauthorized")
        log.refused({**SCOPE, "client": ("10.0.0.8", 5)}, "", "unauthorized")
        clock.sleep(61.0)
        log.refused(SCOPE, "", "unauthorized")
        log.flush()
        found = [(each.remote, each.repeated) for each in log.entries(0.0, 9)]
        assert found == [("10.0.0.7", 4), ("10.0.0.8", 0), ("10.0.0.7", 0)]

    def test_a_flood_of_addresses_leaves_room_for_changes(self, tmp_path):
        clock = ManualClock(1_000.0)
        log = AuditLog(file(tmp_path), clock)
        for minute in range(2):
            for number in range(12_000):
                address = (f"a{minute}-{number}", 5)
                log.refused({**SCOPE, "client": address}, "", "unauthorized")
            assert len(log._failures) <= 1_001
            assert len(log._waiting) <= 1_001 * (minute + 1)
            clock.sleep(61.0)
        assert log.lost == 0
        others = [entry for entry, _ in log._waiting if entry.remote == "(others)"]
        assert [entry.repeated for entry in others] == [0, 10_999]
        log.refused({**SCOPE, "client": ("late", 5)}, "", "unauthorized")
        assert log._waiting[-1][0].remote == "late", "the flood is over"

    def test_a_disk_that_refuses_stops_nobody(self, tmp_path):
        log = AuditLog(file(tmp_path / "missing"), ManualClock())
        written = log.changed(SCOPE, ANONYMOUS, "addSilence", "201")
        log.flush()
        assert written.done()
        assert log.lost == 1

    def test_a_long_request_is_cut(self, tmp_path):
        log = AuditLog(file(tmp_path), ManualClock())
        log.changed(SCOPE, ANONYMOUS, "addSilence", "201", "x" * 100_000)
        log.flush()
        assert len(log.entries(0.0, 1)[0].request) == 2_000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "data"
    with running(path, auth__tokens=TOKENS) as running_site:
        running_site.log = path / "audit.jsonl"
        yield running_site


def newest(site, what):
    lines = [json.loads(each) for each in site.log.read_text().splitlines()]
    return next((line for line in reversed(lines) if line["what"] == what), None)


CHANGES = [each for each in openapi.ENDPOINTS if each.is_change and not each.is_form]
FORMS = [each for each in openapi.ENDPOINTS if each.is_change and each.is_form]


def test_the_table_is_read():
    assert {"addSilence", "deleteSilence", "judge", "deleteBaseline"} <= {e.name for e in CHANGES}
    assert {"signIn", "signOut", "acknowledgeForm"} <= {e.name for e in FORMS}
    others = {each.method for each in openapi.ENDPOINTS if not each.is_change}
    assert others == {"GET", "POST"}
    assert {e.scope for e in openapi.ENDPOINTS if e.method == "POST" and not e.is_change} == {
        "ingest"
    }


@pytest.mark.parametrize("endpoint", CHANGES, ids=lambda each: each.name)
def test_every_endpoint_that_changes_something_is_audited(site, endpoint):
    path = path_of(endpoint)
    answer = site.with_token(ADMIN).request(endpoint.method, path + "?a=b", b'{"odd": 1}')
    line = newest(site, endpoint.name)
    assert (line["who"], line["remote"]) == ("ops", "127.0.0.1")
    assert line["outcome"] == str(answer.status)
    asked = endpoint.path if endpoint.personal else f"{path}?a=b"
    assert line["path"] == f"{endpoint.method} {asked}"
    assert line["at"] > 1.7e9


@pytest.mark.parametrize("endpoint", FORMS, ids=lambda each: each.name)
def test_every_form_that_changes_something_is_audited(site, endpoint):
    browser = Browser(site)
    answer = browser.sign_in(ADMIN)
    if endpoint.name != "signIn":
        answer = browser.submit(path_of(endpoint), {"odd": "1"})
    line = eventually(lambda: newest(site, endpoint.name), "it is in the log")
    assert (line["who"], line["remote"]) == ("ops", "127.0.0.1")
    assert line["outcome"] == str(answer.status)
    assert line["path"] == f"POST {path_of(endpoint)}"


def path_of(endpoint):
    """The path of an endpoint, with a name of nothing."""
    return re.sub("{.*?}", "some", endpoint.path)


def test_an_erasure_does_not_write_down_whom_it_is_about(site):
    erased = {each.name for each in CHANGES if each.path.startswith(("/v1/users", "/v1/sessions"))}
    assert erased == {each.name for each in CHANGES if each.personal}
    assert site.with_token(ADMIN).request("DELETE", "/v1/users/ann.smith").status == 202
    assert newest(site, "forgetUser")["path"] == "DELETE /v1/users/{name:path}"
    assert "ann.smith" not in site.log.read_text()


def test_an_erasure_that_was_only_counted_says_so(site):
    admin = site.with_token(ADMIN)
    asked = "/v1/users/ann.smith?dry_run=true&pipeline=ann.smith"
    assert admin.request("DELETE", asked).status == 202
    assert newest(site, "forgetUser")["path"] == "DELETE /v1/users/{name:path}?dry_run=true"
    assert "ann.smith" not in site.log.read_text()


def test_a_silence_is_recorded_with_what_was_asked(site):
    admin = site.with_token(ADMIN)
    made = admin.post("/v1/silences", SILENCE)
    assert made.status == 201
    line = newest(site, "addSilence")
    assert json.loads(line["request"]) == SILENCE
    assert admin.request("DELETE", f"/v1/silences/{made.json['id']}").status == 200
    (deleted, added) = admin.get("/v1/audit?limit=2").json["entries"]
    assert (deleted["what"], deleted["outcome"]) == ("deleteSilence", "200")
    assert (added["what"], added["outcome"]) == ("addSilence", "201")
    assert admin.get("/v1/audit?since=2999-01-01").json["entries"] == []


def test_labels_are_recorded_by_their_counts(site):
    admin = site.with_token(ADMIN)
    admin.post("/v1/queries", [{"query_id": "labelled"}])
    labels = [{"query_id": "labelled", "faithful": 1.0}, {"query_id": "labelled", "faithful": 7}]
    assert admin.post("/v1/labels", labels).status == 200
    expected = ("sendLabels", "1 accepted, 0 duplicates, 1 rejected")

    def is_recorded() -> bool:
        (line,) = admin.get("/v1/audit?limit=1").json["entries"]
        return (line["what"], line["outcome"]) == expected

    eventually(is_recorded, "the counts are recorded, after the answer")


def test_refused_tokens_are_recorded_and_no_secret_is(site):
    site.with_token("guessed").get("/v1/report")
    site.with_token(READ).post("/v1/silences", SILENCE)

    def are_recorded() -> bool:
        entries = site.with_token(ADMIN).get("/v1/audit").json["entries"]
        refused = {(each["who"], each["outcome"]) for each in entries if each["what"] == "useToken"}
        return {("", "unauthorized"), ("grafana", "forbidden")} <= refused

    eventually(are_recorded, "both refusals are recorded, after their answers")
    for secret in ("guessed", ADMIN, READ):
        assert secret not in site.log.read_text()
    assert site.with_token(READ).get("/v1/audit").status == 403


def test_start_and_stop_are_recorded_and_without_tokens_anonymous_is(tmp_path):
    with running(tmp_path / "data") as site:
        site.post("/v1/silences", SILENCE)
    lines = (tmp_path / "data" / "audit.jsonl").read_text().splitlines()
    found = [(each["who"], each["what"]) for each in map(msgspec.json.decode, lines)]
    assert found == [("ragmon", "start"), ("anonymous", "addSilence"), ("ragmon", "stop")]
