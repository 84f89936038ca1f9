"""The page about ragmon itself: what came, what was refused and why, quarantine, retry."""

import asyncio
import json

import pytest
from starlette.requests import Request

from ragmon.clock import SystemClock
from ragmon.quarantine_schema import QuarantineEntry, QuarantineList
from ragmon.stores.outlook import StoreOutlook
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.service import ServiceSection
from ragmon.web.pages.service_source import (
    IngestFacts,
    LoopFacts,
    RefusedFacts,
    ServiceFacts,
    SinkFacts,
)
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy
from tests.support.people import Browser
from tests.support.wait import eventually

ADMIN, READ = "admin-secret", "read-secret"
TOKENS = [
    {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    {"name": "reader", "token": READ, "scopes": ["read"]},
]
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"
NOW = 1_750_000_000.0
DAY = 86_400.0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    log = folder / "queries.jsonl"
    good = {"query_id": "q1", "timestamp": SystemClock().now(), "pipeline": "docs"}
    log.write_text(json.dumps(good) + "\n" + json.dumps({"query_id": "q9", "pipeline": 5}) + "\n")
    sources = [{"kind": "jsonl", "path": str(log), "poll_s": 0.05}]
    with running(folder / "data", auth__tokens=TOKENS, sources=sources) as site:
        site.log = log
        eventually(lambda: "invalid jsonl" in page(site).text, "the file is read")
        yield site


@pytest.fixture(scope="module")
def ops(site):
    browser = Browser(site)
    assert browser.sign_in(ADMIN).status == 303
    return browser


def page(site, path: str = "/ragmon") -> HtmlPage:
    answer = site.with_token(ADMIN).get(path)
    assert answer.status == 200, answer.text
    seen = HtmlPage(answer.text)
    check_policy(seen)
    return seen


def entries(site) -> list[dict]:
    return site.with_token(ADMIN).get("/v1/quarantine").json["entries"]


def test_what_came_and_what_was_refused_stand_with_an_example(site):
    admin = site.with_token(ADMIN)
    refused = [{"query_id": "q2", "latency_ms": {"total": HOSTILE}}, {"query_id": "q3"}]
    assert admin.post("/v1/queries", refused).status == 200
    seen = page(site)
    assert "http 1 0 1" in seen.text
    assert "jsonl 1 0 1" in seen.text, seen.text
    assert "invalid http 1" in seen.text
    assert "latency_ms" in seen.text
    assert f"{site.log}, byte" in seen.text
    assert "No sink is configured" in seen.text
    for link in seen.links:
        assert admin.get(link).status == 200, link


def test_a_followed_file_says_how_much_of_it_is_unread(site):
    eventually(lambda: f"jsonl:{site.log} 0 B" in page(site).text, "all of it is read")
    with site.log.open("a") as log:
        log.write('{"query_id"')  # a line that is not complete yet
    eventually(lambda: f"jsonl:{site.log} 11 B" in page(site).text, "its beginning is seen")


def test_an_entry_that_fails_again_stays_and_says_why(site, ops):
    [entry] = entries(site)
    assert f"/ragmon/quarantine/{entry['id']}/retry" in ops.get("/ragmon").text
    answer = ops.submit(f"/ragmon/quarantine/{entry['id']}/retry", {}, on="/ragmon")
    assert answer.status == 303
    assert answer.headers["location"] == f"/ragmon?retried={entry['id']}#quarantine"
    seen = page(site, f"/ragmon?retried={entry['id']}").text
    assert f"Entry {entry['id']} failed again: pipeline" in seen
    assert entries(site)[0]["attempts"] == entry["attempts"] + 1


def test_who_may_only_read_sees_no_buttons_and_is_refused(site, ops):
    reader = Browser(site)
    assert reader.sign_in(READ).status == 303
    assert "/retry" not in reader.get("/ragmon").text
    [entry] = entries(site)
    for act in ("retry", "delete"):
        path = f"/ragmon/quarantine/{entry['id']}/{act}"
        assert reader.submit(path, {}, on="/ragmon").status == 403
        assert site.with_token(ADMIN).post(path, b"").status == 403  # from no page of ragmon
    assert entries(site) == [entry]


def test_an_entry_is_deleted_and_the_log_says_by_whom(site, ops):
    [entry] = entries(site)
    path = f"/ragmon/quarantine/{entry['id']}/delete"
    assert ops.submit(path, {}, on="/ragmon").status == 303
    assert entries(site) == []
    assert ops.submit(path, {}, on="/ragmon").status == 404
    listed = site.with_token(ADMIN).get("/v1/audit?limit=500").json["entries"]
    forms = {one["what"]: one for one in reversed(listed) if one["what"].endswith("EntryForm")}
    assert set(forms) == {"retryEntryForm", "deleteEntryForm"}
    assert {(one["who"], one["outcome"]) for one in listed if one["what"] in forms} == {
        ("ops", "303"), ("ops", "404"),
    }  # fmt: skip
    assert forms["deleteEntryForm"]["path"] == f"POST {path}"


def test_where_no_text_may_be_kept_no_message_is_an_example(tmp_path):
    with running(tmp_path / "data", privacy__text="drop") as site:
        site.post("/v1/queries", [{"query_id": "q1", "pipeline": 5, "latency_ms": "my secret"}])
        answer = site.get("/ragmon")
        assert "its message is not kept: privacy.text is drop" in answer.text
        assert "my secret" not in answer.text


class KnownService:
    """A daemon as it could be."""

    def __init__(self, facts: ServiceFacts, *listed: QuarantineEntry) -> None:
        self._facts = facts
        self._listed = listed

    def now(self) -> float:
        return NOW

    async def facts(self) -> ServiceFacts:
        return self._facts

    async def undelivered(self) -> tuple[int, float | None]:
        return 3, NOW - 600.0

    async def entries(self, limit: int) -> QuarantineList:
        counts = {"decode": 0, "map": 0, "judge": 0, "send": len(self._listed)}
        return QuarantineList(counts=counts, kept_seconds=7 * DAY, entries=[*self._listed])


def facts(limit: str = "disk", **given) -> ServiceFacts:
    fields = {"size_bytes": 4 * 10**9, "limit_bytes": 5 * 10**9, "records": 10, "oldest_at": NOW}
    store = StoreOutlook(**(fields | given))
    return ServiceFacts(
        problems=[], store=store, limit=limit, retention_s=30 * DAY,
        ingest=IngestFacts(1_500, 64_000_000, 1, 2, 10**8, 10**9, NOW), sources=[], followed=[],
        refused=[RefusedFacts("http", "invalid", 9, NOW, HOSTILE)],
        sinks=[SinkFacts(HOSTILE, 1, 2, 1)],
        loops=[LoopFacts("sink-x", NOW, 3, 3, "loop sink-x hangs")],
    )  # fmt: skip


def shown(known: ServiceFacts, *listed: QuarantineEntry, query: bytes = b"") -> HtmlPage:
    section = ServiceSection(KnownService(known, *listed), Renderer(Assets()))
    request = Request({"type": "http", "query_string": query, "headers": []})
    seen = HtmlPage(asyncio.run(section.service(request)).body.decode())
    check_policy(seen)
    return seen


LETTER = QuarantineEntry(
    id="send-4", stage="send", reason="dead_letter", at=NOW, name=f"pager: {HOSTILE}",
    error=HOSTILE, attempts=9, size_bytes=1,
)  # fmt: skip


def test_a_store_that_fills_says_when_and_what_to_do():
    seen = shown(facts(bytes_a_day=5e8, level_bytes=15e9, days_left=2.0)).text
    assert "4.00 GB of 5.00 GB" in seen
    assert "500 MB a day" in seen
    assert "about 2 then nothing can be stored: give it a larger disk" in seen


def test_one_that_levels_off_says_at_which_size():
    seen = shown(facts(bytes_a_day=1e8, level_bytes=3e9)).text
    assert "it does not fill at about 3.00 GB as much is deleted as comes" in seen


def test_of_a_database_server_the_disk_is_not_known():
    seen = shown(facts("", limit_bytes=None, bytes_a_day=5e8, level_bytes=15e9)).text
    assert "4.00 GB (watch the disk of the database server: ragmon does not see it)" in seen
    assert "grows to at about 15.0 GB as much is deleted as comes" in seen
    assert "days left" not in seen


def test_dead_letters_failures_and_hostile_texts():
    seen = shown(facts(), LETTER)
    assert "1 notification that could not be sent" in seen.text
    assert "3 notifications wait" in seen.text
    assert "loop sink-x hangs" in seen.text
    assert "1 label or piece of feedback" in seen.text
    assert "\u202e" in seen.text
    assert "\x1b" not in seen.text


def test_the_outcome_of_a_retry_is_shown():
    assert "Entry send-4 failed again" in shown(facts(), LETTER, query=b"retried=send-4").text
    gone = shown(facts(), query=b"retried=send-4").text
    assert "Entry send-4 was tried again and is no longer in quarantine" in gone
