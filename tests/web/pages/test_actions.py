"""Forms of incidents and alerts: acknowledge, silence, and who may."""

import pytest
from msgspec.structs import replace

from ragmon.alerts.as_json import describe
from ragmon.alerts.machine import AlertBook
from ragmon.alerts.notices import OpenIncident
from ragmon.alerts.silences import Matcher
from ragmon.clock import ManualClock
from ragmon.web.pages.actions import silence_choices
from tests.support.alerts import LINKS, NOW, finding, rich_alert
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy
from tests.support.people import Browser
from tests.support.wait import eventually

ADMIN, READ = "admin-secret", "read-secret"
TOKENS = [
    {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    {"name": "reader", "token": READ, "scopes": ["read"]},
]
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
INCIDENT = "/incidents/f00d"
ALERT = rich_alert(incident_id="f00d", leads=True, found=finding(part=("tenant", "acme & <sons>")))


def book() -> AlertBook:
    known = OpenIncident(
        id="f00d", opened_at=NOW, notified_at=NOW, severity="warning", labels=ALERT.labels,
        lead=ALERT.key, pipelines=("docs",), known=(ALERT.fingerprint,),
    )  # fmt: skip
    quiet = replace(ALERT, incident_id="quiet", key=replace_key("slow"), leads=False)
    return AlertBook(open=(ALERT, quiet), incidents=(known,))


def replace_key(metric: str):
    return finding(metric).alert


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("actions")
    clock = ManualClock(NOW)
    with running(folder / "data", clock, auth__tokens=TOKENS) as site:
        site.clock = clock
        alerting = site.daemon._alerting

        def show() -> None:
            alerting.timeline.book = alerting.book = book()

        site.daemon._engine.thread.submit(show).result()
        yield site


@pytest.fixture(scope="module")
def ops(site):
    browser = Browser(site)
    assert browser.sign_in(ADMIN).status == 303
    return browser


@pytest.fixture(autouse=True)
def later(site):
    site.clock.sleep(1)


def audited(site, what: str) -> list[dict]:
    listed = site.with_token(ADMIN).get("/v1/audit?limit=500").json["entries"]
    return [entry for entry in listed if entry["what"] == what]


def incident(site) -> dict:
    listed = site.with_token(ADMIN).get("/v1/incidents").json["incidents"]
    return next(one for one in listed if one["id"] == "f00d")


def test_an_incident_is_acknowledged_and_given_back_by_its_form(site, ops):
    fields = {"note": f"we roll back {HOSTILE}", "by": ""}
    answer = ops.submit(f"{INCIDENT}/acknowledge", fields, on=INCIDENT)
    assert (answer.status, answer.headers["location"]) == (303, INCIDENT)
    page = ops.page(INCIDENT)
    check_policy(page)
    assert "Acknowledged by ops" in page.text
    assert "we roll back <script>" in page.text
    assert "\x1b" not in page.text
    taken = incident(site)["acknowledged"]
    assert (taken["by"], taken["at"]) == ("ops", site.clock.now())
    assert incident(site)["notifications"][-1]["change"] == "acknowledged"
    eventually(lambda: audited(site, "acknowledgeForm"), "it is in the audit log")
    entry = audited(site, "acknowledgeForm")[0]
    assert (entry["who"], entry["outcome"]) == ("ops", "303")
    assert "we roll back" in entry["request"]
    assert "form_token" not in entry["request"]
    site.clock.sleep(1)
    answer = ops.submit(f"{INCIDENT}/acknowledge", {"take_back": "yes"}, on=INCIDENT)
    assert answer.status == 303
    assert incident(site)["acknowledged"] is None
    assert "Acknowledged by" not in ops.page(INCIDENT).text


def test_it_is_acknowledged_by_a_program_too(site):
    admin = site.with_token(ADMIN)
    path = "/v1/incidents/f00d/acknowledge"
    now = site.clock.now
    answer = admin.post(path, {"by": "ann", "note": "looking"})
    assert answer.status == 200
    assert answer.json["acknowledged"] == {"at": now(), "by": "ann", "note": "looking"}
    site.clock.sleep(1)
    assert admin.post(path, b"").json["acknowledged"]["by"] == "ops"
    site.clock.sleep(1)
    assert admin.request("DELETE", path).json["acknowledged"] is None
    assert admin.post(path, {"what": 1}).status == 400
    assert site.with_token(READ).post(path, b"").status == 403
    for unknown in ("none", "quiet"):  # nobody was notified of the second
        assert admin.post(f"/v1/incidents/{unknown}/acknowledge", b"").status == 404


def test_an_acknowledgement_survives_a_crash(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW)) as site:
        alerting = site.daemon._alerting

        def show() -> None:
            alerting.timeline.book = alerting.book = book()

        site.daemon._engine.thread.submit(show).result()
        path = "/v1/incidents/f00d/acknowledge"
        assert site.post(path, {"by": "ann"}).status == 200
    with running(tmp_path / "data", ManualClock(NOW)) as site:
        assert site.get("/v1/incidents").json["incidents"][0]["acknowledged"]["by"] == "ann"


