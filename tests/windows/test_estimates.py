"""From the sums of a window to means, intervals and quantiles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.records import Latency
from ragmon.signals import MEANS
from ragmon.stats.intervals import mean_interval, unbounded_mean_interval
from ragmon.windows.estimates import QUANTILES, Estimates, estimate, shown
from ragmon.windows.series import SeriesKey
from tests.support.examples import NOON, chunks, pipeline, query_records, record, windows

PIPELINE = pipeline(ks=(1, 3), relevant_score=0.5, low_score=0.2)
KINDS = {column.key: column.kind for column in shown(PIPELINE.catalogue.columns)}


def estimated(queries) -> tuple[Estimates, int]:
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe(queries))
    found = estimate(held.merge(300.0, NOON), held.columns)
    return found, held.series.keys[SeriesKey(queries[0].pipeline)]


def column(found: Estimates, series: int, name: str, **labels: str) -> tuple[float, ...]:
    at = PIPELINE.catalogue.index(name, **labels)
    parts = (found.mean, found.lower, found.upper, found.samples)
    return tuple(float(part[series, at]) for part in parts)


@settings(deadline=None)
@given(st.lists(query_records(), min_size=1, max_size=30))
def test_estimates_are_those_of_the_observations(queries):
    mine = [query for query in queries if query.pipeline == queries[0].pipeline]
    found, series = estimated(queries)
    values = PIPELINE.catalogue.observe(mine)
    assert found.queries[series] == len(mine)
    for at, name in enumerate(PIPELINE.columns):
        known = values[~np.isnan(values[:, at]), at]
        sums = (len(known), known.sum(), (known * known).sum())
        if KINDS[name] in MEANS:
            mean, lower, upper = unbounded_mean_interval(*sums)
            expected = mean, np.maximum(lower, 0.0 if KINDS[name] == "amount" else lower), upper
        else:
            expected = mean_interval(*sums, binary=KINDS[name] == "proportion")
        parts = (found.mean, found.lower, found.upper)
        np.testing.assert_allclose([part[series, at] for part in parts], expected, err_msg=name)
        assert found.samples[series, at] == len(known)


@settings(deadline=None)
@given(st.lists(query_records(), min_size=1, max_size=30))
def test_intervals_contain_their_estimate(queries):
    found, _ = estimated(queries)
    known = found.samples > 0
    assert np.isnan(found.mean[~known]).all()
    bounded = np.array([kind not in MEANS for kind in KINDS.values()])
    sure = known & (bounded | (found.samples > 1))
    assert (found.lower[sure] <= found.mean[sure]).all()
    assert (found.mean[sure] <= found.upper[sure]).all()
    assert (found.lower[known & bounded] >= 0).all()
    assert (found.upper[known & bounded] <= 1).all()


@pytest.mark.parametrize(
    ("errors", "answered", "expected"),
    [  # Newcombe (1998), method 4
        pytest.param(0, 1, (0.0, 0.0, 0.9453), id="one good answer proves little"),
        pytest.param(1, 9, (0.1, 0.0052, 0.4588), id="one in ten"),
        pytest.param(81, 182, (81 / 263, 0.2535, 0.3682), id="81 of 263"),
    ],
)
def test_a_ratio_by_hand(errors, answered, expected):
    queries = [record(error="E")] * errors + [record()] * answered
    found, series = estimated(queries)
    assert column(found, series, "error") == pytest.approx((*expected, len(queries)), abs=1e-4)


def test_a_fraction_by_hand():
    cited = [["a"], ["a", "b"], []]
    found, series = estimated([record(chunks=chunks("a", "b"), citations=c) for c in cited])
    mean, lower, upper, samples = column(found, series, "attribution")
    assert mean == pytest.approx(0.5)
    assert 0 < lower < 0.5 < upper < 1
    assert samples == 3


@pytest.mark.parametrize(
    ("middle", "lower"),
    [
        pytest.param(1_000.0, 1_000.0 - 4.3027 * 100.0 / math.sqrt(3), id="far from zero"),
        pytest.param(200.0, 0.0, id="no time is negative"),
    ],
)
def test_an_amount_by_hand(middle, lower):
    times = (middle - 100.0, middle, middle + 100.0)
    found, series = estimated([record(latency_ms=Latency(ms)) for ms in times])
    shown_as = column(found, series, "latency_ms", stage="total")
    margin = 4.3027 * 100.0 / math.sqrt(3)  # Student at two degrees of freedom
    assert shown_as[:3] == pytest.approx((middle, lower, middle + margin), rel=1e-3)


def test_one_value_has_no_interval():
    found, series = estimated([record(latency_ms=Latency(100.0))])
    mean, lower, upper, _ = column(found, series, "latency_ms", stage="total")
    assert mean == 100.0
    assert math.isnan(lower)
    assert math.isnan(upper)


def test_quantiles_by_stage():
    found, series = estimated(
        [record(latency_ms=Latency(float(ms), retrieval=10.0)) for ms in range(1, 101)]
    )
    total, retrieval, generation = found.latency_ms[series]
    expected = [100 * q for q in QUANTILES]
    np.testing.assert_allclose(total, expected, rtol=0.011)
    np.testing.assert_allclose(retrieval, 10.0, rtol=0.011)
    assert np.isnan(generation).all()
