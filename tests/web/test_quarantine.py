"""The quarantine over HTTP and from the command line: lines of files, traces, notifications."""

import msgspec
import pytest

from ragmon.cli import main
from ragmon.daemon.notify.routing import notifications
from ragmon.quarantine import LineContent, TraceContent, answer_item, encode
from ragmon.sources.otlp.spans import pack
from ragmon.stores.quarantine import QuarantinedItem
from tests.support.alerts import story
from tests.support.daemons import running
from tests.support.http import PROBLEM
from tests.support.otlp import span
from tests.support.receiver import Reply, receiving
from tests.support.wait import eventually

LINES = (
    b'{"query_id": "one", "query": "a question"}\n'
    b"no JSON at all of jane@example.org\n"
    b'{"query_id": 7}\n'
    b'{"query_id": "old", "timestamp": 1000}\n'
    b'{"query_id": "two", "query": "a question"}\n'
)


def listed(site, path="/v1/quarantine"):
    return site.get(path).json["entries"]


def put(site, *items):
    site.daemon._engine.thread.ask(lambda: site.daemon._engine.quarantine.put(items))


def following(tmp_path, content=LINES, **settings):
    log = tmp_path / "queries.jsonl"
    log.write_bytes(content)
    source = {"kind": "jsonl", "path": str(log), "poll_s": 0.05}
    return running(tmp_path / "data", sources=[source], **settings)


def test_refused_lines_of_a_file_are_kept_and_the_others_counted(tmp_path):
    with following(tmp_path) as site:
        eventually(lambda: len(listed(site)) == 2, "both lines are in quarantine")
        assert site.get("/v1/report?window=1h").json["queries"] == 2
        invalid, malformed = listed(site)
        assert [entry["reason"] for entry in (malformed, invalid)] == ["malformed", "invalid"]
        assert malformed["stage"] == "decode"
        assert malformed["name"] == f"{tmp_path}/queries.jsonl, byte 43"
        shown = site.get(f"/v1/quarantine/{malformed['id']}").json
        assert shown["content"]["line"] == "no JSON at all of jane@example.org\n"
        metrics = site.get("/metrics").text
        assert 'ragmon_quarantined_total{reason="malformed",stage="decode"} 1\n' in metrics
        assert 'ragmon_quarantine_entries{stage="decode"} 2\n' in metrics
        assert '2 entries are in <a href="/ragmon#quarantine">quarantine</a>' in site.get("/").text
        again = site.post(f"/v1/quarantine/{invalid['id']}/retry", b"").json
        assert not again["done"]
        assert "query_id" in again["detail"]
        assert listed(site)[0]["attempts"] == 1
        assert site.request("DELETE", f"/v1/quarantine/{invalid['id']}").status == 200
        assert len(listed(site)) == 1
    with running(tmp_path / "data") as site:
        assert len(listed(site)) == 1


def test_a_line_that_can_be_read_now_is_stored_when_it_is_retried(tmp_path):
    with running(tmp_path / "data") as site:
        content = encode(LineContent("queries", b'{"query_id": "q1", "query": "a question"}'))
        put(
            site,
            QuarantinedItem(
                "decode", "invalid", site.daemon._clock.now(), "a file", "an error", content
            ),
        )
        [entry] = listed(site)
        assert site.post(f"/v1/quarantine/{entry['id']}/retry", b"").json == {
            "id": entry["id"], "done": True, "detail": "1 stored", "under_way": False
        }  # fmt: skip
        assert listed(site) == []
        assert site.get("/v1/queries/q1").json["record"]["query"] == "a question"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("redact", {"records": "queries", "line": "no JSON at all of [email]\n"}),
        ("drop", None),
    ],
    ids=["redacted lines are kept", "no line is kept where no text may be"],
)
def test_privacy_holds_for_what_is_kept_and_shown(tmp_path, policy, expected):
    with following(tmp_path, privacy__text=policy) as site:
        eventually(lambda: len(listed(site)) == 2, "both lines are in quarantine")
        shown = site.get(f"/v1/quarantine/{listed(site)[1]['id']}").json
        assert shown["content"] == expected
        site.daemon._engine.thread.ask(site.daemon._engine.snapshot)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert b"jane@example.org" not in stored


