"""``ragmon incident``: what it asks of a daemon, and what it prints."""

import json

import msgspec
import pytest

from ragmon.alerts.as_json import describe_incident
from ragmon.alerts.incidents import incidents
from ragmon.cli import main
from tests.support.alerts import NOW, rich_alert
from tests.support.answering import Answered, answering
from tests.support.daemons import running

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def daemon():
    """A server that answers as a daemon with one incident does."""
    (one,) = incidents([rich_alert(incident_id="f00d")], NOW)
    body = msgspec.json.encode(describe_incident(one))
    with answering() as served:
        served.answer = lambda _: Answered(200, body=body)
        yield served


def test_an_incident_is_acknowledged_by_name_and_note(daemon, capsys):
    words = ["acknowledge", "f00d/x", "--note", "on it", "--by", "ana", "--url", daemon.url]
    assert main(["incident", *words]) == 0
    [asked] = daemon.asked
    assert asked.path == "/v1/incidents/f00d%2Fx/acknowledge"
    assert json.loads(asked.body) == {"note": "on it", "by": "ana"}
    assert capsys.readouterr().out.startswith("f00d/x: acknowledged: ")


def test_it_is_taken_back(daemon, capsys):
    assert main(["incident", "unacknowledge", "f00d", "--url", daemon.url]) == 0
    [asked] = daemon.asked
    assert asked == ("DELETE", "/v1/incidents/f00d/acknowledge", b"")
    assert capsys.readouterr().out.startswith("f00d: not acknowledged any more: ")


def test_json_is_the_answers(daemon, capsys):
    assert main(["incident", "acknowledge", "f00d", "--json", "--url", daemon.url]) == 0
    [incident] = json.loads(capsys.readouterr().out)
    assert incident["id"] == "f00d"


def test_a_note_without_an_acknowledgement_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["incident", "unacknowledge", "f00d", "--note", "x"])
    assert end.value.code == 2
    assert "belong to acknowledge" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["acknowledge", "unacknowledge"])
def test_an_incident_that_is_not_there_is_named(tmp_path, capsys, action):
    with running(tmp_path / "data") as site:
        assert main(["incident", action, "f00d", "--url", site.url]) == 2
    assert "answered 404" in capsys.readouterr().err
