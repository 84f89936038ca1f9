"""Delivery over a real connection to a server that misbehaves; the clock moves only when told."""

import socket
import threading

import msgspec
import pytest

from ragmon.client.address import address
from ragmon.client.batch import RecordKind
from ragmon.client.engine import EnginePlan, build
from ragmon.client.fake import FakeReply, FakeServer
from ragmon.client.options import Options
from ragmon.clock import ManualClock

NOW = 1_000_000_000.0  # 2001-09-09 01:46:40


class Bench:
    """An engine without its thread: the test makes the turns."""

    def __init__(self, url="http://ragmon.invalid", *, spool_dir=None, transport=None, **options):
        self.clock = ManualClock(NOW)
        plan = EnginePlan(
            address=address(url, {}),
            token="secret",
            spool_dir=spool_dir,
            options=Options(**{"flush_interval_s": 1.0, **options}),
            clock=self.clock,
        )
        self.engine = build(plan, transport)
        self.logged = 0

    def log(self, count=1, kind=RecordKind.QUERY, size=0):
        for _ in range(count):
            self.logged += 1
            arguments = {
                "query_id": f"q{self.logged}",
                "query": "x" * size,
                "rating": 1,
                "faithful": 1,
            }
            self.engine.inbox.put(kind, arguments, 100)

    def turn(self):
        return self.engine.worker.turn()

    def deliver(self):
        """Let the inbox wait its second, then make turns until the next would have to wait."""
        self.turn()
        self.clock.sleep(1.0)
        while (wait := self.turn()) == 0.0:
            pass
        return wait

    @property
    def stats(self):
        return self.engine.stats()

    def close(self):
        self.engine.close(0.0)


