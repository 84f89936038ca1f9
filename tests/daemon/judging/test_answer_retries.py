"""Answers in quarantine that are judged again while nobody waits for it."""

import threading

import pytest
from structlog.testing import capture_logs

from ragmon.cli import main
from ragmon.judges.llm import LlmJudge
from ragmon.quarantine import AnswerRetry, LineContent, RetryFailedError, answer_item, encode
from ragmon.stores.quarantine import QuarantinedItem
from tests.daemon.judging.test_daemon import answered, judged, settings
from tests.support.daemons import running
from tests.support.llm_server import serving
from tests.support.wait import eventually

LINE = encode(LineContent("queries", b'{"query_id": "q2", "query": "a question"}'))


@pytest.fixture
def options():
    """Settings of a daemon that asks a language model."""
    with serving() as server:
        yield settings(server)


def quarantine(site, *items) -> None:
    """Put a judged answer into quarantine, and these."""
    site.post("/v1/queries", [answered(1)])
    eventually(lambda: judged(site, outcome="scored") == 1, "it was judged")
    item = answer_item(site.daemon._clock.now(), "q1", "llm", ("judging_defect", "an error"))
    engine = site.daemon._engine
    engine.thread.ask(lambda: engine.quarantine.put([*items, item]))


def entries(site) -> list[dict]:
    return site.get("/v1/quarantine").json["entries"]


def is_settled(site) -> list[dict]:
    """The entries, once no retry is under way."""
    listed = entries(site)
    return [] if any(entry["under_way"] for entry in listed) else listed


def test_neither_requests_nor_the_end_wait_for_the_model(tmp_path, options, monkeypatch):
    asked, answers = threading.Event(), threading.Event()

    def slow(*_):
        asked.set()
        answers.wait(60)
        raise ValueError("too late")

    with capture_logs() as logs, running(tmp_path / "data", **options) as site:
        quarantine(site, QuarantinedItem("decode", "invalid", 1e9, "a file", "an error", LINE))
        monkeypatch.setattr(LlmJudge, "judge", slow)
        answer, line = entries(site)
        path = f"/v1/quarantine/{answer['id']}/retry"
        assert site.post(path, b"").status == 202
        assert asked.wait(15), "the model is asked"
        assert site.post(path, b"").json["under_way"]  # once is enough
        shown = {each["id"]: each for each in entries(site)}[answer["id"]]
        assert (shown["under_way"], shown["attempts"]) == (True, 1)
        assert "1, one under way" in site.get("/ragmon").text
        retried = site.get(f"/ragmon?retried={answer['id']}").text
        assert "is being judged again" in retried
        assert site.post(f"/v1/quarantine/{line['id']}/retry", b"").json["done"]  # not behind it
    assert "hung_at_end" not in {each["event"] for each in logs}
    with running(tmp_path / "data", **options) as site:
        answers.set()
        [kept] = entries(site)
        assert (kept["id"], kept["under_way"], kept["error"]) == (answer["id"], False, "an error")


def test_an_entry_that_is_deleted_while_it_waits_is_not_judged(tmp_path, options, monkeypatch):
    asked, may_answer, answers = threading.Event(), threading.Event(), []

    def slow(record, known):
        answers.append(record.answer)
        asked.set()
        may_answer.wait(60)
        raise RetryFailedError("no verdict")

    with running(tmp_path / "data", **options) as site:
        item = answer_item(site.daemon._clock.now(), "q1", "llm", ("another", "an error"))
        quarantine(site, item._replace(name="a second entry"))
        retries = site.daemon._judges.retries
        monkeypatch.setattr(retries, "_judges", {"llm": AnswerRetry(slow, print)})
        for entry in entries(site):
            assert site.post(f"/v1/quarantine/{entry['id']}/retry", b"").status == 202
        assert asked.wait(15), "the first is judged"
        waiting = entries(site)[-1]["id"]
        assert site.request("DELETE", f"/v1/quarantine/{waiting}").status == 200
        may_answer.set()
        [entry] = eventually(lambda: is_settled(site), "the first has its outcome")
        assert entry["error"] == "no verdict"
        eventually(lambda: not retries._under_way, "both are through")
        assert len(answers) == 1


def test_the_command_waits_for_the_outcome(tmp_path, options, monkeypatch, capsys):
    judge = LlmJudge.judge

    def failing(*_):
        raise ValueError("a defect")

    with running(tmp_path / "data", **options) as site:
        quarantine(site)
        monkeypatch.setattr(LlmJudge, "judge", failing)
        command = ["quarantine", "retry", "--all", "--url", site.url]
        assert main(command) == 1
        assert "failed again: ValueError: a defect" in capsys.readouterr().out
        assert main([*command, "--wait", "0"]) == 1
        assert ": under way: the answer is being judged" in capsys.readouterr().out
        eventually(lambda: is_settled(site), "it has failed again")
        monkeypatch.setattr(LlmJudge, "judge", judge)
        assert main(command) == 0
        assert "done: judged" in capsys.readouterr().out
        assert entries(site) == []
