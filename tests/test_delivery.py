"""From the outbox to the sinks: nothing lost, in order per alert, none waits for another."""

import collections
import socket
import threading
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.clock import ManualClock, SystemClock
from ragmon.config import load
from ragmon.daemon import delivery
from ragmon.daemon.delivery import Delivery
from ragmon.daemon.lane import FIRST_WAIT_S, GROWTH, LONGEST_WAIT_S, Common, Lane, settle, wait_s
from ragmon.daemon.ledger import Ledger
from ragmon.daemon.routing import Route, build_routes, encode_event, notifications
from ragmon.errors import SettingsError, SinkError, StoreError
from ragmon.stores import Notification, Pending, Settled
from tests.support.alerts import NOW, alert, event, finding, story
from tests.support.stores import opened
from tests.support.wait import eventually

PENDING = Pending(1, "chat", "e-1", "e", NOW, b"", 0)


class Recorder:
    """A sink that fails as told."""

    def __init__(self, fail=lambda _: None):
        self.tried = []
        self.got = []
        self.fail = fail

    def deliver(self, told):
        self.tried.append(told.id)
        error = self.fail(told)
        if error is not None:
            raise error
        self.got.append(told.id)


class Tally(collections.Counter):
    def notified(self, sink, outcome, count=1):
        self[sink, outcome] += count


def at_once(function):
    """The store's thread, when it is this one."""
    done = Future()
    try:
        done.set_result(function())
    except StoreError as error:
        done.set_exception(error)
    return done


class Rig:
    """One lane over a real store, moved by hand."""

    def __init__(self, directory, sink, **route):
        self.clock = ManualClock(NOW)
        self.store = opened("sqlite", directory)
        self.outbox = self.store.outbox()
        self.tally = Tally()
        self.open = []
        self.sink = sink
        self.route = Route(name="chat", sink=sink, **route)
        common = Common(
            outbox=self.outbox,
            clock=self.clock,
            call=at_once,
            tally=self.tally,
            open_alerts=lambda: self.open,
        )
        self.lane = Lane(self.route, common)

    def put(self, *events):
        self.outbox.put(notifications(events, [self.route]))

    def run(self, seconds):
        """Steps as a thread would make them."""
        until = self.clock.now() + seconds
        while self.clock.now() <= until:
            self.clock.sleep(self.lane.step())

    def drain(self):
        """Steps until nothing waits; an hour must do."""
        until = self.clock.now() + 3_600.0
        self.lane.step()
        while self.lane.undelivered.length:
            assert self.clock.now() < until
            self.clock.sleep(self.lane.step())


@pytest.fixture
def rig(tmp_path):
    made = []

    def make(sink, **route):
        made.append(Rig(tmp_path, sink, **route))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


DOWN = SinkError("chat answered 503", retryable=True)
GONE = SinkError("chat answered 404: no such channel", retryable=False)


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


# ---- a lane ---------------------------------------------------------------------------------


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
    assert held.tally == {("chat", "delivered"): 5, ("chat", "retried"): 2}
    assert held.lane.undelivered.length == 0


def test_a_refusal_is_a_dead_letter_and_what_follows_goes_on(rig, caplog):
    first = story(1, 2)
    held = rig(Recorder(lambda told: GONE if told.change == "firing" else None))
    held.put(*first)
    held.run(10.0)
    assert held.sink.got == [first[1].id]
    [letter] = held.outbox.dead(5)
    assert (letter.event_id, letter.reason) == (first[0].id, str(GONE))
    assert held.tally == {("chat", "dead"): 1, ("chat", "delivered"): 1}


def test_a_receiver_that_stays_away_is_given_up(rig):
    held = rig(Recorder(lambda _: DOWN), give_up_after_s=7_200.0)
    held.put(story(1)[0])
    held.run(3 * 3_600.0)
    [letter] = held.outbox.dead(5)
    assert letter.reason == "given up after 2 h: chat answered 503"
    assert 7_200.0 < letter.buried_at - NOW < 7_200.0 + LONGEST_WAIT_S + 60.0
    assert 25 < letter.attempts < 60
    assert held.lane.undelivered == (0, None, 1)


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
    assert held.lane.step() == 0.0
    assert held.lane.step() == pytest.approx(wait_s(told.id, 1))


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
    assert letter.reason.startswith("defect: ")


class Fading(Recorder):
    repeat_every_s = 60.0

    def __init__(self, fail=lambda _: None):
        super().__init__(fail)
        self.repeated = []

    def repeat(self, alerts):
        self.repeated.append([each.fingerprint for each in alerts])
        if self.fail(None) is not None:
            raise self.fail(None)


def test_open_alerts_are_said_again(rig):
    held = rig(Fading(), pipelines=("docs",))
    held.run(57.0)
    assert held.sink.repeated == []
    held.open = [alert(), alert(finding(pipeline="other"))]
    held.run(130.0)
    assert held.sink.repeated == [[alert().fingerprint]] * 3  # at once, then each minute
    held.open = []
    held.run(180.0)
    assert len(held.sink.repeated) == 3


def test_a_slow_receiver_hears_of_what_is_open_between_the_news(rig):
    held = rig(Fading())
    held.sink.fail = lambda _: held.clock.sleep(2.0)
    held.open = [alert()]
    held.put(*(story(at)[0] for at in range(100)))
    held.run(190.0)
    assert len(held.sink.repeated) == 4
    assert len(held.sink.got) > 80


