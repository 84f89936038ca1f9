"""What each sink sends: the whole body, its limits, and nothing that is secret."""

import base64
import hashlib
import hmac
import json
import re

import msgspec
import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from ragmon.alerts import WorstQuery
from ragmon.alerts.message import message
from ragmon.clock import ManualClock
from ragmon.errors import SettingsError, SinkError
from ragmon.sinks import (
    Repeating,
    SinkContext,
    alertmanager,
    opsgenie,
    pagerduty,
    slack,
    stdout,
    teams,
    webhook,
)
from tests.support.alerts import LINKS, NOW, finding, notice, rich_alert
from tests.support.golden import same
from tests.support.receiver import Reply, receiving

CONTEXT = SinkContext(ManualClock(NOW), LINKS)
FIRST = notice("opened", rich_alert())
LAST = notice("resolved", rich_alert(), NOW + 600.0)
SECRETS = (
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw",
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
)


@pytest.fixture
def receiver():
    with receiving() as held:
        yield held


def page(content: object) -> str:
    return json.dumps(msgspec.to_builtins(content), indent=1, ensure_ascii=False) + "\n"


# ---- bodies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [FIRST, LAST], ids=["opened", "resolved"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("alertmanager", lambda told: [alertmanager.to_alert(told, NOW + 240.0, CONTEXT)]),
        ("webhook", lambda told: webhook.body(told, CONTEXT)),
        ("slack", lambda told: slack.body(message(told, LINKS), told.id)),
        ("pagerduty", lambda told: pagerduty.body(told, CONTEXT)),
        ("teams", lambda told: teams.body(message(told, LINKS), told.id)),
        ("opsgenie", lambda told: opsgenie.body(told, CONTEXT)),
    ],
)
def test_golden_bodies(kind, body, told):
    same(f"sink_{kind}_{told.status}.json", page(body(told)))


CAPTURED = {  # the names in a post of Alertmanager 0.25, version 4
    "receiver", "status", "alerts", "groupLabels", "commonLabels", "commonAnnotations",
    "externalURL", "version", "groupKey", "truncatedAlerts",
}  # fmt: skip
CAPTURED_ALERT = {
    "status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint",
}  # fmt: skip


