"""Batches survive packing, joining, and columns and slices that changed between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragmon.windows.observations import Observations, Sparse, index_dims, join, pack, unpack
from ragmon.windows.series import Dims
from tests.support.examples import NOON, pipeline, query_records

FEW, MORE = pipeline(ks=(1,)), pipeline(ks=(1, 5))
PIPELINES = (
    pipeline(ks=(1,)),
    pipeline(slices=("tenant",), ks=(1, 5)),
    pipeline(slices=("region", "tenant"), ks=(3,)),
)
batches = st.lists(query_records(st.floats(0.0, NOON)), min_size=1, max_size=8)


def rows(
    observations: Observations, columns: tuple[str, ...]
) -> list[tuple[float, dict[str, str], dict[str, float]]]:
    """One (timestamp, dims by name, known values by column) for each record."""
    found = []
    for at, index in enumerate(observations.dim_index.tolist()):
        dims = dict(
            zip(
                ("pipeline", "version", *observations.slices), observations.dims[index], strict=True
            )
        )
        values = zip(columns, observations.values[at].tolist(), strict=True)
        known = {name: value for name, value in values if not np.isnan(value)}
        recorded = {name: value for name, value in dims.items() if value}
        found.append((float(observations.timestamps[at]), recorded, known))
    return found


@settings(deadline=None)
@given(st.sampled_from(PIPELINES), batches)
def test_unpacking_gives_what_was_packed(observed_by, batch):
    observations = observed_by.observe(batch)
    again = unpack(pack(observations, observed_by.columns), observed_by.columns)
    assert len(again) == len(batch)
    assert rows(again, observed_by.columns) == rows(observations, observed_by.columns)
    assert again.slices == observations.slices
    assert again.dims == observations.dims


@pytest.mark.parametrize(
    ("before", "after"), [pytest.param(FEW, MORE, id="more"), pytest.param(MORE, FEW, id="fewer")]
)
@settings(deadline=None)
@given(batch=batches)
def test_columns_that_were_not_packed_are_unknown(before, after, batch):
    packed = pack(before.observe(batch), before.columns)
    again = unpack(packed, after.columns)
    direct = after.observe(batch)
    for at, name in enumerate(after.columns):
        if name in before.columns:
            np.testing.assert_array_equal(again.values[:, at], direct.values[:, at])
        else:
            assert np.isnan(again.values[:, at]).all()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIPELINES), batches), min_size=1, max_size=4))
def test_joined_batches_are_the_batches_after_one_another(parts):
    columns = tuple(dict.fromkeys(name for observed_by, _ in parts for name in observed_by.columns))
    joined = join([pack(by.observe(batch), by.columns) for by, batch in parts])
    expected = [row for by, batch in parts for row in rows(by.observe(batch), by.columns)]
    assert rows(unpack(joined, columns), columns) == expected


@settings(deadline=None)
@given(st.sampled_from(PIPELINES), batches, st.data())
def test_selected_records_are_those_records_in_the_order_asked_for(observed_by, batch, data):
    whole = observed_by.observe(batch)
    order = data.draw(st.permutations(range(len(batch))))
    order = order[: data.draw(st.integers(0, len(batch)))]
    chosen = whole.select(np.array(order, dtype=np.intp))
    expected = rows(whole, observed_by.columns)
    assert rows(chosen, observed_by.columns) == [expected[at] for at in order]
    assert set(chosen.dim_index.tolist()) == set(range(len(chosen.dims)))
    mask = np.isin(np.arange(len(batch)), order)
    by_mask = rows(whole.select(mask), observed_by.columns)
    assert by_mask == [expected[at] for at in sorted(order)]


def test_verdict_sums_stay_with_their_records():
    whole = replace(_batch([("a", ""), ("b", ""), ("c", "")]), judged=_sums([0, 2]))
    chosen = whole.select(np.array([2, 1]))
    assert chosen.judged is not None
    assert chosen.judged.record.tolist() == [0]
    assert chosen.judged.rows.tolist() == [[2.0]]
    again = Observations.concatenate([_batch([("a", "")]), chosen, whole])
    assert again.judged is not None
    assert again.judged.record.tolist() == [1, 3, 5]
    assert again.judged.rows.tolist() == [[2.0], [0.0], [2.0]]


def test_verdict_sums_of_different_layouts_are_not_put_together():
    first = replace(_batch([("a", "")]), judged=_sums([0]))
    second = replace(_batch([("a", "")]), judged=replace(_sums([0]), names=("other",)))
    with pytest.raises(ValueError, match="different layouts"):
        Observations.concatenate([first, second])


@pytest.mark.parametrize("place", [-1, 2, 1 << 30])
def test_places_outside_the_batch_are_refused(place):
    """Their bytes can be read, so that only this tells the damage."""
    whole = replace(_batch([("a", ""), ("b", "")]), judged=_sums([0]))
    other_dims = replace(whole, dim_index=np.array([0, place], dtype=np.int32))
    other_sums = replace(whole, judged=_sums([place]))
    for damaged in (other_dims, other_sums, replace(whole, dim_index=whole.dim_index[:1])):
        with pytest.raises(ValueError, match="that they do not have"):
            unpack(pack(damaged, ("one", "other")), ())


def test_concatenated_dims_are_distinct():
    observed = PIPELINES[1].observe([])
    assert len(observed) == 0
    twice = Observations.concatenate(
        [_batch([("docs", "v1", "acme")]), _batch([("docs", "v1", "acme")])]
    )
    assert twice.dims == [("docs", "v1", "acme")]
    assert twice.dim_index.tolist() == [0, 0]


def _sums(record: list[int]) -> Sparse:
    """One column, whose value is the position of the record."""
    at = np.array(record, dtype=np.int32)
    return Sparse(("shared",), at, at[:, None].astype(np.float64))


def _batch(dims: list[Dims]) -> Observations:
    distinct, index = index_dims(dims)
    slices = ("tenant",) if len(dims[0]) > 2 else ()
    return Observations(slices, distinct, index, np.full(len(dims), NOON), np.zeros((len(dims), 2)))


def test_dims_are_indexed_in_the_order_they_came():
    dims, index = index_dims([("a", ""), ("b", ""), ("a", ""), ("a", "v1")])
    assert dims == [("a", ""), ("b", ""), ("a", "v1")]
    assert index.tolist() == [0, 1, 0, 2]
    assert index_dims([])[1].dtype == np.int32
