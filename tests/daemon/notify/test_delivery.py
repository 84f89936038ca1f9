"""All sinks together: none waits for another, and writes go together."""

import threading
from concurrent.futures import Future

import pytest

from ragmon.clock import SystemClock
from ragmon.daemon.notify import delivery
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.notify.outbox_writer import OutboxWriter
from ragmon.daemon.notify.routing import Route, notifications
from ragmon.errors import StoreError
from ragmon.stores.protocols import Settled
from ragmon.threads import WriterThread
from tests.support.alerts import NOW, story
from tests.support.delivery import DOWN, OutcomeCounter, Recorder
from tests.support.stores import opened
from tests.support.wait import eventually

# ---- the outbox writer ----------------------------------------------------------------------


class Slow:
    """An outbox whose writes end when told."""

    def __init__(self):
        self.batches = []
        self.futures = []

    def settle(self, outcomes):
        self.batches.append([each.number for each in outcomes])

    def submit(self, function):
        function(self)
        self.futures.append(Future())
        return self.futures[-1]


def test_what_comes_during_a_write_goes_together_into_the_next():
    slow = Slow()
    writer = OutboxWriter(slow)
    for number in range(4):
        writer.add(Settled(number, "delivered", NOW))
    assert slow.batches == [[0]]
    slow.futures[0].set_result(None)
    writer.add(Settled(4, "delivered", NOW))
    assert slow.batches == [[0], [1, 2, 3, 4]]
    slow.futures[1].set_exception(StoreError("no space left"))
    with pytest.raises(StoreError):
        writer.flush()
    thread = threading.Thread(target=writer.flush)
    thread.start()
    eventually(lambda: len(slow.futures) == 3)
    slow.futures[2].set_result(None)
    thread.join(10)
    assert slow.batches[2:] == [[1, 2, 3, 4]]


# ---- all sinks ------------------------------------------------------------------------------


class Office:
    """Delivery with threads, over a store that has a thread of its own."""

    def __init__(self, directory, routes):
        self.store = opened("sqlite", directory)
        self.lock = threading.Lock()
        self.outbox = WriterThread(self.run, threading.main_thread).bind(self.store.state.outbox())
        self.counters = OutcomeCounter()
        self.routes = routes
        self.delivery = Delivery(self.outbox, routes, SystemClock(), counters=self.counters)

    def run(self, call):
        with self.lock:
            call()

    def put(self, *events):
        self.outbox.submit(lambda outbox: outbox.put(notifications(events, self.routes))).result()
        self.delivery.wake()

    def __enter__(self):
        self.delivery.start()
        return self

    def __exit__(self, *_):
        self.delivery.stop()
        self.store.close()


def test_a_sink_that_hangs_holds_up_no_other(tmp_path):
    release = threading.Event()
    hanging, quick = Recorder(lambda _: release.wait(20) and None), Recorder()
    routes = [Route(name="hangs", sink=hanging), Route(name="quick", sink=quick)]
    with Office(tmp_path, routes) as office:
        told = [each for number in range(20) for each in story(number)]
        office.put(*told)
        eventually(lambda: len(quick.got) == len(told), "the quick sink has everything")
        assert hanging.got == []
        assert len(hanging.tried) == 1
        release.set()
        eventually(lambda: len(hanging.got) == len(told), "the other one too")
        eventually(lambda: office.delivery.undelivered.length == 0)
    assert office.delivery.oldest_s() == 0.0


def test_it_ends_although_a_sink_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "_STOP_S", 0.1)
    release = threading.Event()
    hanging = Recorder(lambda _: release.wait(20) and None)
    with Office(tmp_path, [Route(name="hangs", sink=hanging)]) as office:
        office.put(story(1)[0])
        eventually(lambda: hanging.tried)
        clock = SystemClock()
        began = clock.monotonic()
        office.delivery.stop()
        assert clock.monotonic() - began < 1.0
        release.set()


def test_notifications_of_removed_sinks_are_buried(tmp_path):
    with Office(tmp_path, [Route(name="old", sink=Recorder(lambda _: DOWN))]) as office:
        office.put(story(1)[0])
    with Office(tmp_path, [Route(name="new", sink=Recorder())]) as office:
        eventually(lambda: office.delivery.undelivered.dead == 1)
        [letter] = office.outbox.submit(lambda outbox: outbox.dead(5)).result()
        assert (letter.sink, letter.reason) == ("old", "the sink was removed")
