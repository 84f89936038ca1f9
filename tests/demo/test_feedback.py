"""What the simulated users say."""

from random import Random

import pytest

from ragmon.demo.application import ServedQuery
from ragmon.demo.feedback import RATED, PendingFeedback, opinion
from ragmon.demo.questions import KnownQuestion
from ragmon.records import Latency


def opinions(relevant, used, n=4000):
    question = KnownQuestion("?", "howto", relevant)
    outcome = ServedQuery(Latency(), "m", used=used)
    rng = Random(7)
    return [opinion(rng, question, outcome) for _ in range(n)]


@pytest.mark.parametrize(
    ("relevant", "used", "low", "high"),
    [
        pytest.param(frozenset("a"), frozenset("ab"), 0.85, 0.97, id="helped: mostly pleased"),
        pytest.param(frozenset("a"), frozenset("b"), 0.05, 0.2, id="wrong chunk: mostly not"),
        pytest.param(None, frozenset("b"), 0.05, 0.2, id="nothing answers it: mostly not"),
    ],
)
def test_pleasure_follows_the_truth(relevant, used, low, high):
    given = [said.rating for said in opinions(relevant, used) if said]
    assert {-1.0, 1.0} == set(given)
    assert low < given.count(1.0) / len(given) < high


def test_few_rate_and_some_of_them_late():
    given = [said for said in opinions(frozenset("a"), frozenset("a")) if said]
    assert len(given) / 4000 == pytest.approx(RATED, abs=0.03)
    assert 0.2 < sum(said.at_once for said in given) / len(given) < 0.6


def test_pending_ratings_come_once_and_in_order():
    pending = PendingFeedback()
    for query_id, at in [("b", 20.0), ("a", 10.0), ("c", 30.0)]:
        pending.add(query_id, 1.0, at)
    assert [rated.query_id for rated in pending.due(20.0)] == ["a", "b"]
    assert pending.due(20.0) == []
    assert [rated.timestamp for rated in pending.due(99.0)] == [30.0]
