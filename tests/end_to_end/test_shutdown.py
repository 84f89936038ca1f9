"""SIGTERM under load: what is under way is answered, and the daemon is gone in time."""

import signal
import threading

import pytest

from tests.support.daemons import Process
from tests.support.http import everything
from tests.support.load import Load, expected
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end


def test_sigterm_under_load(tmp_path):
    load = Load()
    site = Process(tmp_path / "data")
    load.start(site)
    eventually(lambda: len(load.acknowledged) > 500, "enough is acknowledged")
    assert site.terminate(timeout_s=10) == 0
    load.wait()
    assert [each["event"] for each in site.events()][-1] == "ended"
    with Process(tmp_path / "data") as site:
        found = site.total("ragmon_queries_total")
        assert len(load.acknowledged) <= found <= len(load.acknowledged | load.doubtful)
        load.start(site)
        eventually(lambda: not load.doubtful, "nothing is in doubt")
        load.stop()
        for name, value in expected(load.acknowledged).items():
            assert site.total(name) == value, name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_under_way_is_answered(tmp_path, number):
    site = Process(tmp_path / "data")
    body = b'{"query_id":"under-way"}'
    head = b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with site.wire() as wire:
        wire.sendall(head + body[:5])
        eventually(lambda: site.get("/livez").status == 200, "it serves")
        site.process.send_signal(number)
        eventually(lambda: "ending" in {each["event"] for each in site.events()}, "it is ending")
        wire.sendall(body[5:])
        answer = everything(wire)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"accepted":1' in answer
    assert site.process.wait(10) == 0
    with Process(tmp_path / "data") as site:
        assert site.get("/v1/queries/under-way").status == 200


def test_a_request_that_never_ends_does_not_hold_up_the_end(tmp_path):
    site = Process(tmp_path / "data")
    with site.wire() as half_body, site.wire() as half_head, site.wire():
        half_body.sendall(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{"
        )
        half_head.sendall(b"POST /v1/queries HTTP/1.1\r\nho")
        assert site.terminate(timeout_s=10) == 0
    assert [each["event"] for each in site.events()][-1] == "ended"


def test_every_line_of_the_log_is_json(tmp_path):
    with Process(tmp_path / "data") as site:
        site.raw(b"nonsense\r\n\r\n")
        site.post("/v1/queries", [{"query_id": "a"}, 3])
        site.get("/nowhere")
        errors = threading.Thread(target=site.get, args=("/v1/report?window=soon",))
        errors.start()
        errors.join(10)
        assert site.terminate() == 0
    lines = site.log.read_bytes().splitlines()
    assert len(lines) == len(site.events()) >= 4
    for event in site.events():
        assert {"timestamp", "level", "logger", "event"} <= event.keys()
