"""Whose an incomplete trace is, without mapping it: its mapping may end the process."""

import json
import sqlite3

import pytest

from ragmon.privacy.erasure import Subject
from ragmon.sources.otlp.receiver.erasure import is_owned
from ragmon.sources.otlp.spans import Resource, pack
from tests.support.otlp import NOW, as_json, rig, span

JANE = Subject(kind="user", id="jane")


def owned(attributes, subject=JANE, **fields):
    [row] = pack([span(1, attributes=attributes, **fields)])
    return is_owned([row.body], subject)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param({"user.id": "jane"}, True, id="OpenInference"),
        pytest.param({"enduser.id": "jane"}, True, id="OpenTelemetry of old"),
        pytest.param({"langfuse.user.id": "jane"}, True, id="Langfuse"),
        pytest.param({"ai.telemetry.metadata.userId": "jane"}, True, id="Vercel"),
        pytest.param({"metadata": json.dumps({"user_id": "jane"})}, True, id="JSON in a text"),
        pytest.param({"metadata": {"user": {"id": "jane"}}}, True, id="a structure"),
        pytest.param({"metadata": "{'user_id': 'jane'}"}, True, id="Python in a text"),
        pytest.param({"input.value": "write to jane"}, False, id="somebody who wrote the word"),
        pytest.param({"user.id": "janet"}, False, id="somebody else"),
        pytest.param({"session.id": "jane"}, False, id="a session of that name"),
    ],
)
def test_keys_that_name_a_user(attributes, expected):
    assert owned(attributes) is expected


@pytest.mark.parametrize(
    "key", ["session.id", "gen_ai.conversation.id", "langsmith.metadata.thread_id", "chatId"]
)
def test_keys_that_name_a_session(key):
    assert owned({key: "s-1"}, Subject(kind="session", id="s-1"))
    assert not owned({key: "s-1"}, Subject(kind="user", id="s-1"))


def test_only_in_one_pipeline():
    subject = Subject(kind="user", id="jane", pipeline="docs")
    attributes = {"user.id": "jane"}
    assert owned(attributes, subject, resource=Resource(service="docs"))
    assert not owned(attributes, subject, resource=Resource(service="chat"))


def test_a_number_is_an_id():
    assert owned({"user.id": "42"}, Subject(kind="user", id="42"))


def test_bytes_that_are_no_spans_go_when_they_hold_the_id():
    assert is_owned([b"no spans of jane"], JANE)
    assert not is_owned([b"no spans of john"], JANE)


def trace(number, user):
    attributes = {"user.id": user, "openinference.span.kind": "CHAIN", "input.value": "a question"}
    attributes["output.value"] = "an answer"
    return span(number, trace_id=number.to_bytes(16, "big"), attributes=attributes)


def erase(site, subject=JANE):
    future = site.source.worker.erase(subject, dry_run=False)
    site.source.worker._erase_all()
    return [int.from_bytes(trace_id, "big") for trace_id in future.result(0)]


def test_a_suspect_is_erased_and_not_mapped_any_more(tmp_path):
    with rig(tmp_path) as site:
        site.send(as_json(trace(1, "jane"), trace(2, "john")), content_type="application/json")
        marked = [number.to_bytes(16, "big") for number in (1, 2)]
        site.engine.thread.ask(lambda: site.engine.shard.spans().mark(marked, NOW))
    with rig(tmp_path) as site:
        assert erase(site) == [1]
        assert site.source.worker.step()
        assert site.stored() == 1
        assert site.pending() == 0


def test_spans_that_cannot_be_read_do_not_stop_an_erasure(tmp_path):
    with rig(tmp_path) as site:
        for number, user in ((1, "jane"), (2, "john"), (3, "john")):
            site.send(as_json(trace(number, user)), content_type="application/json")
        site.engine.thread.ask(lambda: None)
    other = sqlite3.connect(tmp_path / "ragmon.sqlite")
    other.execute("UPDATE spans SET body = 'no bytes at all' WHERE number = 2")
    other.commit()
    other.close()
    with rig(tmp_path) as site:
        assert erase(site) == [1, 2]  # whose the second was, nobody can tell
        assert site.pending() == 1
