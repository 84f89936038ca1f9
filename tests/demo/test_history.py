"""The records of the demo's day, and live traffic after it."""

from functools import cache
from threading import Event

import msgspec
import pytest

from ragmon.clock import ManualClock
from ragmon.demo.application import FAST, STABLE, build_application
from ragmon.demo.history import history, live, plan_for
from ragmon.records import Feedback, QueryRecord

NOW = 1_750_000_000.0
QUERIES = 6_000


@cache
def application():
    return build_application(ManualClock())  # Every latency is 0: all else is deterministic.


@cache
def played():
    plan = plan_for(application(), now=NOW, seed=1)
    return plan, list(history(application(), plan, queries=QUERIES, batch=250))


def records():
    return [record for batch in played()[1] for record in batch.queries]


def share(values):
    values = list(values)
    assert values
    return sum(values) / len(values)


def test_a_day_is_whole_and_in_order():
    times = [record.timestamp for record in records()]
    assert len(times) == QUERIES
    assert times == sorted(times)
    assert NOW - 86_400 <= times[0] < times[-1] < NOW
    assert len({record.query_id for record in records()}) == QUERIES


def test_the_same_seed_plays_the_same_day():
    plan = plan_for(application(), now=NOW, seed=1)
    again = history(application(), plan, queries=QUERIES, batch=250)
    assert list(again) == played()[1]
    other = plan_for(application(), now=NOW, seed=2)
    assert next(history(application(), other, queries=QUERIES, batch=250)) != played()[1][0]


def test_of_several_days_the_last_alone_has_incidents():
    plan = plan_for(application(), now=NOW, seed=1)
    batches = list(history(application(), plan, queries=1_000, batch=250, days=2))
    asked = [record for batch in batches for record in batch.queries]
    times = [record.timestamp for record in asked]
    assert times == sorted(times)
    assert NOW - 2 * 86_400 <= times[0] < NOW - 86_400
    assert sum(at < NOW - 86_400 for at in times) == 1_000
    last = [record for record in asked if record.timestamp >= NOW - 86_400]
    assert len(last) == 1_000
    assert {record.version for record in asked[:1_000]} == {STABLE}
    assert {record.version for record in last} == {STABLE, FAST}


def test_records_and_feedback_survive_the_wire():
    batch = played()[1][3]
    assert batch.queries
    assert batch.feedback
    lines = msgspec.json.encode(batch.queries)
    assert msgspec.json.decode(lines, type=list[QueryRecord]) == batch.queries
    lines = msgspec.json.encode(batch.feedback)
    assert msgspec.json.decode(lines, type=list[Feedback]) == batch.feedback


def test_feedback_comes_after_its_query_and_only_once():
    asked = {record.query_id: record for record in records()}
    late = [rated for batch in played()[1] for rated in batch.feedback]
    assert len({rated.query_id for rated in late}) == len(late) > 100
    assert all(asked[rated.query_id].timestamp < rated.timestamp <= NOW for rated in late)
    assert all(asked[rated.query_id].feedback is None for rated in late)
    at_once = sum(record.feedback is not None for record in records())
    assert 0.15 < (len(late) + at_once) / QUERIES < 0.25


def test_ground_truth_is_known_or_left_out_but_never_empty():
    truths = [record.relevant_ids for record in records()]
    assert None in truths
    assert share(truth is not None for truth in truths) > 0.8
    assert [] not in truths


def test_the_outage_shows_as_zero_results_and_as_errors_by_channel():
    outage = played()[0].incidents.outage
    during = [r for r in records() if outage.start <= r.timestamp < outage.end]
    before = [r for r in records() if r.timestamp < outage.start]
    assert {(r.tags["channel"] == "api", r.error is not None) for r in during} == {
        (True, True),
        (False, False),
    }
    assert all(r.chunks == [] for r in during if r.error is None)
    assert all(r.chunks is None for r in during if r.error is not None)
    assert share(r.chunks == [] for r in before) < 0.02
    assert not any(r.error for r in before)


def test_the_rollout_meets_some_users_and_always_the_same():
    rollout = played()[0].incidents.rollout
    since = [r for r in records() if r.timestamp >= rollout.start]
    assert {r.version for r in records() if r.timestamp < rollout.start} == {STABLE}
    assert 0.15 < share(r.version == FAST for r in since) < 0.35
    fast = {r.user_id for r in since if r.version == FAST}
    assert fast.isdisjoint(r.user_id for r in since if r.version == STABLE)


def test_users_notice_the_bad_release():
    late = {rated.query_id: rated.rating for b in played()[1] for rated in b.feedback}
    rated = [(r.version, late.get(r.query_id, r.feedback)) for r in records()]
    pleased = {
        version: share(rating > 0 for v, rating in rated if v == version and rating is not None)
        for version in (STABLE, FAST)
    }
    assert pleased[STABLE] > pleased[FAST] + 0.25


@pytest.mark.parametrize("rate", [1.0, 5.0])
def test_live_traffic_keeps_its_rate_and_stops_when_told(rate):
    clock, stop, sent = ManualClock(NOW), Event(), []

    def send(batch):
        sent.append(batch)
        if len(sent) == 400:
            stop.set()

    live(application(), played()[0], send, clock, stop, rate=rate)
    assert len(sent) == 400
    assert 400 / (clock.now() - NOW) == pytest.approx(rate, rel=0.2)
    times = [batch.queries[0].timestamp for batch in sent]
    assert times == sorted(set(times))
    assert {batch.queries[0].version for batch in sent} == {STABLE, FAST}
    assert any(batch.feedback for batch in sent)
    ids = {record.query_id for record in records()}
    assert ids.isdisjoint(batch.queries[0].query_id for batch in sent)


def test_live_traffic_that_is_stopped_before_it_starts_sends_nothing():
    stop, sent = Event(), []
    stop.set()
    live(application(), played()[0], sent.append, ManualClock(NOW), stop)
    assert sent == []


class StopsAsleep(ManualClock):
    """Sets ``stop`` while live traffic sleeps for the third time."""

    def __init__(self, now, stop):
        super().__init__(now)
        self.naps = []
        self._stop = stop

    def sleep(self, seconds):
        self.naps.append(seconds)
        if len(self.naps) == 3:
            self._stop.set()
        super().sleep(seconds)


def test_live_traffic_notices_its_stop_within_a_nap():
    stop, sent = Event(), []
    clock = StopsAsleep(NOW, stop)
    live(application(), played()[0], sent.append, clock, stop, rate=0.001)
    assert sent == []
    assert len(clock.naps) == 3
    assert max(clock.naps) <= 0.25