@pytest.mark.parametrize("error", [DOWN, KeyError("a defect")])
def test_that_it_cannot_be_said_again_ends_nothing(rig, error):
    held = rig(Fading(lambda _: error))
    held.open = [alert()]
    held.run(150.0)
    assert len(held.sink.repeated) == 3
    assert held.tally == {}


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


# ---- the ledger -----------------------------------------------------------------------------


class Slow:
    """An outbox whose writes end when told."""

    def __init__(self):
        self.batches = []
        self.futures = []

    def settle(self, outcomes):
        self.batches.append([each.number for each in outcomes])

    def call(self, function):
        function()
        self.futures.append(Future())
        return self.futures[-1]


def test_what_comes_during_a_write_goes_together_into_the_next():
    slow = Slow()
    ledger = Ledger(slow, slow.call)
    for number in range(4):
        ledger.add(Settled(number, "delivered", NOW))
    assert slow.batches == [[0]]
    slow.futures[0].set_result(None)
    ledger.add(Settled(4, "delivered", NOW))
    assert slow.batches == [[0], [1, 2, 3, 4]]
    slow.futures[1].set_exception(StoreError("no space left"))
    with pytest.raises(StoreError):
        ledger.flush()
    thread = threading.Thread(target=ledger.flush)
    thread.start()
    eventually(lambda: len(slow.futures) == 3)
    slow.futures[2].set_result(None)
    thread.join(10)
    assert slow.batches[2:] == [[1, 2, 3, 4]]


# ---- all lanes ------------------------------------------------------------------------------


class Office:
    """Delivery with threads, over a store that has a thread of its own."""

    def __init__(self, directory, routes):
        self.store = opened("sqlite", directory)
        self.lock = threading.Lock()
        self.tally = Tally()
        self.routes = routes
        self.delivery = Delivery(
            self.store.outbox(), routes, SystemClock(), call=self.call, tally=self.tally
        )

    def call(self, function):
        with self.lock:
            return at_once(function)

    def put(self, *events):
        self.call(lambda: self.store.outbox().put(notifications(events, self.routes))).result()
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
        [letter] = office.call(lambda: office.store.outbox().dead(5)).result()
        assert (letter.sink, letter.reason) == ("old", "the sink was removed")


# ---- which alerts go where ------------------------------------------------------------------


def test_routes_by_severity_and_pipeline():
    routes = [
        Route(name="all", sink=Recorder()),
        Route(name="page", sink=Recorder(), min_severity="critical"),
        Route(name="docs", sink=Recorder(), pipelines=("docs",)),
    ]
    grave = event(of=alert(finding(severity="critical", pipeline="shop")))
    mild = event(of=alert(finding(severity="warning", pipeline="docs")))
    unheard = event("pending").__class__(
        id="p", at=NOW, change="pending", notify=False, alert=alert()
    )
    rows = notifications([grave, unheard, mild], routes)
    assert [(row.sink, row.event_id) for row in rows] == [
        ("all", grave.id),
        ("page", grave.id),
        ("all", mild.id),
        ("docs", mild.id),
    ]
    assert rows[0].body == encode_event(grave)
    assert rows[0].fingerprint == grave.alert.fingerprint


def routes_of(sinks, **given):
    found = load(None, {"sinks": sinks, **given}, {}).settings
    return build_routes(found, ManualClock(NOW), 8321)


def test_sinks_are_built_from_settings():
    [chat, page] = routes_of(
        "[{kind: stdout}, {kind: stdout, name: page, min_severity: critical, pipelines: docs,"
        " give_up_after: 2h, format: json}]",
        external_url="https://ragmon.example.org",
    )
    assert (chat.name, chat.min_severity, chat.pipelines) == ("stdout", "info", ())
    assert chat.give_up_after_s == 86_400.0
    assert (page.name, page.min_severity, page.pipelines) == ("page", "critical", ("docs",))
    assert page.give_up_after_s == 7_200.0


@pytest.mark.parametrize(
    ("given", "link"),
    [
        ({}, "http://127.0.0.1:8321/#alert-"),
        ({"host": "::1"}, "http://[::1]:8321/#alert-"),
        ({"host": "0.0.0.0"}, f"http://{socket.gethostname()}:8321/#alert-"),
        ({"external_url": "https://ragmon.example.org/x/"}, "https://ragmon.example.org/x/#alert-"),
    ],
)
def test_links_lead_to_where_people_reach_it(given, link, capsys):
    [route] = routes_of("[{kind: stdout}]", **given)
    route.sink.deliver(event())
    assert f"Open in ragmon: {link}{alert().fingerprint}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        ("[{kind: slak}]", "sinks.0: unknown kind 'slak'. Did you mean slack?"),
        ("[{kind: stdout}, {kind: stdout}]", "another sink called 'stdout'"),
        (
            "[{kind: stdout, formt: json}]",
            "sinks.0.formt: unknown option; did you mean `format`?",
        ),
        ("[{kind: stdout, colour: no}]", "sinks.0.colour: unknown option; known are format"),
        ("[{kind: stdout, name: 'a b'}]", "sinks.0.name"),
        ("[{kind: slack}]", "exactly one of webhook_url, webhook_url_file and webhook_url_env"),
        ("[{kind: stdout, min_severity: high}]", "'info', 'warning' or 'critical'"),
        ("[{kind: slack, webhook_url_file: /no/such}]", "sinks.0.webhook_url_file: cannot read"),
        ("[{kind: pagerduty, routing_key_env: NO_SUCH}]", "sinks.0.routing_key_env: the variable"),
    ],
)
def test_settings_that_cannot_be_used(sinks, problem):
    with pytest.raises(SettingsError, match=problem):
        routes_of(sinks)
