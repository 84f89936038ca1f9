"""Sinks for Teams, Opsgenie, e-mail and Apprise: what they send, and what they make of refusals."""

import email.policy
import json
import socket
import ssl
import threading
from contextlib import contextmanager
from email import message_from_bytes

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from ragmon.alerts import WorstQuery
from ragmon.alerts.message import message
from ragmon.clock import ManualClock
from ragmon.errors import SettingsError, SinkError
from ragmon.sinks import SinkContext, apprise, opsgenie, teams
from ragmon.sinks import email as mail
from tests.support.alerts import LINKS, NOW, finding, notice, rich_alert
from tests.support.certificates import Authority
from tests.support.modules import module
from tests.support.receiver import Reply, receiving

CONTEXT = SinkContext(ManualClock(NOW), LINKS, {"cluster": "eu-1"})
FIRST = notice("opened", rich_alert())
LAST = notice("resolved", rich_alert(), NOW + 600.0)
HOSTILE = "<script>alert(1)</script> **bold** [x](http://evil) \u202e\r\nBcc: all@example.org {{x}}"


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server


def hostile(text=HOSTILE, times=1):
    """An incident every text of which is somebody's attempt to break out."""
    wordy = rich_alert()
    evidence = replace(
        wordy.evidence,
        sentence=text * times,
        detail=text * times,
        remedies=(text * times,) * 6,
        worst=tuple(WorstQuery(text[:200], text * times, text * times) for _ in range(5)),
    )
    return replace(
        notice("opened", replace(wordy, name=text * times, evidence=evidence)),
        headline=text * times,
    )


# ---- Teams ----------------------------------------------------------------------------------


def test_teams_gets_one_card_of_runs(receiver):
    sink = teams.build(teams.Options(webhook_url=f"{receiver.url}/workflows/s3cr3t"), CONTEXT)
    sink.deliver(FIRST)
    [attachment] = receiver.posts[0].json["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert "eu-1" in json.dumps(card["body"])
    assert card["actions"][0]["title"] == "Open in ragmon"


def test_teams_shows_hostile_texts_as_they_are():
    """A TextBlock renders Markdown; a TextRun shows it."""
    card = teams.body(message(hostile(), LINKS), FIRST.id)["attachments"][0]["content"]
    runs = [run for block in card["body"] for run in block["inlines"]]
    assert len(runs) > 20
    assert {run["type"] for run in runs} == {"TextRun"}
    assert any(HOSTILE[:40] in run["text"] for run in runs)


@pytest.mark.parametrize("text", ["<&>", "🙈", "\x01"])
def test_teams_stays_below_its_limit(text):
    words = message(hostile(text, 3_000), LINKS)
    assert len(teams.payload(words, FIRST.id)) < 28_000


@pytest.mark.parametrize(("code", "retryable"), [(429, True), (500, True), (413, False)])
def test_a_refusal_inside_an_accepted_answer_counts(receiver, code, retryable):
    text = f"Webhook message delivery failed: Microsoft Teams endpoint returned HTTP error {code}"
    receiver.answer = lambda _: Reply(200, body=text.encode())
    with pytest.raises(SinkError, match=str(code)) as refused:
        teams.build(teams.Options(webhook_url=receiver.url), CONTEXT).deliver(FIRST)
    assert refused.value.retryable == retryable


# ---- Opsgenie -------------------------------------------------------------------------------


def genie(receiver, **options):
    return opsgenie.build(opsgenie.Options(url=receiver.url, api_key="k3y", **options), CONTEXT)


def test_an_incident_is_one_alert_of_opsgenie(receiver):
    sink = genie(receiver, tags=("rag",))
    sink.deliver(FIRST)
    sink.deliver(LAST)
    first, last = receiver.posts
    assert (first.path, last.path) == (
        "/v2/alerts",
        f"/v2/alerts/{LAST.incident_id}/close?identifierType=alias",
    )
    assert first.headers["authorization"] == last.headers["authorization"] == "GenieKey k3y"
    assert first.json["alias"] == FIRST.incident_id
    assert first.json["priority"] == "P3"
    assert first.json["tags"] == ["warning", "docs", "rag"]
    assert first.json["details"]["cluster"] == "eu-1"


def test_a_graver_incident_raises_the_priority(receiver):
    genie(receiver).deliver(notice("escalated", rich_alert(found=finding(severity="critical"))))
    created, raised = receiver.posts
    assert created.json["priority"] == "P1"
    assert raised.path.endswith("/priority?identifierType=alias")
    assert raised.json == {"priority": "P1"}


def test_an_alert_that_somebody_deleted_is_closed(receiver):
    receiver.answer = lambda _: Reply(404)
    genie(receiver).deliver(LAST)
    with pytest.raises(SinkError):
        genie(receiver).deliver(FIRST)


def test_opsgenie_stays_below_its_limits():
    body = opsgenie.body(hostile("<&>", 9_000), CONTEXT, ("t" * 99,) * 40)
    assert len(body["message"]) <= 130
    assert len(body["description"]) <= 15_000
    assert sum(len(name) + len(value) for name, value in body["details"].items()) <= 8_000
    assert len(body["tags"]) <= 20
    assert max(map(len, body["tags"])) <= 50


def test_the_key_is_in_no_error(receiver):
    receiver.answer = lambda _: Reply(401, body=b"Key k3y is not valid")
    with pytest.raises(SinkError, match=r"Key \*\*\* is not valid"):
        genie(receiver).deliver(FIRST)


# ---- e-mail ---------------------------------------------------------------------------------


class Mailbox:
    """What an SMTP server took, and what it refuses."""

    def __init__(self):
        self.envelopes = []
        self.refusals = {}  # by recipient
        self.after_data = "250 OK"

    async def handle_RCPT(self, _server, _session, envelope, address, _options):
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server, _session, envelope):
        if self.after_data.startswith("250"):
            self.envelopes.append(envelope)
        return self.after_data

    @property
    def mails(self):
        return [
            message_from_bytes(each.content, policy=email.policy.default) for each in self.envelopes
        ]


