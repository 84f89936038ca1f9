"""Topics that grow, by the scatter of the days before."""

import numpy as np
import pytest

from ragmon.topics.growth import GROWN, growths


def week(seed: int, *, doubled: bool, scatter: float = 0.15, a_day: int = 2_000):
    """Queries of 50 topics on seven days; the share of each scatters from day to day."""
    chance = np.random.default_rng(seed)
    shares = chance.dirichlet(np.full(50, 2.0))
    shares[0] = 0.02
    days = []
    for day in range(7):
        today = shares * np.exp(scatter * chance.normal(size=50))
        if doubled and day == 6:
            today[0] *= 2.0
        days.append(chance.multinomial(a_day, today / today.sum()))
    queries = np.array(days, dtype=float).T
    return queries, queries.sum(axis=0)


def test_a_topic_that_doubled_is_found():
    found = [growths(*week(seed, doubled=True, scatter=0.05))[0] for seed in range(60)]
    assert sum(one.is_growing for one in found) >= 50
    assert np.median([one.ratio for one in found]) == pytest.approx(2.0, abs=0.2)
    assert np.mean([one.lower <= 2.0 <= one.upper for one in found]) > 0.8


@pytest.mark.parametrize("scatter", [0.0, 0.15, 0.4])
def test_weeks_in_which_nothing_grows_rarely_name_a_topic(scatter):
    weeks = [growths(*week(seed, doubled=False, scatter=scatter)) for seed in range(100)]
    named = [any(one and one.is_growing for one in every) for every in weeks]
    assert sum(named) <= 8


def test_more_traffic_in_all_topics_is_no_growth():
    queries = np.full((10, 7), 100.0)
    queries[:, 6] *= 3.0
    assert not any(one.is_growing for one in growths(queries, queries.sum(axis=0)))


def test_a_topic_that_nobody_asked_about_before_grows():
    queries = np.full((10, 7), 100.0)
    queries[0, :6] = 0.0
    first, *others = growths(queries, queries.sum(axis=0))
    assert first.is_growing
    assert first.ratio > 10.0 * GROWN
    assert not any(one.is_growing for one in others)


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param([[0, 0, 0, 0, 100, 100, 300]], id="two days before"),
        pytest.param([[100, 100, 100, 100, 100, 100, 5]], id="few on the last"),
        pytest.param([[100, 100, 100, 100, 100, 100, 0]], id="none on the last"),
    ],
)
def test_some_cannot_be_told(queries):
    queries = np.array(queries, dtype=float)
    others = np.where(queries > 0, 200.0, 0.0).sum(axis=0)
    assert growths(queries, queries.sum(axis=0) + others) == [None]
