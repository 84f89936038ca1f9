"""The writer's thread as others reach it."""

import asyncio
import threading

import pytest

from ragmon.clock import SystemClock
from ragmon.daemon.ingest.writer import Writer
from ragmon.errors import StoreError


@pytest.fixture
def writer():
    writer = Writer(None, SystemClock(), queue_bytes=1)
    writer.start()
    yield writer
    assert writer.stop(10)


def test_every_way_to_ask_runs_on_the_writers_thread(writer):
    owned = writer.thread.bind(["a"])
    seen = []

    def read(store):
        seen.append(threading.current_thread().name)
        return store[0]

    assert owned.ask(read) == "a"
    assert owned.submit(read).result(10) == "a"
    assert asyncio.run(owned.ask_async(read)) == "a"
    assert seen == ["writer"] * 3


def test_the_writers_thread_does_not_wait_for_itself(writer):
    owned = writer.thread.bind([1])
    assert owned.submit(lambda store: store + owned.ask(lambda again: again)).result(10) == [1, 1]


def test_an_error_goes_to_who_asked(writer):
    owned = writer.thread.bind({})
    with pytest.raises(KeyError):
        owned.ask(lambda store: store["gone"])
    with pytest.raises(KeyError):
        asyncio.run(owned.ask_async(lambda store: store["gone"]))


def test_a_thread_that_has_ended_refuses(writer):
    owned = writer.thread.bind([])
    assert writer.stop(10)
    with pytest.raises(StoreError):
        owned.ask(len)