def test_the_webhook_has_the_shape_of_alertmanagers():
    for told in (FIRST, LAST):
        body = webhook.body(told, CONTEXT)
        assert body.keys() == CAPTURED
        assert body["alerts"][0].keys() == CAPTURED_ALERT
        assert len(msgspec.json.encode(body)) < 20_000
    assert webhook.body(FIRST, CONTEXT)["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"


def test_an_alert_never_ends_before_it_begins():
    over = replace(LAST, ended_at=NOW - 5.0)
    posted = alertmanager.to_alert(over, NOW, CONTEXT)
    assert posted["endsAt"] == posted["startsAt"]


def test_slack_stays_below_its_limits():
    """Whatever an alert carries: beyond a limit Slack refuses the whole message."""
    long = "<&>" * 3_000
    wordy = rich_alert()
    evidence = replace(
        wordy.evidence,
        sentence=long,
        detail=long,
        remedies=(long,) * 6,
        worst=tuple(WorstQuery(long, long, long) for _ in range(5)),
    )
    told = message(notice("opened", replace(wordy, name=long, evidence=evidence)), LINKS)
    body = slack.body(told, FIRST.id)
    [attachment] = body["attachments"]
    blocks = attachment["blocks"]
    texts = [
        block["text"]["text"] for block in blocks if block["type"] == "section" and "text" in block
    ]
    fields = [field["text"] for block in blocks for field in block.get("fields", ())]
    assert len(texts) == 3
    assert len(fields) >= 5
    assert max(map(len, texts)) <= 3_000
    assert max(map(len, fields)) <= 2_000
    assert all(len(block.get("fields", ())) <= 10 for block in blocks)
    assert len(json.dumps(blocks)) < 13_000
    assert len(body["text"]) <= 200


def test_texts_cannot_break_out_of_slack():
    [attachment] = slack.body(message(FIRST, LINKS), FIRST.id)["attachments"]
    text = json.dumps(attachment, ensure_ascii=False)
    assert "reset &lt;my¦password&gt; &amp; token? now" in text
    assert "acme &amp; &lt;sons&gt;" in text
    assert "<my" not in text


def test_a_page_is_one_incident_from_trigger_to_resolve():
    bodies = [pagerduty.body(each, CONTEXT) for each in (FIRST, LAST)]
    assert [each["event_action"] for each in bodies] == ["trigger", "resolve"]
    assert len({each["dedup_key"] for each in bodies}) == 1
    long = replace(rich_alert(), name="x" * 3_000)
    assert len(pagerduty.body(notice("opened", long), CONTEXT)["payload"]["summary"]) <= 140


@pytest.mark.parametrize("form", ["text", "json"])
def test_stdout(form, capsys):
    stdout.build(stdout.Options(format=form), CONTEXT).deliver(FIRST)
    out = capsys.readouterr().out
    if form == "json":
        assert json.loads(out)["alert"]["name"] == "RagmonHitRate"
        assert out.count("\n") == 1
    else:
        assert out.startswith(
            "[warning] docs is worse since 21:02 UTC (no single slice explains it):"
            " hit rate 88 % (93 %)\n"
        )


def test_a_closed_stdout_is_tried_again(monkeypatch):
    class Closed:
        def write(self, _):
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(SinkError, match="Broken pipe") as refused:
        stdout.build(stdout.Options(), CONTEXT).deliver(FIRST)
    assert refused.value.retryable


# ---- over the wire --------------------------------------------------------------------------


def test_alertmanager_is_told_again_what_is_open(receiver):
    sink = alertmanager.build(alertmanager.Options(url=f"{receiver.url}/am/"), CONTEXT)
    assert isinstance(sink, Repeating)
    sink.deliver(LAST)
    sink.repeat([notice(), notice(of=rich_alert(name="RagmonOther"))])
    assert [post.path for post in receiver.posts] == ["/am/api/v2/alerts"] * 2
    again = receiver.posts[1].json
    assert {each["endsAt"] for each in again} == {"2025-02-19T21:24:00Z"}
    assert [each["labels"]["alertname"] for each in again] == ["RagmonHitRate", "RagmonOther"]
    assert receiver.posts[0].json[0]["endsAt"] == "2025-02-19T21:30:00Z"


def test_alertmanager_knows_an_alert_by_the_severity_it_was_told(receiver):
    sink = alertmanager.build(alertmanager.Options(url=receiver.url), CONTEXT)
    graver = notice("escalated", rich_alert(found=finding(severity="critical")))
    sink.deliver(replace(graver, former_labels=graver.labels | {"severity": "warning"}))
    new, old = receiver.posts[0].json
    assert (new["labels"]["severity"], old["labels"]["severity"]) == ("critical", "warning")
    assert new["endsAt"] == "2025-02-19T21:24:00Z"
    assert old["endsAt"] <= "2025-02-19T21:20:00Z"
    sink.repeat([graver])
    assert receiver.posts[1].json[0]["labels"]["severity"] == "critical"


def test_receivers_can_group_by_incident_and_cause(receiver):
    told = notice("opened", rich_alert(incident_id="c0ffee"))
    alertmanager.build(alertmanager.Options(url=receiver.url), CONTEXT).repeat([told])
    expected = {"incident_id": "c0ffee", "cause": "docs"}
    assert receiver.posts[0].json[0]["labels"].items() >= expected.items()
    hook = webhook.body(told, CONTEXT)
    assert hook["commonLabels"].items() >= expected.items()
    assert hook["groupLabels"] == {"incident_id": "c0ffee"}
    page = pagerduty.body(told, CONTEXT)
    assert page["dedup_key"] == "c0ffee"
    assert page["payload"]["custom_details"]["Cause"] == "docs; no single slice explains it"
    channel = slack.body(message(told, LINKS), told.id)
    assert "*Incident*\\nc0ffee" in json.dumps(channel)


def test_external_labels_are_in_every_notification(receiver, capsys):
    context = SinkContext(ManualClock(NOW), LINKS, {"cluster": "eu-1", "team": "search"})
    url = receiver.url
    alertmanager.build(alertmanager.Options(url=url), context).repeat([notice()])
    webhook.build(webhook.Options(url=url), context).deliver(FIRST)
    pagerduty.build(pagerduty.Options(url=url, routing_key="k"), context).deliver(FIRST)
    slack.build(slack.Options(webhook_url=url), context).deliver(FIRST)
    manager, hook, page, channel = (post.json for post in receiver.posts)
    assert manager[0]["labels"].items() >= {("cluster", "eu-1"), ("team", "search")}
    assert hook["groupLabels"]["cluster"] == "eu-1"
    for labels in (hook["commonLabels"], hook["alerts"][0]["labels"]):
        assert labels.items() >= {("cluster", "eu-1"), ("alertname", "RagmonHitRate")}
    assert 'cluster="eu-1"' in hook["groupKey"]
    assert page["payload"]["custom_details"]["cluster"] == "eu-1"
    assert "*cluster*\\neu-1" in json.dumps(channel)
    for form in ("text", "json"):
        stdout.build(stdout.Options(format=form), context).deliver(FIRST)
        assert re.search(r'cluster"?:? +"?eu-1|cluster":"eu-1', capsys.readouterr().out)


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({}, None),
        ({"token": "t0ken-abc"}, "Bearer t0ken-abc"),
        ({"username": "ann", "password": "pässword"}, "Basic YW5uOnDDpHNzd29yZA=="),
    ],
)
def test_access(receiver, given, header):
    options = alertmanager.Options(url=receiver.url, **given)
    alertmanager.build(options, CONTEXT).deliver(FIRST)
    assert receiver.posts[0].headers.get("authorization") == header


def test_pagerduty_is_given_its_key(receiver, monkeypatch):
    monkeypatch.setenv("PAGERDUTY_KEY", " R0UTINGKEY\n")
    options = pagerduty.Options(url=receiver.url, routing_key_env="PAGERDUTY_KEY")
    pagerduty.build(options, CONTEXT).deliver(LAST)
    assert receiver.posts[0].json == {
        "routing_key": "R0UTINGKEY",
        "event_action": "resolve",
        "dedup_key": LAST.incident_id,
    }


