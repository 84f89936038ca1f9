"""One sink worker: nothing lost, in order per alert, no storm of retries."""

import collections
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.clock import ManualClock
from ragmon.daemon.notify.routing import Route, notifications
from ragmon.daemon.notify.sink_worker import (
    FIRST_WAIT_S,
    GROWTH,
    LONGEST_WAIT_S,
    DeliveryContext,
    SinkWorker,
    settle,
    wait_s,
)
from ragmon.errors import SettingsError, SinkError, StoreError
from ragmon.stores.protocols import Notification, PendingNotification, Settled
from tests.support.alerts import NOW, alert, finding, notice, story
from tests.support.delivery import DOWN, GONE, OutcomeCounter, Recorder
from tests.support.stores import opened
from tests.support.threads import bound

PENDING = PendingNotification(1, "chat", "e-1", "e", NOW, b"", 0)


class Rig:
    """One worker over a real store, moved by hand."""

    def __init__(self, directory, sink, **route):
        self.clock = ManualClock(NOW)
        self.store = opened("sqlite", directory)
        self.outbox = self.store.state.outbox()
        self.counters = OutcomeCounter()
        self.open = []
        self.doubted = False
        self.sink = sink
        self.route = Route(name="chat", sink=sink, **route)
        common = DeliveryContext(
            outbox=bound(self.outbox),
            clock=self.clock,
            counters=self.counters,
            open_incidents=lambda: self.open,
            is_doubted=lambda: self.doubted,
        )
        self.worker = SinkWorker(self.route, common)

    def put(self, *events):
        self.outbox.put(notifications(events, [self.route]))

    def run(self, seconds):
        """Steps as a thread would make them."""
        until = self.clock.now() + seconds
        while self.clock.now() <= until:
            self.clock.sleep(self.worker.step())

    def drain(self):
        """Steps until nothing waits; an hour must do."""
        until = self.clock.now() + 3_600.0
        self.worker.step()
        while self.worker.undelivered.length:
            assert self.clock.now() < until
            self.clock.sleep(self.worker.step())


@pytest.fixture
def rig(tmp_path):
    made = []

    def make(sink, **route):
        made.append(Rig(tmp_path, sink, **route))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


# ---- when to try again ----------------------------------------------------------------------


def test_waits_grow_up_to_five_minutes():
    waits = [wait_s("e-1", attempts) for attempts in range(1, 40)]
    for attempts, wait in enumerate(waits):
        longest = min(FIRST_WAIT_S * GROWTH**attempts, LONGEST_WAIT_S)
        assert longest / 2 <= wait <= longest
    assert waits[-1] > LONGEST_WAIT_S / 2
    assert wait_s("e-1", 10**6) <= LONGEST_WAIT_S


def test_what_failed_together_does_not_come_back_together():
    waits = {wait_s(f"e-{at}", 3) for at in range(100)}
    assert len(waits) == 100
    longest = FIRST_WAIT_S * GROWTH**2
    assert max(waits) - min(waits) > 0.9 * longest / 2


@pytest.mark.parametrize(
    ("error", "age", "fate", "due", "reason"),
    [
        (GONE, 0.0, "dead", 0.0, "chat answered 404: no such channel"),
        (DOWN, 0.0, "retried", wait_s("e-1", 1), "chat answered 503"),
        (DOWN, 3_601.0, "dead", 0.0, "given up after 1 h: chat answered 503"),
        (
            SinkError("slow down", retryable=True, retry_after_s=90.0),
            0.0, "retried", 90.0, "slow down",
        ),
        (
            SinkError("slow down", retryable=True, retry_after_s=1e9),
            0.0, "retried", 3_600.0, "slow down",
        ),
    ],
)  # fmt: skip
def test_what_becomes_of_a_failure(error, age, fate, due, reason):
    now = NOW + age
    assert settle(PENDING, error, 3_600.0, now) == Settled(1, fate, now + due, reason)