@contextmanager
def mail_server(**options):
    controller = module("aiosmtpd.controller")
    mailbox = Mailbox()

    class AnyPort(controller.Controller):
        def _trigger_server(self):
            self.port = self.server.sockets[0].getsockname()[1]
            super()._trigger_server()

    server = AnyPort(mailbox, hostname="127.0.0.1", port=0, ready_timeout=60, **options)
    server.start()
    try:
        mailbox.port = server.port
        yield mailbox
    finally:
        server.stop()


def posting(port, **options):
    given = {"host": "127.0.0.1", "port": port, "security": "none", "timeout_s": 20}
    given |= {"sender": "ragmon@example.org", "to": ["ann@example.org", "bob@example.org"]}
    return mail.build(mail.Options(**given | options), CONTEXT)


def test_a_mail_has_text_and_html_and_its_thread():
    with mail_server() as mailbox:
        sink = posting(mailbox.port)
        sink.deliver(FIRST)
        sink.deliver(LAST)
        sink.deliver(LAST)  # a retry
    first, last, again = mailbox.mails
    assert mailbox.envelopes[0].rcpt_tos == ["ann@example.org", "bob@example.org"]
    assert first["Subject"].startswith("[ragmon] WARNING docs is worse since 21:02 UTC")
    assert last["Subject"].startswith("[ragmon] WARNING Resolved: ")
    assert first["References"] == last["References"]
    assert first["Message-ID"] != last["Message-ID"] == again["Message-ID"]
    assert first["Auto-Submitted"] == "auto-generated"
    text, page = (part.get_content() for part in first.iter_parts())
    for part in (text, page):
        assert "What to try" in part
        assert "eu-1" in part
        assert LINKS.incident(FIRST.incident_id) in part


def test_hostile_texts_stay_texts_in_a_mail():
    with mail_server() as mailbox:
        posting(mailbox.port).deliver(hostile())
    [sent] = mailbox.mails
    assert sent["Bcc"] is None
    assert "\n" not in sent["Subject"]
    [_, page] = (part.get_content() for part in sent.iter_parts())
    assert "&lt;script&gt;" in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("after_data", "retryable"),
    [("451 Try again", True), ("554 Spam", False)],
)
def test_a_refusal_of_the_mail_server(after_data, retryable):
    with mail_server() as mailbox:
        mailbox.after_data = after_data
        with pytest.raises(SinkError, match=after_data[:3]) as refused:
            posting(mailbox.port).deliver(FIRST)
    assert refused.value.retryable == retryable