# ---- Standard Webhooks ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        (SECRETS[0], "v1,q6KMVIJHk4Gs770FfR5f591Ftx7uVJSGl5wHV1ri978="),
        (SECRETS[1], "v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI="),
        (SECRETS[1].rstrip("="), "v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI="),
    ],
)
def test_signatures_are_those_of_the_reference(secret, expected):
    """Computed with standardwebhooks 1.1.0 of the specification's authors."""
    name, payload = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    assert webhook.signature(name, 1_614_265_330, payload, webhook.keys(secret)) == expected


def verified(post, secret: str) -> bool:
    """As a receiver with one secret does it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode()
    expected = hmac.new(key, signed + post.body, hashlib.sha256).digest()
    given = [part.split(",") for part in post.headers["webhook-signature"].split(" ")]
    return any(v == "v1" and base64.b64decode(sent) == expected for v, sent in given)


def test_each_attempt_is_signed_anew_with_the_same_id(receiver):
    clock = ManualClock(NOW)
    options = webhook.Options(url=receiver.url, secret=SECRETS[0])
    sink = webhook.build(options, SinkContext(clock, LINKS))
    receiver.answer = lambda _: Reply(503)
    with pytest.raises(SinkError):
        sink.deliver(FIRST)
    clock.sleep(900.0)
    receiver.answer = lambda _: Reply(204)
    sink.deliver(FIRST)
    first, second = receiver.posts
    assert [each.headers["webhook-id"] for each in (first, second)] == [FIRST.id] * 2
    assert "." not in FIRST.id
    assert int(second.headers["webhook-timestamp"]) == NOW + 900
    for post in (first, second):
        assert verified(post, SECRETS[0])
        assert not verified(post, SECRETS[1])
        assert not verified(post._replace(body=post.body + b" "), SECRETS[0])


def test_a_secret_is_replaced_without_a_restart_or_a_gap(receiver, tmp_path):
    """Old, then both, then new: whichever the receiver has, something always verifies."""
    file = tmp_path / "secret"
    stages = (SECRETS[0], f"{SECRETS[1]}\n{SECRETS[0]}\n", SECRETS[1])
    file.write_text(stages[0], encoding="utf-8")
    sink = webhook.build(webhook.Options(url=receiver.url, secret_file=file), CONTEXT)
    for text in stages:
        file.write_text(text, encoding="utf-8")
        sink.deliver(FIRST)
    held = [tuple(verified(post, secret) for secret in SECRETS) for post in receiver.posts]
    assert held == [(True, False), (True, True), (False, True)]


def test_without_a_secret_nothing_is_signed(receiver):
    webhook.build(webhook.Options(url=receiver.url), CONTEXT).deliver(FIRST)
    assert "webhook-signature" not in receiver.posts[0].headers


@pytest.mark.parametrize(
    "secret", ["whsec_short", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw", "whsec_!!!!" * 9]
)
def test_a_secret_that_is_none_is_refused_unseen(secret, tmp_path, receiver):
    with pytest.raises(ValidationError) as refused:
        webhook.Options(url=receiver.url, secret=secret)
    assert "24 to 64 random bytes" in str(refused.value.errors(include_input=False))
    file = tmp_path / "secret"
    options = webhook.Options(url=receiver.url, secret_file=file)
    file.write_text(SECRETS[0], encoding="utf-8")
    sink = webhook.build(options, CONTEXT)
    file.write_text(secret, encoding="utf-8")
    for refuse in (lambda: webhook.build(options, CONTEXT), lambda: sink.deliver(FIRST)):
        with pytest.raises(SettingsError) as refused_later:
            refuse()
        assert secret not in str(refused_later.value)
    assert receiver.posts == []


# ---- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "given", "problem"),
    [
        (alertmanager.Options, {"url": "localhost:9093"}, "write a URL"),
        (alertmanager.Options, {"url": "http://ann:pw@host"}, "no credentials in a URL"),
        (alertmanager.Options, {"url": "http://h", "username": "ann"}, "exactly one of password"),
        (alertmanager.Options, {"url": "http://h", "password": "x"}, "username and password"),
        (alertmanager.Options, {"url": "http://h", "tokn": "x"}, "Extra inputs"),
        (
            alertmanager.Options,
            {"url": "http://h", "username": "ann", "password": "x", "token": "y"},
            "or a token",
        ),
        (slack.Options, {}, "exactly one of webhook_url"),
        (slack.Options, {"webhook_url": "hooks.slack.com/x"}, "write a URL"),
        (pagerduty.Options, {}, "exactly one of routing_key"),
        (
            pagerduty.Options,
            {"routing_key": "a", "routing_key_file": "/b"},
            "routing_key, routing_key_file and routing_key_env",
        ),
    ],
)  # fmt: skip
def test_options_are_checked(options, given, problem):
    with pytest.raises(ValidationError, match=problem):
        options(**given)