@pytest.fixture
def bench():
    made = []

    def make(*args, **options):
        made.append(Bench(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def adds_up(stats):
    held = stats.queued + stats.spooled + sum(stats.dropped.values())
    return stats.logged + stats.recovered == stats.sent + held


def ids(server):
    return [record["query_id"] for record in server.records["queries"]]


def test_records_wait_for_company_then_go_together(bench):
    with FakeServer() as server:
        client = bench(server.url)
        client.log()
        assert client.turn() == 1.0
        client.clock.sleep(0.75)
        client.log()
        assert client.turn() == 0.25
        assert server.requests == []
        client.clock.sleep(0.25)
        assert client.turn() == 0.0
        assert client.turn() is None
        assert ids(server) == ["q1", "q2"]
        assert len(server.requests) == 1
    assert client.stats.sent == 2
    assert client.stats.queued_bytes == 0


def test_a_full_batch_goes_at_once(bench):
    with FakeServer() as server:
        client = bench(server.url, max_batch_records=3)
        client.log(4)
        while client.turn() == 0.0:
            pass
        assert [len(request.records) for request in server.requests] == [3, 1]


def test_a_batch_is_bounded_in_bytes(bench):
    with FakeServer() as server:
        client = bench(server.url, max_batch_bytes=1000)
        client.log(4, size=400)
        client.deliver()
        assert [len(request.records) for request in server.requests] == [2, 2]


def test_each_kind_has_its_endpoint_and_the_token_goes_along(bench):
    with FakeServer() as server:
        client = bench(server.url)
        client.log(kind=RecordKind.LABEL)
        client.log(kind=RecordKind.QUERY)
        client.log(kind=RecordKind.FEEDBACK)
        client.log(kind=RecordKind.QUERY)
        client.deliver()
    assert [(request.path, len(request.records)) for request in server.requests] == [
        ("/v1/labels", 1),
        ("/v1/queries", 2),
        ("/v1/feedback", 1),
    ]
    headers = server.requests[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/x-ndjson"


def test_one_connection_serves_many_requests(bench):
    with FakeServer() as server:
        client = bench(server.url)
        for _ in range(3):
            client.log()
            client.deliver()
        assert len(server.requests) == 3
        assert server.connections == 1


def test_a_connection_the_server_closed_is_replaced_without_a_pause(bench):
    with FakeServer(FakeReply(status=200, body=b'{"accepted":1}', headers={"X": "y"})) as server:
        client = bench(server.url)
        client.log()
        client.deliver()
        server.drop_connections()
        client.log()
        assert client.deliver() is None
        assert server.connections == 2
    assert client.stats.retries == 0
    assert client.stats.sent == 2


def test_large_bodies_are_compressed_when_asked(bench):
    with FakeServer() as server:
        client = bench(server.url, gzip_over_bytes=500)
        client.log(size=10)
        client.deliver()
        client.log(size=1000)
        client.deliver()
    encodings = [request.headers.get("Content-Encoding") for request in server.requests]
    assert encodings == [None, "gzip"]
    assert ids(server) == ["q1", "q2"]


@pytest.mark.parametrize(
    ("header", "least"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("Sun, 09 Sep 2001 01:47:01 GMT", 20.0, id="an HTTP date"),
    ],
)
def test_the_same_batch_is_sent_again_after_the_pause_asked_for(bench, header, least):
    with FakeServer(FakeReply(status=503, headers={"Retry-After": header})) as server:
        client = bench(server.url)
        client.log(2)
        wait = client.deliver()
        assert least <= wait <= least * 1.25
        client.clock.sleep(least - 0.5)
        client.log()
        assert client.turn() > 0.0
        assert len(server.requests) == 1
        client.clock.sleep(wait)
        client.deliver()
        first, second = server.requests[:2]
        assert first.records == second.records
        assert ids(server) == ["q1", "q2", "q3"]
    assert client.stats.retries == 1


def test_an_answer_that_was_lost_does_not_count_a_record_twice(bench):
    lost = FakeReply(status=200, body=b'{"accepted":2}', cut=5, keeps=True)
    with FakeServer(lost) as server:
        client = bench(server.url)
        client.log(2)
        client.clock.sleep(client.deliver())
        client.deliver()
        assert ids(server) == ["q1", "q2"]
    assert (client.stats.sent, client.stats.duplicates, client.stats.retries) == (2, 2, 1)


def test_a_server_that_is_down_is_found_when_it_is_up(bench):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = bench(f"http://127.0.0.1:{port}")
    client.log()
    wait = client.deliver()
    assert 0.25 <= wait <= 0.5
    assert "ConnectionRefusedError" in client.stats.last_error
    with FakeServer(port=port) as server:
        client.clock.sleep(wait)
        client.deliver()
        assert ids(server) == ["q1"]
    assert client.stats.last_error == ""


def test_a_server_that_hangs_is_given_up_after_the_read_timeout(bench):
    released = threading.Event()
    with FakeServer(FakeReply(after=released)) as server:
        client = bench(server.url, read_timeout_s=0.05)
        client.log()
        wait = client.deliver()
        assert client.stats.last_error.startswith("TimeoutError")
        client.clock.sleep(wait)
        client.deliver()
        assert ids(server) == ["q1"]
        released.set()


def test_a_batch_too_large_is_halved_until_the_one_that_is_too_large_is_alone(bench):
    with FakeServer(limit=500) as server:
        client = bench(server.url)
        client.log(5, size=50)
        client.log(size=600)
        client.log(2, size=50)
        client.deliver()
        assert ids(server) == ["q1", "q2", "q3", "q4", "q5", "q7", "q8"]
    assert client.stats.dropped == {"too_large": 1}
    assert adds_up(client.stats)


@pytest.mark.parametrize(
    ("status", "receipt", "sent", "dropped"),
    [
        pytest.param(
            200,
            {"accepted": 2, "duplicates": 0, "rejected": [{"line": 2, "field": "f", "error": "e"}]},
            2,
            {"rejected": 1},
            id="some are good",
        ),
        pytest.param(
            422, {"accepted": 0, "rejected": [{"line": 1}]}, 0, {"rejected": 3}, id="none is good"
        ),
        pytest.param(400, "no receipt", 0, {"rejected": 3}, id="not understood"),
        pytest.param(200, {"accepted": 9, "duplicates": 9}, 3, {}, id="more than were sent"),
    ],
)
def test_what_is_rejected_is_counted_and_not_sent_again(bench, status, receipt, sent, dropped):
    with FakeServer(FakeReply(status=status, body=msgspec.json.encode(receipt))) as server:
        client = bench(server.url)
        client.log(3)
        assert client.deliver() is None
        assert len(server.requests) == 1
    assert client.stats.sent == sent
    assert client.stats.dropped == dropped
    assert adds_up(client.stats)


def test_each_field_is_complained_of_once(bench, caplog):
    receipt = {
        "accepted": 0,
        "rejected": [
            {"line": 1, "field": "chunks[0].score", "error": "expected number, got str"},
            {"line": 2, "field": "chunks[7].score", "error": "expected number, got str"},
            {"line": 3, "field": "pipeline", "error": "too long"},
        ],
        "ignored_fields": {"latency": "latency_ms", "mood": None},
    }
    reply = FakeReply(body=msgspec.json.encode(receipt))
    with FakeServer(reply, reply) as server:
        client = bench(server.url)
        for _ in range(2):
            client.log(3)
            client.deliver()
    assert [record.message for record in caplog.records] == [
        "ragmon: records are rejected: `chunks[0].score`: expected number, got str",
        "ragmon: records are rejected: `pipeline`: too long",
        "ragmon: the server knows no field `latency` (meant `latency_ms`?)",
        "ragmon: the server knows no field `mood`",
    ]


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_what_only_an_operator_can_mend_is_tried_seldom_and_loses_nothing(bench, caplog, status):
    reply = FakeReply(status=status, headers={"Location": "http://127.0.0.1:1/"})
    with FakeServer(reply, reply) as server:
        client = bench(server.url, max_buffer_records=3)
        client.log()
        for _ in range(2):
            wait = client.deliver()
            assert wait >= 44.0  # 45 less the second that `deliver` lets pass
            client.clock.sleep(wait)
        assert [record.message.split(";")[0] for record in caplog.records] == [
            f"ragmon: status {status}"
        ]
        client.deliver()
        assert ids(server) == ["q1"]
    assert client.stats.retries == 2


@pytest.mark.parametrize(
    ("limits", "held"),
    [
        pytest.param({"max_buffer_records": 3}, 3, id="in records"),
        pytest.param({"max_buffer_bytes": 250}, 2, id="in bytes"),
    ],
)
def test_the_buffer_is_bounded(bench, limits, held):
    client = bench("http://127.0.0.1:1", **limits)
    client.log(5)
    assert client.stats.queued == held
    assert client.stats.dropped == {"buffer_full": 5 - held}
    client.deliver()
    client.log()
    assert client.stats.queued >= held
    assert adds_up(client.stats)


def test_bytes_are_counted_as_they_are_once_encoded(bench):
    client = bench("http://127.0.0.1:1", max_buffer_bytes=10_000)
    client.log(size=20_000)
    client.deliver()
    client.log()
    assert client.stats.queued_bytes > 20_000
    assert client.stats.dropped == {"buffer_full": 1}


def test_what_is_left_at_the_end_is_counted(bench):
    client = bench("http://127.0.0.1:1")
    client.log(2)
    client.deliver()
    client.log()
    assert client.engine.close(0.0) is False
    client.log()
    assert client.stats.dropped == {"closed": 4}
    assert client.stats.queued == client.stats.queued_bytes == 0
