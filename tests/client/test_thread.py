"""The background thread: when it runs, how it ends, and what it is shielded from."""

import logging
import threading

import pytest

from ragmon.client import Monitor, Options
from ragmon.client.fake import FakeReply, FakeServer
from ragmon.clock import ManualClock


@pytest.fixture
def server():
    with FakeServer() as running:
        yield running


@pytest.fixture
def monitor(server):
    with Monitor(server.url, clock=ManualClock(1e9)) as running:
        yield running


def queries(server):
    return [record["query"] for record in server.records["queries"]]


def running():
    return [each for each in threading.enumerate() if each.name == "ragmon-client"]


def test_no_thread_runs_before_the_first_record_nor_after_the_end(server):
    monitor = Monitor(server.url)
    assert running() == []
    monitor.log_query("a")
    assert len(running()) == 1
    monitor.close()
    assert running() == []


def test_after_the_end_records_are_counted(server):
    monitor = Monitor(server.url)
    monitor.close()
    monitor.log_query("a")
    assert monitor.close()
    assert monitor.stats().dropped == {"closed": 1}


def test_a_server_that_hangs_blocks_nobody():
    released = threading.Event()
    with FakeServer(FakeReply(after=released)) as server:
        monitor = Monitor(server.url, options=Options(max_batch_records=1, max_buffer_records=10))
        monitor.log_query("a")
        assert server.arrived.acquire(timeout=5.0)
        for _ in range(20):
            monitor.log_query("b")
        assert monitor.stats().queued == 10
        assert monitor.flush(0.01) is False
        assert monitor.close(0.01) is False
        assert monitor.stats().dropped == {"buffer_full": 11, "closed": 10}
        assert running() == []
        released.set()


def test_what_a_hanging_server_was_sent_goes_to_the_spool_at_the_end(tmp_path):
    released = threading.Event()
    with FakeServer(FakeReply(after=released)) as server:
        first = Monitor(server.url, spool_dir=tmp_path, options=Options(max_batch_records=1))
        first.log_query("a")
        assert server.arrived.acquire(timeout=5.0)
        first.log_query("b")
        assert first.close(0.01) is False
        assert first.stats().spooled == 2
        released.set()
        with Monitor(server.url, spool_dir=tmp_path) as second:
            second.log_query("c")
            assert second.flush()
        assert queries(server) == ["a", "b", "c"]


def test_a_request_given_up_at_the_end_is_not_made_again(server):
    released = threading.Event()
    monitor = Monitor(server.url)
    monitor.log_query("a")
    assert monitor.flush()
    server.replies.append(FakeReply(after=released))
    monitor.log_query("b")
    assert monitor.flush(0.01) is False
    assert server.arrived.acquire(timeout=5.0)
    assert server.arrived.acquire(timeout=5.0)
    assert monitor.close(0.01) is False
    released.set()
    assert running() == []
    assert len(server.requests) == 2


def test_the_end_delivers_what_is_on_disk_while_the_server_takes_it(tmp_path, monkeypatch):
    released = threading.Event()
    hanging = FakeReply(after=released, keeps=True, body=b'{"accepted":1}')
    with FakeServer(FakeReply(status=503), hanging) as server:
        options = Options(max_batch_records=1, backoff_base_s=0.001)
        monitor = Monitor(server.url, spool_dir=tmp_path, options=options)
        with monitor._engine.accounting.lock:  # Both before the worker takes the first.
            monitor.log_query("a")
            monitor.log_query("b")
        for _ in range(2):
            assert server.arrived.acquire(timeout=5.0)
        close = monitor._engine.inbox.close

        def answer_once_closing(reason):
            close(reason)
            released.set()

        monkeypatch.setattr(monitor._engine.inbox, "close", answer_once_closing)
        assert monitor.close(5.0)
        assert queries(server) == ["a", "b"]
    assert list(tmp_path.iterdir()) == []


def test_where_no_thread_can_be_started_whoever_waits_delivers(server, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "ragmon-client":
            raise RuntimeError("can't start new thread")
        start(thread)

    monitor = Monitor(server.url)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monitor.log_query("a")
    assert monitor.stats().queued == 1
    assert monitor.flush()
    assert len(queries(server)) == 1
    assert monitor.close()


def test_flush_does_not_wait_for_our_own_pause():
    with FakeServer(FakeReply(status=500)) as server:
        options = Options(backoff_base_s=1000.0, backoff_cap_s=1000.0)
        with Monitor(server.url, options=options) as monitor:
            monitor.log_query("a")
            assert monitor.flush(0.05) is False
            assert monitor.flush(5.0)
            assert monitor.stats().retries == 1


def test_a_log_handler_may_itself_log_a_query(server):
    with Monitor(server.url) as monitor:

        class Handler(logging.Handler):
            def emit(self, record):
                monitor.log_query(record.getMessage())

        logger, handler = logging.getLogger("ragmon.client"), Handler()
        logger.addHandler(handler)
        try:
            monitor.log_query("a", latency_ms="slow")
            assert monitor.flush()
            assert monitor.flush()
        finally:
            logger.removeHandler(handler)
    assert len(queries(server)) == 2


def test_a_log_handler_may_close_the_monitor():
    with FakeServer(FakeReply(status=401)) as server:
        monitor = Monitor(server.url)
        closed = threading.Event()

        class Handler(logging.Handler):
            def emit(self, record):
                assert monitor.close() is False
                closed.set()

        logger, handler = logging.getLogger("ragmon.client"), Handler()
        logger.addHandler(handler)
        try:
            monitor.log_query("a")
            monitor.flush(0.0)
            assert closed.wait(5.0)
        finally:
            logger.removeHandler(handler)
    assert monitor.stats().dropped == {"closed": 1}


def test_a_log_handler_that_raises_disturbs_nobody(server, monitor):
    class Handler(logging.Handler):
        def emit(self, record):
            raise OSError("no space for logs")

    logger, handler = logging.getLogger("ragmon.client"), Handler()
    logger.addHandler(handler)
    try:
        monitor.log_query("a", retrieved_docs="not a list", user_feedback="meh")
        assert monitor.flush()
    finally:
        logger.removeHandler(handler)
    assert len(queries(server)) == 1


def test_a_fault_of_our_own_is_contained_and_the_batch_is_kept(server, monkeypatch):
    faults = [MemoryError("no room")]
    with Monitor(server.url) as monitor:
        post = monitor._engine._delivery._transport.post

        def failing(*args):
            if faults:
                raise faults.pop()
            return post(*args)

        monkeypatch.setattr(monitor._engine._delivery._transport, "post", failing)
        monkeypatch.setattr("ragmon.client.worker._AFTER_FAILURE_S", 0.01)
        monitor.log_query("a")
        assert monitor.flush()
        assert monitor.stats().bad_arguments == {"worker": 1}
    assert len(queries(server)) == 1