def test_texts_kept_before_are_not_shown_once_privacy_asks_for_it(tmp_path):
    [row] = pack([span(1, attributes={"input.value": "mail jane@example.org"})])
    content = encode(TraceContent([row.body]))
    with running(tmp_path / "data", privacy__text="redact") as site:
        put(
            site,
            QuarantinedItem(
                "map", "defect", site.daemon._clock.now(), "a trace", "an error", content
            ),
        )
        shown = site.get(f"/v1/quarantine/{listed(site)[0]['id']}").json
        assert shown["content"]["spans"][0]["attributes"] == {"input.value": "mail [email]"}


def test_a_file_of_another_format_does_not_push_out_everything_else(tmp_path):
    with following(tmp_path, b"nonsense\n" * 5_000 + LINES) as site:
        eventually(lambda: site.get("/v1/report?window=1h").json["queries"] == 2, "it is read", 60)
        assert site.get("/v1/quarantine").json["counts"]["decode"] == 100
        rejected = 'ragmon_rejected_total{reason="malformed",source="jsonl"} 5001\n'
        assert rejected in site.get("/metrics").text


def test_notifications_that_were_given_up_are_listed_and_sent_again(tmp_path):
    firing, _ = story(1)
    with receiving() as receiver:
        receiver.answer = lambda _: Reply(410, body=b"archived")
        sink = {"kind": "webhook", "name": "chat", "url": receiver.url}
        with running(tmp_path / "data", sinks=[sink]) as site:
            engine, delivery = site.daemon._engine, site.daemon._delivery
            rows = notifications([firing], delivery.routes)
            engine.thread.ask(lambda: engine.state.outbox().put(rows))
            delivery.wake()
            [entry] = eventually(
                lambda: listed(site, "/v1/quarantine?stage=send"), "it is given up"
            )
            assert (entry["id"], entry["reason"]) == ("send-1", "dead_letter")
            assert entry["name"].startswith("chat: ")
            shown = site.get("/v1/quarantine/send-1").json
            assert shown["content"]["id"] == firing.id
            metrics = site.get("/metrics").text
            assert 'ragmon_quarantined_total{reason="dead_letter",stage="send"} 1\n' in metrics
            receiver.answer = lambda _: Reply(200)
            assert site.post("/v1/quarantine/send-1/retry", b"").json["done"]
            eventually(lambda: len(receiver.posts) == 2, "it is sent again")
            eventually(lambda: not listed(site), "it is no longer in quarantine")


def test_a_notification_of_a_sink_that_is_gone_cannot_be_sent_again(tmp_path):
    firing, _ = story(1)
    with running(tmp_path / "data", sinks=[{"kind": "stdout", "name": "out"}]) as site:
        routes = site.daemon._delivery.routes
        engine = site.daemon._engine
        rows = [row._replace(sink="gone") for row in notifications([firing], routes)]
        engine.thread.ask(lambda: engine.state.outbox().put(rows))
        engine.thread.ask(
            lambda: engine.state.outbox().abandon(["out"], site.daemon._clock.now(), "removed")
        )
        answer = site.post("/v1/quarantine/send-1/retry", b"").json
        assert not answer["done"]
        assert "no sink 'gone'" in answer["detail"]
        assert site.request("DELETE", "/v1/quarantine/send-1").status == 200
        assert listed(site) == []


def test_notifications_of_a_removed_sink_are_counted(tmp_path):
    firing, _ = story(1)
    sinks = [{"kind": "stdout", "name": "out"}]
    with running(tmp_path / "data", sinks=sinks) as site:
        engine, routes = site.daemon._engine, site.daemon._delivery.routes
        rows = [row._replace(sink="gone") for row in notifications([firing], routes)]
        engine.thread.ask(lambda: engine.state.outbox().put(rows))
    with running(tmp_path / "data", sinks=sinks) as site:
        counted = 'ragmon_quarantined_total{reason="dead_letter",stage="send"} 1\n'
        eventually(lambda: counted in site.get("/metrics").text, "it is counted")
        assert listed(site)[0]["name"].startswith("gone: ")