def test_one_refused_recipient_keeps_nobody_waiting():
    with mail_server() as mailbox:
        mailbox.refusals["bob@example.org"] = "550 No such user"
        posting(mailbox.port).deliver(FIRST)
        mailbox.refusals["ann@example.org"] = "450 Mailbox busy"
        with pytest.raises(SinkError) as refused:
            posting(mailbox.port).deliver(FIRST)
    assert len(mailbox.envelopes) == 1
    assert not refused.value.retryable  # the gravest answer
    assert mailbox.envelopes[0].rcpt_tos == ["ann@example.org"]


def server_tls(authority):
    pair = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def login(_server, _session, _envelope, _mechanism, data):
    result = module("aiosmtpd.smtp").AuthResult
    return result(success=data.login == b"ann" and data.password == b"pa55", handled=False)


def test_starttls_and_login(tmp_path):
    authority = Authority(tmp_path / "authority")
    (tmp_path / "password").write_text("pa55\n")
    access = {"username": "ann", "password_file": tmp_path / "password"}
    tls = {"security": "starttls", "ca_file": authority.cert, "host": "localhost"}
    with mail_server(
        tls_context=server_tls(authority), require_starttls=True, authenticator=login
    ) as mailbox:
        posting(mailbox.port, **tls, **access).deliver(FIRST)
        assert len(mailbox.envelopes) == 1
        (tmp_path / "password").write_text("wrong")
        with pytest.raises(SinkError, match="535") as refused:
            posting(mailbox.port, **tls, **access).deliver(FIRST)
        assert "wrong" not in str(refused.value)
        with pytest.raises(SinkError, match="TLS"):
            posting(mailbox.port, **tls | {"ca_file": None}).deliver(FIRST)


def test_nothing_is_sent_in_the_clear_where_tls_was_asked_for():
    with mail_server() as mailbox:
        with pytest.raises(SinkError, match="STARTTLS") as refused:
            posting(mailbox.port, security="starttls").deliver(FIRST)
        assert refused.value.retryable
        assert mailbox.envelopes == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"to": []}, "at least 1"),
        ({"to": ["ann"]}, "no address"),
        ({"to": ["ann@example.org\nBcc: all@example.org"]}, "no address"),
        ({"sender": "a@b@c"}, "no address"),
        ({"username": "ann"}, "exactly one of password"),
        ({"username": "ann", "password": "x"}, "in the clear"),
        ({"password": "x"}, "username and password"),
    ],
)
def test_settings_of_a_mail_that_cannot_be(options, says):
    with pytest.raises(ValidationError, match=says):
        posting(25, **options)


def test_a_server_that_drips_ends_with_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def drip():
            connection, _ = listening.accept()
            with connection:
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"2")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(SinkError, match="no connection") as refused:
                posting(listening.getsockname()[1], timeout_s=0.5).deliver(FIRST)
            assert refused.value.retryable
        finally:
            over.set()
            thread.join(10)


# ---- Apprise --------------------------------------------------------------------------------


def test_apprise_notifies_its_service(receiver, tmp_path):
    module("apprise")
    (tmp_path / "service").write_text(f"json://{receiver.host}/hook\n")
    sink = apprise.build(apprise.Options(service_file=tmp_path / "service"), CONTEXT)
    sink.deliver(FIRST)
    sink.deliver(LAST)
    first, last = (post.json for post in receiver.posts)
    assert (first["type"], last["type"]) == ("warning", "success")
    assert first["title"].startswith("WARNING docs is worse")
    assert "eu-1" in first["message"]
    receiver.answer = lambda _: Reply(500)
    with pytest.raises(SinkError, match="json did not take it") as refused:
        sink.deliver(FIRST)
    assert refused.value.retryable
    assert receiver.host not in str(refused.value)


@pytest.mark.parametrize("service", ["nonsense", "json://a json://b", "unknown://secret-part"])
def test_a_service_that_apprise_does_not_know(service):
    module("apprise")
    with pytest.raises(SettingsError, match="not one URL") as refused:
        apprise.build(apprise.Options(service=service), CONTEXT)
    assert "secret-part" not in str(refused.value)
