"""Queries written to a topic: what is answered, when, and what nobody is promised."""

import msgspec
import pytest

from ragmon.clock import ManualClock
from ragmon.decode import Decoder
from ragmon.errors import OverloadedError, RemoteError
from ragmon.event_time import Bounds
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from ragmon.sources.kafka.producer import MessageTooLargeError
from ragmon.sources.kafka.producing import TopicWriter
from tests.support.examples import NOON, record

DOWN = RemoteError("no broker answers", hint="Check brokers")


class FakeTopic:
    """Brokers whose answers a test decides."""

    def __init__(self, clock):
        self._clock = clock
        self.messages = []  # (key, value, function that tells the outcome)
        self.room = 1_000
        self.is_broken = False
        self.trouble = None

    def send(self, key, value, done):
        if len(self.messages) >= self.room:
            return False
        self.messages.append((key, value, done))
        return True

    def poll(self, timeout_s):
        """Deliver the oldest where there is room for no more; otherwise nothing comes."""
        self._clock.sleep(timeout_s)
        if len(self.messages) >= self.room:
            self.end(0)

    def check(self):
        if self.trouble:
            raise self.trouble

    def end(self, at, error=None):
        self.messages.pop(at)[2](error)


class Site:
    def __init__(self, **options):
        self.clock = ManualClock(NOON)
        self.topic = FakeTopic(self.clock)
        self.connected = 0
        self.outcomes = []
        self.seconds = []
        self.writer = TopicWriter(
            self.connect, options.pop("admit", lambda each: each), self.clock,
            queue_bytes=1_000, on_batch=self.seconds.append,
        )  # fmt: skip

    def connect(self):
        self.connected += 1
        self.topic.is_broken = False
        return self.topic

    def submit(self, *ids, size_bytes=10):
        records = [record(query_id) for query_id in ids]
        self.writer.submit(Submission("http", size_bytes, self.outcomes.append, records=records))

    def send(self, *ids):
        self.submit(*ids)
        self.writer.step()


@pytest.fixture
def site():
    return Site()


def test_a_batch_is_answered_once_the_last_of_its_queries_is_in_the_topic(site):
    site.send("a", "b")
    assert [key for key, _, _ in site.topic.messages] == [b"a", b"b"]
    site.topic.end(1)
    assert site.outcomes == []
    site.clock.sleep(0.5)
    site.topic.end(0)
    [outcome] = site.outcomes
    assert (outcome.accepted, outcome.duplicates, outcome.error) == (2, 0, None)
    assert site.seconds == [pytest.approx(0.52)]
    assert site.writer.produced == {"delivered": 2, "failed": 0, "too_large": 0}


def test_a_message_is_the_query_as_it_may_be_stored():
    site = Site(admit=lambda each: msgspec.structs.replace(each, answer="redacted"))
    site.send("a")
    [(_, value, _)] = site.topic.messages
    read = Decoder(QueryRecord)(value, NOON, Bounds(0.0, NOON + 1.0))
    assert read == msgspec.structs.replace(record("a"), answer="redacted")


def test_where_one_query_fails_nothing_of_its_batch_is_promised(site):
    site.send("a", "b")
    site.send("c")
    site.topic.end(1, DOWN)
    site.topic.end(0)
    assert "no broker answers. Check brokers" in str(site.outcomes[0].error)
    assert site.outcomes[0].error.reason == "log_error"
    site.topic.end(0)
    assert site.outcomes[1].accepted == 1
    assert site.writer.produced == {"delivered": 2, "failed": 1, "too_large": 0}


def test_a_query_without_room_in_the_topic_is_refused_and_the_others_kept(site):
    site.send("a", "b", "c")
    site.topic.end(1, MessageTooLargeError("too large"))
    site.topic.end(0)
    site.topic.end(0)
    [outcome] = site.outcomes
    assert (outcome.accepted, outcome.refused) == (2, [(1, "too_large_for_topic")])
    assert site.writer.last_error is None


def test_while_brokers_are_down_senders_are_told_at_once(site):
    site.send("a")
    site.topic.end(0, DOWN)
    assert site.writer.last_error is DOWN
    assert site.writer.failing_since == pytest.approx(NOON, abs=1.0)
    site.topic.trouble = DOWN
    site.submit("b")
    with pytest.raises(RemoteError):
        site.writer.step()
    assert str(site.outcomes[1].error).startswith("no broker answers")
    assert site.topic.messages == []
    site.topic.trouble = None
    assert site.writer.step() > 0.0
    assert site.writer.last_error is None
    site.send("b")
    site.topic.end(0)
    assert site.outcomes[2].accepted == 1


def test_a_producer_that_can_send_no_more_is_replaced_once_nothing_is_under_way(site):
    site.send("a", "b")
    site.topic.is_broken = True
    site.send("c")
    assert site.connected == 1
    for _ in range(3):
        site.topic.end(0, DOWN)
    site.send("d")
    assert site.connected == 2


def test_a_queue_that_is_full_refuses_and_takes_more_later(site):
    site.submit("a", size_bytes=2_000)  # one at least
    with pytest.raises(OverloadedError):
        site.submit("b")
    site.writer.step()
    site.topic.end(0)
    site.submit("b")


def test_more_messages_than_the_client_holds_wait_for_room(site):
    site.topic.room = 2
    site.send(*"abcde")
    while site.topic.messages:
        site.topic.end(0)
    assert site.outcomes[0].accepted == 5


def test_a_query_that_cannot_be_encoded_costs_its_batch_alone(site):
    broken = Site(admit=lambda each: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        broken.send("a")
    assert broken.outcomes[0].error is not None
    assert broken.writer.step() > 0.0


def test_at_the_end_everybody_is_answered(site):
    site.submit("a")
    site.writer.start()
    site.writer.stop()
    assert site.outcomes[0].error is not None
    with pytest.raises(OverloadedError):
        site.submit("b")