def test_an_answer_whose_query_or_judge_is_gone_cannot_be_judged_again(tmp_path):
    with running(tmp_path / "data", judge__grounding__enabled=True) as site:
        now = site.daemon._clock.now()
        put(
            site,
            answer_item(now, "q1", "llm", ("judging_defect", "an error")),
            answer_item(now, "q2", "grounding", ("judge_hung", "an error")),
        )
        missing, unconfigured = listed(site, "/v1/quarantine?stage=judge")
        for entry, reason in (
            (missing, "the query is no longer stored; delete the entry"),
            (unconfigured, "the judge llm is not configured any more"),
        ):
            answer = site.post(f"/v1/quarantine/{entry['id']}/retry", b"").json
            assert (answer["done"], answer["detail"]) == (False, reason)
            assert site.request("DELETE", f"/v1/quarantine/{entry['id']}").status == 200
        assert listed(site) == []


def test_retries_and_deletions_stand_in_the_audit_log(tmp_path):
    with running(tmp_path / "data") as site:
        put(site, answer_item(site.daemon._clock.now(), "q1", "llm", ("judging_defect", "")))
        [entry] = listed(site)
        site.post(f"/v1/quarantine/{entry['id']}/retry", b"")
        site.request("DELETE", f"/v1/quarantine/{entry['id']}")
        site.request("DELETE", f"/v1/quarantine/{entry['id']}")
        logged = [msgspec.json.decode(line) for line in audit_lines(tmp_path)]
        path = f"/v1/quarantine/{entry['id']}"
        assert [(line["what"], line["outcome"], line["path"]) for line in logged] == [
            ("retryQuarantineEntry", "200", f"POST {path}/retry"),
            ("deleteQuarantineEntry", "200", f"DELETE {path}"),
            ("deleteQuarantineEntry", "404", f"DELETE {path}"),
        ]


def audit_lines(tmp_path):
    lines = (tmp_path / "data" / "audit.jsonl").read_bytes().splitlines()
    return [line for line in lines if b"uarantine" in line]


@pytest.mark.parametrize("name", ["7", "send-7", "none", "send-", "-1", "9" * 30, "²"])
def test_an_entry_that_does_not_exist_is_not_found(tmp_path, name):
    with running(tmp_path / "data") as site:
        for method, path in (("GET", ""), ("POST", "/retry"), ("DELETE", "")):
            answer = site.request(method, f"/v1/quarantine/{name}{path}")
            assert answer.status == 404
            assert answer.headers["content-type"] == PROBLEM


def test_an_unknown_stage_is_refused(tmp_path):
    with running(tmp_path / "data") as site:
        assert site.get("/v1/quarantine?stage=every").status == 400
        assert site.get("/v1/quarantine?limit=0").status == 400


def test_the_command_lists_shows_and_deletes(tmp_path, capsys):
    with following(tmp_path) as site:
        eventually(lambda: len(listed(site)) == 2, "both lines are in quarantine")
        url = ["--url", site.url]
        assert main(["quarantine", "list", "--stage", "decode", *url]) == 0
        assert "malformed" in capsys.readouterr().out
        assert main(["quarantine", "show", "1", *url]) == 0
        assert "no JSON at all" in capsys.readouterr().out
        assert main(["quarantine", "retry", "1", *url]) == 1
        assert "failed again" in capsys.readouterr().out
        assert main(["quarantine", "delete", "--all", *url]) == 0
        assert "Deleted 2, 1." in capsys.readouterr().out
        assert listed(site) == []
        assert main(["quarantine", "list", *url]) == 0
        assert "Nothing is in quarantine" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["show"], ["retry"], ["delete", "1", "--all"], ["list", "1"], ["show", "1", "2"]],
    ids=" ".join,
)
def test_the_command_says_which_ids_it_needs(words, capsys):
    assert main(["quarantine", *words]) != 0
    assert "ragmon quarantine list" in capsys.readouterr().err
