"""``notify-test`` and ``check-config`` of sinks: what they send, and what they never show."""

import json

import pytest

from ragmon.cli import main
from ragmon.config import load
from tests.support.receiver import Reply, receiving

pytestmark = pytest.mark.usefixtures("clean_environment")

SECRET = "Sup3rS3cr3tValue0123456789"


@pytest.fixture
def receiver():
    with receiving() as held:
        yield held


def ask(*words: str) -> int:
    return main(["notify-test", *words])


def test_a_test_is_sent_and_ended(receiver, capsys):
    sinks = f"[{{kind: slack, name: oncall, webhook_url: '{receiver.url}/services/{SECRET}'}}]"
    assert ask("oncall", "--severity", "critical", "--sinks", sinks) == 0
    texts = [post.json["text"] for post in receiver.posts]
    assert texts == [
        "*CRITICAL test alert sent by `ragmon notify-test`: nothing is wrong*",
        "*CRITICAL Resolved: test alert sent by `ragmon notify-test`: nothing is wrong*",
    ]
    out = capsys.readouterr().out
    assert out.count("was accepted") == 2
    assert SECRET not in out


def test_alertmanager_ends_it_by_itself(receiver):
    assert ask("alertmanager", "--sinks", f"[{{kind: alertmanager, url: '{receiver.url}'}}]") == 0
    [post] = receiver.posts
    assert post.json[0]["labels"]["alertname"] == "RagmonTest"


def test_a_refusal_says_what_the_receiver_said(receiver, capsys):
    receiver.answer = lambda post: Reply(404, body=f"no_service {post.path}".encode())
    sinks = f"[{{kind: slack, webhook_url: '{receiver.url}/services/{SECRET}'}}]"
    assert ask("slack", "--sinks", sinks) == 2
    err = capsys.readouterr().err
    assert err == f"ragmon: {receiver.host} answered 404: no_service ***\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("chat", "--sinks", "[{kind: stdout}]"), "Use one of stdout"),
        (("chat",), "Configure it under `sinks`"),
        (("stdout", "--sinks", "[{kind: stdout, x: 1}]"), "sinks.0.x"),
    ],
)
def test_a_sink_that_is_not_there(words, problem, capsys):
    assert ask(*words) == 2
    assert problem in capsys.readouterr().err


EVERY_SECRET = {
    "slack": [{"webhook_url": f"https://hooks.slack.com/services/{SECRET}"}],
    "pagerduty": [{"routing_key": SECRET}],
    "webhook": [
        {"url": f"https://example.org/hook/{SECRET}", "secret": f"whsec_{SECRET * 2}"},
        {"url": "https://example.org", "token": SECRET},
    ],
    "alertmanager": [{"url": "http://am:9093", "username": "ann", "password": SECRET}],
}


@pytest.mark.parametrize(
    "given", [{"kind": kind} | each for kind, all_of in EVERY_SECRET.items() for each in all_of]
)
def test_no_secret_is_ever_shown(given, capsys):
    flags = ["check-config", "--sinks", json.dumps([given])]
    assert main(flags) == 0
    shown = capsys.readouterr().out
    assert f"kind={given['kind']}" in shown.replace("\n", "")
    settings = load(None, {"sinks": json.dumps([given])}, {}).settings
    mistaken = [{**given, "tokn": SECRET}, {**given, "give_up_after": "soon"}]
    assert main(["check-config", "--sinks", json.dumps(mistaken[:1])]) == 2
    assert main(["check-config", "--sinks", json.dumps(mistaken[1:])]) == 2
    refused = capsys.readouterr().err
    assert "tokn" in refused
    assert "give_up_after" in refused
    for text in (shown, refused, repr(settings), str(settings.sinks), f"{settings.sinks[0]}"):
        assert "Sup3r" not in "".join(text.split())


def test_other_free_settings_hide_their_secrets_too(capsys):
    given = json.dumps({"endpoint": "http://localhost:6006", "headers": {"authorization": SECRET}})
    assert main(["check-config", "--otlp_export", given]) == 0
    assert "Sup3r" not in "".join(capsys.readouterr().out.split())
