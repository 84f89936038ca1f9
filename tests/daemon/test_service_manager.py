"""systemd hears that ragmon is ready, alive while its loops turn, and ending."""

import socket

import pytest

from ragmon.clock import ManualClock
from ragmon.daemon import service_manager
from ragmon.daemon.event_loop_watch import EventLoopWatch
from tests.support.daemons import running
from tests.support.wait import eventually


class Manager:
    """What a unit of Type=notify is told, on a datagram socket."""

    def __init__(self, path):
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(20)

    def heard(self):
        return self._socket.recv(4096).decode()

    def until(self, text):
        """All that was said up to a message with this text."""
        messages = [self.heard()]
        while text not in messages[-1]:
            messages.append(self.heard())
        return messages

    def close(self):
        self._socket.close()


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def test_a_daemon_is_ready_alive_and_ending(manager, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    with running(tmp_path / "data") as site:
        assert manager.heard().startswith("READY=1")
        assert site.get("/readyz").status == 200
        manager.until("WATCHDOG=1")
    assert manager.until("STOPPING=1")


def test_no_sign_of_life_while_a_loop_hangs(manager):
    problems = []
    (told,) = service_manager.build(
        lambda: list(problems), {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "30"}
    )
    told.start()
    try:
        manager.until("WATCHDOG=1")
        problems.append("writer hangs")
        manager.until("STATUS=writer hangs")
        problems.clear()
        assert manager.until("WATCHDOG=1") == ["WATCHDOG=1\nSTATUS=serving"]
    finally:
        told.stop()


def test_a_writer_that_hangs_is_one_of_them(tmp_path):
    with running(tmp_path / "data") as site, site.stalled_writer():
        heartbeat = site.writer.loop.heartbeat
        limit_s = heartbeat.options.stall_s
        assert limit_s > 0
        assert site.daemon._monitor.stalled() == []
        heartbeat._at -= limit_s + 1  # as if it had hung for so long
        assert any("writer" in problem for problem in site.daemon._monitor.stalled())


def test_without_a_manager_nothing_is_said():
    assert service_manager.build(list, {}) == ()


def test_a_manager_that_is_away_stops_nothing(tmp_path):
    (told,) = service_manager.build(list, {"NOTIFY_SOCKET": str(tmp_path / "none")})
    told.start()
    told.stop()
    assert not told.loop.heartbeat.is_active


def test_no_sign_of_life_while_the_event_loop_hangs(manager, tmp_path, monkeypatch):
    """Nobody else can tell: what would answer /livez is what hangs."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    with running(tmp_path / "data") as site:
        manager.until("WATCHDOG=1")
        watch = site.daemon._server.event_loop
        eventually(lambda: watch._turned_at is not None, "it turned")
        monkeypatch.setattr(watch, "turned", lambda: None)
        watch._turned_at -= 3_600.0
        manager.until("STATUS=the event loop has not turned for 36")


def test_the_event_loop_turns_by_itself():
    clock = ManualClock()
    watch = EventLoopWatch(clock.monotonic)
    clock.sleep(3_600.0)
    assert watch.problems() == []  # it has not begun
    watch.turned()
    clock.sleep(15.0)
    assert watch.problems() == []
    clock.sleep(10.0)
    assert watch.problems() == ["the event loop has not turned for 25 s: no request is answered"]
    watch.turned()
    assert watch.problems() == []
