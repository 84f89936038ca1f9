"""What the daemon checks before it touches anything."""

import socket

import pytest

from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.daemon.startable import check_startable
from ragmon.errors import SettingsError

REFUSED = {
    "host": "0.0.0.0",
    "store": "{kind: sqlit}",
    "sinks": "[{kind: slak}]",
    "sources": "[{kind: jsonl}]",
    "detectors.rules": "[{kind: anomly}]",
    "probes": "[{name: faq, cases: nowhere.jsonl, endpoint: 'http://rag/ask'}]",
    "auth.tokens": "[{name: a, token_file: nowhere, scopes: [read]}]",
    "tls.cert_file": "nowhere.pem",
}


def start(flags):
    """The daemon, or the reason why there is none."""
    return Daemon(load(None, flags, {}).settings, ManualClock(1e9))


@pytest.mark.parametrize("setting", REFUSED)
def test_settings_that_cannot_be_used_touch_nothing(setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = {setting: REFUSED[setting], "data_dir": str(tmp_path / "data"), "port": "0"}
    with pytest.raises(SettingsError):
        start(flags)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_touches_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        settings = load(None, {"port": port, "data_dir": str(tmp_path / "data")}, {}).settings
        check_startable(settings, ManualClock(1e9))
        with pytest.raises(SettingsError, match="cannot listen"):
            Daemon(settings, ManualClock(1e9))
    assert list(tmp_path.iterdir()) == []


def test_two_sources_that_would_move_the_same_position_are_refused(tmp_path):
    one = "{kind: kafka, brokers: ['127.0.0.1:1'], topic: rag}"
    given = {"data_dir": str(tmp_path / "data"), "port": "0"}

    def check(*sources):
        settings = load(None, given | {"sources": f"[{', '.join(sources)}]"}, {}).settings
        check_startable(settings, ManualClock(1e9))

    check(one, one.replace("topic: rag", "topic: other"), one.replace("}", ", group: two}"))
    with pytest.raises(SettingsError, match=r"sources\.2 and sources\.0 .*group ragmon in"):
        check(one, one.replace("rag", "other"), one)


KAFKA = "{kind: kafka, brokers: ['127.0.0.1:1'], topic: rag}"
OTHER = KAFKA.replace("rag", "more")
POSTGRES = "{kind: postgresql, dsn: postgresql:///nowhere}"
ROLES = [
    pytest.param(
        {"store": "{kind: sqlite}"}, "store.kind: postgresql", id="a store for one process"
    ),
    pytest.param({"sources": "[]"}, "there are 0", id="nothing to share"),
    pytest.param({"sources": f"[{KAFKA}, {OTHER}]"}, "there are 2", id="two topics"),
]


@pytest.mark.parametrize("role", ["worker", "evaluator"])
@pytest.mark.parametrize(("flags", "reason"), ROLES)
def test_what_workers_cannot_do_stops_them_and_their_evaluator(flags, reason, role, tmp_path):
    shared = {"store": POSTGRES, "sources": f"[{KAFKA}]", "data_dir": str(tmp_path / "data")}
    settings = load(None, shared | {"replica.role": role} | flags, {}).settings
    with pytest.raises(SettingsError) as refused:
        check_startable(settings, ManualClock(1e9))
    assert reason in f"{refused.value} {refused.value.hint}"