def test_nothing_is_given_up_while_the_clock_is_doubted():
    settled = settle(PENDING, DOWN, 3_600.0, NOW + 8 * 86_400.0, is_doubted=True)
    assert settled.fate == "retried"
    assert settle(PENDING, GONE, 3_600.0, NOW, is_doubted=True).is_doubted


# ---- a worker -------------------------------------------------------------------------------


def test_an_alert_is_told_in_order_and_others_go_past_it(rig):
    first, second = story(1, 3), story(2, 2)
    failing = {first[0].id: 2}  # fails twice

    def fail(told):
        failing[told.id] = failing.get(told.id, 0) - 1
        return DOWN if failing[told.id] >= 0 else None

    held = rig(Recorder(fail))
    held.put(*first, *second)
    held.run(30.0)
    assert held.sink.got[:2] == [second[0].id, second[1].id]
    assert held.sink.got[2:] == [each.id for each in first]
    assert held.counters == {("chat", "delivered"): 5, ("chat", "retried"): 2}
    assert held.worker.undelivered.length == 0


def test_a_refusal_is_a_dead_letter_and_what_follows_goes_on(rig, caplog):
    first = story(1, 2)
    held = rig(Recorder(lambda told: GONE if told.change == "opened" else None))
    held.put(*first)
    held.run(10.0)
    assert held.sink.got == [first[1].id]
    [letter] = held.outbox.dead(5)
    assert (letter.event_id, letter.reason) == (first[0].id, str(GONE))
    assert held.counters == {("chat", "dead"): 1, ("chat", "delivered"): 1}


def test_a_receiver_that_stays_away_is_given_up(rig):
    held = rig(Recorder(lambda _: DOWN), give_up_after_s=7_200.0)
    held.put(story(1)[0])
    held.run(3 * 3_600.0)
    [letter] = held.outbox.dead(5)
    assert letter.reason == "given up after 2 h: chat answered 503"
    assert 7_200.0 < letter.buried_at - NOW < 7_200.0 + LONGEST_WAIT_S + 60.0
    assert 25 < letter.attempts < 60
    assert held.worker.undelivered == (0, None, 1)


def test_a_dead_receiver_is_asked_seldom_and_found_again_soon(rig):
    held = rig(Recorder(lambda _: DOWN))
    held.put(*(story(at)[0] for at in range(200)))
    held.run(3_600.0)
    assert len(held.sink.tried) < 200
    held.sink.fail = lambda _: None
    held.run(90.0)
    assert len(held.sink.got) > 100
    held.run(LONGEST_WAIT_S)
    assert sorted(held.sink.got) == sorted(story(at)[0].id for at in range(200))


def test_a_lane_that_gets_something_through_does_not_pause(rig):
    """Every second attempt fails: never five in a row, however long it goes on."""
    turn = iter(range(10**6))
    held = rig(Recorder(lambda _: DOWN if next(turn) % 2 else None))
    held.put(*(story(at)[0] for at in range(60)))
    held.run(0.3)
    assert len(set(held.sink.tried)) == 60


def test_a_lane_wakes_when_the_next_is_due(rig):
    held = rig(Recorder(lambda _: DOWN))
    told = story(1)[0]
    held.put(told)
    assert held.worker.step() == 0.0
    assert held.worker.step() == pytest.approx(wait_s(told.id, 1))


def test_a_receiver_that_asks_for_patience_gets_it(rig):
    asked = SinkError("429", retryable=True, retry_after_s=120.0)
    held = rig(Recorder(lambda _: asked))
    held.put(*(story(at)[0] for at in range(5)))
    held.run(119.0)
    assert len(held.sink.tried) == 1  # none of the others either
    held.sink.fail = lambda _: None
    held.run(2.0)
    assert len(held.sink.got) == 5


def test_a_secret_that_cannot_be_read_waits_for_it(rig):
    held = rig(Recorder(lambda _: SettingsError("token_file: cannot read /run/secrets/token")))
    held.put(story(1)[0])
    held.run(10.0)
    held.sink.fail = lambda _: None
    held.run(30.0)
    assert len(held.sink.got) == 1


