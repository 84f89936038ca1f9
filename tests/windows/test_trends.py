"""Many series over the same steps, and versions that appeared lately."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragmon.windows.history import of_series, steps
from ragmon.windows.series import SeriesKey
from ragmon.windows.tiers import tiers_for
from ragmon.windows.trends import FirstSeen, add_steps, empty_steps, new_versions
from tests.support.examples import DAY_S, NOON, pipeline, query_records, record, windows

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3), relevant_score=0.5)
TIERS = tiers_for(7 * DAY_S)
KEYS = (SeriesKey("support"), SeriesKey("nowhere"), SeriesKey("docs"))
streams = st.lists(query_records(st.floats(0.0, DAY_S).map(lambda age: NOON - age)), max_size=30)


def counted(records):
    target = windows(PIPELINE)
    target.fold(PIPELINE.observe(records))
    target.settle()
    return target


@given(streams, st.sampled_from([3_600.0, DAY_S]), st.integers(1, 40))
def test_the_steps_of_each_are_those_it_has_alone(records, span, at_once):
    target = counted([*records, record("newest", at=NOON - 1.0, pipeline="docs")])
    over = steps(TIERS, NOON - span, NOON, span / 12, NOON)
    merged = empty_steps(len(KEYS), over, target)
    for first in range(over.first, over.end, at_once):
        part = range(first, min(first + at_once, over.end))
        add_steps(merged, target, KEYS, over, part)
    for at, key in enumerate(KEYS):
        alone = of_series(target, target.series.keys.get(key), over, latencies=True)
        mine = slice(at * over.length, (at + 1) * over.length)
        np.testing.assert_allclose(merged.rows[mine], alone.rows)
        np.testing.assert_array_equal(merged.latency[mine, 0], alone.latency[:, 0])
        np.testing.assert_allclose(merged.judged[mine], alone.judged)
    assert merged.rows[:, -1].sum() >= 1.0


def test_a_version_is_new_where_the_pipeline_is_older():
    target = counted(
        [
            record("a", at=NOON - 3 * DAY_S, pipeline="docs", version="v1"),
            record("b", at=NOON - 2 * DAY_S, pipeline="docs", version="v2"),
            record("c", at=NOON - 125.0, pipeline="docs", version="v3"),
            record("d", at=NOON - 20.0, pipeline="docs", version="v3"),
            record("e", at=NOON - 20.0, pipeline="new", version="v3"),
            record("f", at=NOON - 20.0, pipeline="docs", version=""),
        ]
    )
    assert new_versions(target, NOON, 7 * DAY_S) == [
        FirstSeen("docs", "v3", int(NOON - 130.0)),
        FirstSeen("docs", "v2", int(NOON - 2 * DAY_S) // 3_600 * 3_600),
    ]
    assert [version.version for version in new_versions(target, NOON, DAY_S)] == []


def test_nothing_is_new_without_traffic():
    assert new_versions(counted([]), NOON, DAY_S) == []