def test_an_alert_is_silenced_and_the_silence_ended_by_forms(site, ops):
    name = f"/alerts/{ALERT.episode}"
    fields = {"what": "slice", "duration": "4h", "comment": f"known {HOSTILE}"}
    answer = ops.submit(f"{name}/silence", fields, on=name)
    assert (answer.status, answer.headers["location"]) == (303, name)
    silence = site.with_token(ADMIN).get("/v1/silences").json["silences"][0]
    assert silence["ends_at"] == site.clock.now() + 4 * 3_600
    assert silence["created_by"] == "ops"
    named = {one["name"]: one["value"] for one in silence["matchers"]}
    assert named == {"pipeline": "docs", "dimension": "tenant", "value": "acme & <sons>"}
    for path in (name, INCIDENT):
        page = ops.page(path)
        check_policy(page)
        assert "Silenced until" in page.text
        assert "known <script>" in page.text
    answer = ops.submit(f"/silences/{silence['id']}/end", {}, on=INCIDENT)
    assert (answer.status, answer.headers["location"]) == (303, INCIDENT)
    assert "Silenced until" not in ops.page(INCIDENT).text
    eventually(lambda: audited(site, "endSilenceForm"), "it is in the audit log")


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        pytest.param("/incidents/none/acknowledge", {}, 404, id="an unknown incident"),
        pytest.param("/alerts/none/silence", {"duration": "1h"}, 404, id="an unknown alert"),
        pytest.param("/silences/none/end", {}, 404, id="an unknown silence"),
        pytest.param(
            f"/alerts/{ALERT.episode}/silence", {"duration": "soon"}, 400, id="no duration"
        ),
        pytest.param(
            f"/alerts/{ALERT.episode}/silence", {"duration": "1h", "what": "all"}, 400, id="more"
        ),
        pytest.param(f"{INCIDENT}/acknowledge", {"note": "x" * 2_000}, 400, id="a long note"),
    ],
)
def test_what_makes_no_sense_is_said_on_a_page(ops, path, fields, status):
    answer = ops.submit(path, fields, on=INCIDENT)
    assert answer.status == status
    check_policy(HtmlPage(answer.text))
    assert f'href="{INCIDENT}"' in answer.text


def test_who_may_only_read_sees_no_form_and_sends_none(site):
    reader = Browser(site)
    reader.sign_in(READ)
    page = reader.get(INCIDENT).text
    assert "/acknowledge" not in page
    assert "admin" in page
    for path in (f"{INCIDENT}/acknowledge", f"/alerts/{ALERT.episode}/silence"):
        assert reader.submit(path, {"duration": "1h"}, on=INCIDENT).status == 403
    assert incident(site)["acknowledged"] is None


def test_a_bearer_token_sends_no_form(site):
    sent = {"content-type": "application/x-www-form-urlencoded", "origin": site.url}
    admin = site.with_token(ADMIN)
    answer = admin.request("POST", f"{INCIDENT}/acknowledge", b"note=x", sent)
    assert answer.status == 403


def test_without_tokens_forms_need_their_token_as_well(daemon):
    path = "/silences/none/end"
    browser = Browser(daemon)
    assert browser.post(path, {"form_token": "0" * 64}).status == 403
    assert browser.post(path, {"form_token": ""}).status == 403


def test_a_silence_is_about_no_more_than_its_words_say():
    choices = {choice.name: choice for choice in silence_choices(describe_alert("tenant", "acme"))}
    assert list(choices) == ["alert", "slice", "pipeline"]
    whole = {choice.name: choice for choice in silence_choices(describe_alert("", ""))}
    assert list(whole) == ["alert", "pipeline"]
    assert Matcher("dimension", "") in whole["alert"].matchers  # not its slices


def describe_alert(dimension: str, value: str):
    return describe(rich_alert(found=finding(part=(dimension, value))), LINKS)
