"""Examples of alerts are looked up within a limit of time a turn, the first ones first."""

import pytest
from msgspec.structs import replace

from ragmon.alerts import DrivingTopic, Evidence, MissingDocuments, WorstQuery
from ragmon.alerts.timeline import Examples
from ragmon.clock import ManualClock
from ragmon.daemon.alerting.driving_topics import TopicLookup
from ragmon.daemon.alerting.example_search import LOOK_UP_S, ExampleSearch
from ragmon.daemon.alerting.missing_documents import DocumentLookup
from ragmon.errors import StoreError
from tests.daemon.alerting.test_worst_queries import alert

WORST = (WorstQuery("q1"),)
REFUNDS = (DrivingTopic(("refund", "deadline"), 0.91, 0.08, 40),)
GONE = MissingDocuments(1, 30, ("kb-1",))


class Shelf:
    """The searches; each takes its time, those after the first in turns."""

    def __init__(self, clock, worst_s=0.0, missing_s=0.0):
        self.clock, self.worst_s, self.missing_s = clock, worst_s, missing_s
        self.asked = []
        self.left = {}
        self.error = None

    def find(self, of, has_time):
        """Worst queries."""
        if self.error is not None:
            raise self.error
        self.asked.append(of.episode)
        self.clock.sleep(self.worst_s)
        return WORST


class Documents(Shelf):
    def find(self, of, has_time):
        left = self.left.setdefault(of.episode, self.missing_s)
        while left > 1e-9 and has_time():
            self.clock.sleep(0.1)
            left -= 0.1
        self.left[of.episode] = left
        return DocumentLookup(state="waiting") if left > 1e-9 else DocumentLookup(GONE)


class Topics(Documents):
    def find(self, of, has_time):
        looked_up = super().find(of, has_time)
        if looked_up.state == "waiting":
            return TopicLookup(state="waiting")
        return TopicLookup(REFUNDS)


def shown(number, **fields):
    one = alert("hit", dimension="tenant", value=f"t{number}")
    return replace(one, evidence=Evidence(sentence="x"), **fields)


def built(worst_s=0.0, missing_s=0.0, topics_s=0.0, **limits):
    clock = ManualClock(0.0)
    worst, documents = Shelf(clock, worst_s), Documents(clock, missing_s=missing_s)
    topics = Topics(clock, missing_s=topics_s)
    return ExampleSearch(worst, documents, topics, clock, **limits), worst, clock


def turn(searched, clock, *alerts):
    """One turn, which is over in time."""
    began = clock.monotonic()
    examples = searched.look_up(alerts, lambda: False)
    assert clock.monotonic() - began <= LOOK_UP_S + 0.1 + 1e-9
    return examples


def test_what_is_found_in_time_is_told_with_the_alert():
    searched, _, clock = built(0.05, 0.2)
    one = shown(1)
    assert turn(searched, clock, one) == {one.episode: Examples(WORST, GONE, "done", REFUNDS)}
    assert searched.waiting == 0


def test_documents_that_take_longer_follow_in_a_later_turn():
    searched, _, clock = built(0.1, 1.2)
    one = shown(1)
    assert turn(searched, clock, one) == {one.episode: Examples(WORST, None, "waiting")}
    later = []
    while searched.waiting:
        later.append(turn(searched, clock))
    assert later == [{}, {one.episode: Examples(WORST, GONE, "done", REFUNDS)}]


def test_topics_that_take_longer_follow_the_documents():
    searched, _, clock = built(0.1, 0.2, 1.2)
    one = shown(1)
    assert turn(searched, clock, one) == {one.episode: Examples(WORST, GONE, "waiting")}
    later = []
    while searched.waiting:
        later.append(turn(searched, clock))
    assert [each for each in later if each] == [
        {one.episode: Examples(WORST, GONE, "done", REFUNDS)}
    ]


def test_twenty_alerts_at_once_delay_none_by_more_than_the_limit():
    searched, _, clock = built(0.05, 2.6)
    alerts = [shown(number) for number in range(20)]
    first = turn(searched, clock, *alerts)
    assert {known.lookup for known in first.values()} == {"waiting"}
    assert len(first) == 20
    turns, last = 1, dict(first)
    while searched.waiting:
        last |= turn(searched, clock)
        turns += 1
    assert set(last.values()) == {Examples(WORST, GONE, "done", REFUNDS)}
    assert turns <= 20 * 2.6 / LOOK_UP_S + 10


def test_alerts_that_lead_incidents_come_first():
    searched, worst, clock = built(0.2)
    others = [shown(number) for number in range(5)]
    lead = shown(9, leads=True)
    turn(searched, clock, *others, lead)
    assert worst.asked[0] == lead.episode


def test_a_slow_search_gets_one_turn_for_itself():
    searched, worst, clock = built(LOOK_UP_S + 0.05)
    alerts = [shown(number) for number in range(3)]
    known = {}
    turn(searched, clock, *alerts)
    for _ in range(8):
        known |= turn(searched, clock)
    assert [known[each.episode].lookup for each in alerts] == ["part"] * 3
    assert len(worst.asked) == 6  # each once in what was left of a turn, or the first time


@pytest.mark.parametrize("ending", [False, True])
def test_one_that_cannot_be_looked_up_says_so(ending):
    searched, worst, clock = built()
    one = shown(1)
    if ending:
        assert searched.look_up([one], lambda: True) == {one.episode: Examples(lookup="waiting")}
    else:
        worst.error = StoreError("gone")
        assert turn(searched, clock, one) == {one.episode: Examples(lookup="skipped")}


def test_no_more_than_so_many_wait():
    searched, _, _ = built(1.0, most_waiting=2)
    alerts = [shown(number) for number in range(3)]
    known = searched.look_up(alerts, lambda: True)
    assert [known[each.episode].lookup for each in alerts] == ["waiting", "waiting", "skipped"]