@pytest.mark.parametrize(
    "broken", [pytest.param(True, id="an unreadable body"), pytest.param(False, id="a defect")]
)
def test_a_message_that_cannot_be_made_does_not_end_the_lane(rig, broken, capsys):
    defect = KeyError("no such fact")
    held = rig(Recorder(lambda told: None if told.alert.key.stream.value == "t2" else defect))
    if broken:
        held.outbox.put([Notification("chat", "x-1", "x", NOW, b"\xc1")])
    else:
        held.put(story(1)[0])
    held.put(story(2)[0])
    held.run(1.0)
    assert held.sink.got == [story(2)[0].id]
    [letter] = held.outbox.dead(5)
    assert re.fullmatch(r"internal error \(\w+\); see the log", letter.reason)


class Fading(Recorder):
    repeat_every_s = 60.0

    def __init__(self, fail=lambda _: None):
        super().__init__(fail)
        self.repeated = []

    def repeat(self, notices):
        self.repeated.append([each.alert.fingerprint for each in notices])
        if self.fail(None) is not None:
            raise self.fail(None)


def test_open_alerts_are_said_again(rig):
    held = rig(Fading(), pipelines=("docs",))
    held.run(57.0)
    assert held.sink.repeated == []
    held.open = [notice(), notice(of=alert(finding(pipeline="other")))]
    held.run(130.0)
    assert held.sink.repeated == [[alert().fingerprint]] * 3  # at once, then each minute
    held.open = []
    held.run(180.0)
    assert len(held.sink.repeated) == 3


def test_a_slow_receiver_hears_of_what_is_open_between_the_news(rig):
    held = rig(Fading())
    held.sink.fail = lambda _: held.clock.sleep(2.0)
    held.open = [notice()]
    held.put(*(story(at)[0] for at in range(100)))
    held.run(190.0)
    assert len(held.sink.repeated) == 4
    assert len(held.sink.got) > 80


@pytest.mark.parametrize("error", [DOWN, KeyError("a defect")])
def test_that_it_cannot_be_said_again_ends_nothing(rig, error):
    held = rig(Fading(lambda _: error))
    held.open = [notice()]
    held.run(150.0)
    assert len(held.sink.repeated) == 3
    assert held.counters == {}


def test_a_store_that_refuses_repeats_nothing(rig, monkeypatch):
    """What could not be written down is written first; until then nothing more is taken."""
    held = rig(Recorder())
    held.put(*story(1, 3))
    settle = held.outbox.settle

    def full(_):
        raise StoreError("no space left")

    monkeypatch.setattr(held.outbox, "settle", full)
    held.run(30.0)
    assert len(held.sink.tried) == 1
    monkeypatch.setattr(held.outbox, "settle", settle)
    held.run(5.0)
    assert held.sink.tried == held.sink.got == [each.id for each in story(1, 3)]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40),
    st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_whatever_fails_each_alert_arrives_whole_and_in_order(tmp_path_factory, puts, faults):
    """Faults in any pattern, notifications that come in between: at least once, in order."""
    turn = iter(range(10**9))
    sink = Recorder()
    sink.fail = lambda told: (
        DOWN if faults[next(turn) % len(faults)] and sink.tried.count(told.id) <= 3 else None
    )
    rig = Rig(tmp_path_factory.mktemp("law"), sink)
    numbers, expected = collections.Counter(), collections.defaultdict(list)
    for number, pause in puts:
        told = story(number, 42)[numbers[number]]
        numbers[number] += 1
        rig.put(told)
        expected[told.alert.fingerprint].append(told.id)
        if pause:
            rig.run(1.0)
    rig.drain()
    got = collections.defaultdict(list)
    for each in sink.got:
        got[each.split("-")[0]].append(each)
    assert got == expected
    rig.store.close()
