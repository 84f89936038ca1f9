"""What stands between the client and the server: proxies, and the header that carries the token."""

import socket
import threading

import pytest

from ragmon.client import Monitor
from ragmon.client.address import address
from ragmon.client.batch import RecordKind
from ragmon.client.engine import EnginePlan, build
from ragmon.client.fake import FakeServer
from ragmon.client.options import Options
from ragmon.clock import ManualClock


def test_a_token_that_cannot_stand_in_a_header_is_refused():
    plan = EnginePlan(
        address=address("http://r", {}),
        token="a\nb",
        spool_dir=None,
        options=Options(),
        clock=ManualClock(),
    )
    with pytest.raises(ValueError, match="token"):
        build(plan)


def deliver_one(url, environment):
    """Log one query and make the turns that send it; the counts."""
    clock = ManualClock(1e9)
    engine = build(
        EnginePlan(
            address=address(url, environment),
            token=None,
            spool_dir=None,
            options=Options(),
            clock=clock,
        )
    )
    engine.inbox.put(RecordKind.QUERY, {"query_id": "q"}, 100)
    clock.sleep(engine.worker.turn())
    engine.worker.turn()
    stats = engine.stats()
    engine.close(0.0)
    return stats


def test_a_proxy_that_forwards_gets_the_whole_url():
    with FakeServer() as proxy:
        environment = {"http_proxy": f"http://me:pass@127.0.0.1:{proxy.port}"}
        assert deliver_one("http://ragmon.invalid:8321", environment).sent == 1
    (request,) = proxy.requests
    assert request.path == "http://ragmon.invalid:8321/v1/queries"
    assert request.headers["Proxy-Authorization"].startswith("Basic ")


def test_a_proxy_that_tunnels_is_asked_to_connect():
    asked = []

    def refuse(listener):
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(4096))
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = threading.Thread(target=refuse, args=(listener,))
        proxy.start()
        environment = {"https_proxy": f"http://me:pass@127.0.0.1:{listener.getsockname()[1]}"}
        stats = deliver_one("https://ragmon.invalid", environment)
        proxy.join()
    assert asked[0].startswith(b"CONNECT ragmon.invalid:443 ")
    assert b"Proxy-Authorization: Basic " in asked[0]
    assert "407" in stats.last_error


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    with FakeServer() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        with Monitor("http://ragmon.invalid") as monitor:
            monitor.log_query("a")
        assert [request.path for request in proxy.requests] == ["http://ragmon.invalid/v1/queries"]
