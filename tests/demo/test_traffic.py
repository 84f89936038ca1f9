"""Who asks what, and when."""

from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from ragmon.demo.incidents import incidents, recurring
from ragmon.demo.questions import KnownQuestion
from ragmon.demo.traffic import DAY_S, asks, day, steady

NOW = 1_750_000_200.0  # a whole ten minutes, as incidents begin
QUESTIONS = [KnownQuestion(f"question {n}", "howto") for n in range(50)]


def test_a_day_is_in_order_and_busier_in_the_afternoon():
    times = day(Random(1), now=NOW, queries=20_000)
    assert len(times) == 20_000
    assert times == sorted(times)
    assert NOW - DAY_S <= times[0] < times[-1] < NOW
    hours = Counter(int(at % DAY_S // 3600) for at in times)
    assert hours[14] > 3 * hours[2]


def test_steady_traffic_has_its_rate():
    times = list(islice(steady(Random(1), start=100.0, rate=5.0), 5000))
    assert all(earlier < later for earlier, later in pairwise([100.0, *times]))
    assert (times[-1] - 100.0) / 5000 == pytest.approx(0.2, rel=0.05)


def test_the_same_chance_gives_the_same_traffic():
    first, second = (list(asks(Random(3), range(500), QUESTIONS)) for _ in range(2))
    assert first == second
    assert list(asks(Random(4), range(500), QUESTIONS)) != first


def test_users_return_and_keep_their_place_and_tenant():
    of_user = {}
    for ask in asks(Random(3), range(5000), QUESTIONS):
        of_user.setdefault(ask.visit.user, set()).add((ask.visit.place, ask.visit.tenant))
    assert len(of_user) > 300
    assert all(len(fixed) == 1 for fixed in of_user.values())


def test_a_visit_is_one_user_on_one_channel_and_often_more_than_one_question():
    visits = Counter(ask.visit for ask in asks(Random(3), range(5000), QUESTIONS))
    assert len({visit.session for visit in visits}) == len(visits)
    assert 1.5 < 5000 / len(visits) < 4.0


def test_some_questions_are_asked_far_more_often():
    counts = Counter(ask.question.query for ask in asks(Random(3), range(5000), QUESTIONS))
    ordered = counts.most_common()
    assert len(ordered) == len(QUESTIONS)
    assert ordered[0][1] > 3 * ordered[-1][1]


def test_trace_ids_are_unique():
    assert len({ask.trace_id for ask in asks(Random(3), range(5000), QUESTIONS)}) == 5000


@pytest.mark.parametrize(
    ("name", "hours_ago", "place", "expected"),
    [
        pytest.param("outage", 8.1, 0.0, False, id="before the outage"),
        pytest.param("outage", 7.9, 0.99, True, id="the outage meets everyone"),
        pytest.param("outage", 7.0, 0.0, False, id="the outage is over"),
        pytest.param("rollout", 3.1, 0.0, False, id="before the rollout"),
        pytest.param("rollout", 2.9, 0.1, True, id="the rollout meets some"),
        pytest.param("rollout", 2.9, 0.3, False, id="and not the others"),
        pytest.param("rollout", -5.0, 0.1, True, id="the rollout goes on"),
    ],
)
def test_when_and_whom_an_incident_meets(name, hours_ago, place, expected):
    incident = getattr(incidents(NOW), name)
    assert incident.meets(NOW - 3600.0 * hours_ago, place) is expected


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param(1, False, id="live traffic begins calmly"),
        pytest.param(3, True, id="the index goes"),
        pytest.param(8, False, id="and comes back"),
        pytest.param(21, False, id="not yet again"),
        pytest.param(23, True, id="again"),
        pytest.param(203, True, id="and again"),
        pytest.param(-8 * 60 + 5, False, id="yesterday's belongs to the history"),
    ],
)
def test_the_outage_of_live_traffic_recurs(minutes, expected):
    outage = recurring(incidents(NOW), NOW, every=1_200.0).outage
    assert outage.meets(NOW + 60.0 * minutes, 0.5) is expected
    assert incidents(NOW).rollout == recurring(incidents(NOW), NOW, every=1_200.0).rollout
