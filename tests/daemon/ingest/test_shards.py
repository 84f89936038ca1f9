"""Shards in any interleaving, with restarts anywhere, count as one process would."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from ragmon.daemon.ingest.counting import WindowCounting
from ragmon.records import QueryRecord
from ragmon.stores import Restatement
from ragmon.windows import Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.observations import pack
from ragmon.windows.snapshot import dump_totals
from tests.support.examples import DAY_S, NOON, pipeline, query_records, windows
from tests.support.journal import MemoryJournal
from tests.support.window_numbers import integers, sums

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3))
SHARDS = 3
ages = st.floats(0.0, 900.0) | st.floats(0.0, 6.0 * DAY_S)


class SentGroup(Struct, frozen=True):
    """A commit of one shard, and what happens to the process after it."""

    shard: int
    records: list[QueryRecord]
    is_rated: bool  # later: each of them turns out to be disliked
    then: str


commits = st.builds(
    SentGroup,
    shard=st.integers(0, SHARDS - 1),
    records=st.lists(query_records(ages.map(lambda age: NOON - age)), min_size=1, max_size=5),
    is_rated=st.booleans(),
    then=st.sampled_from(["go on", "go on", "restart", "restart and save"]),
)


def restated(records: Sequence[QueryRecord]) -> Restatement:
    rated = [replace(each, feedback=-1.0) for each in records]
    observed = (PIPELINE.observe(records), PIPELINE.observe(rated))
    return Restatement(*(pack(each, PIPELINE.columns) for each in observed))


def counted_alone(groups: Sequence[SentGroup]) -> Windows:
    """Windows of a process that saw every commit in order."""
    held = windows(PIPELINE)
    for group in groups:
        held.fold(PIPELINE.observe(group.records))
        if group.is_rated:
            rated = [replace(each, feedback=-1.0) for each in group.records]
            held.restate(PIPELINE.observe(group.records), PIPELINE.observe(rated))
    return held


def counted_by_shards(groups: Sequence[SentGroup], seed: int) -> Windows:
    """Windows of the last of several processes that followed the journal of all shards."""
    journal = MemoryJournal(seed)

    def started() -> tuple[Windows, WindowCounting]:
        held = windows(PIPELINE)
        counting = WindowCounting(journal, held)
        counting.count()
        return held, counting

    for group in groups:
        observed = PIPELINE.observe(group.records)
        journal.log(group.shard, len(group.records), pack(observed, PIPELINE.columns))
        if group.is_rated:
            journal.restate(group.shard, restated(group.records))
        if group.then != "go on":
            held, counting = started()
            if group.then == "restart and save":
                journal.save(dump_totals(held), ChangedBuckets(held).dump(), counting.positions)
    return started()[0]


@settings(deadline=None, max_examples=60)
@given(groups=st.lists(commits, min_size=1, max_size=12), seed=st.integers(0, 1_000))
def test_any_interleaving_and_any_restart_counts_as_one_process(groups, seed):
    alone, together = counted_alone(groups), counted_by_shards(groups, seed)
    assert integers(together, NOON) == integers(alone, NOON)
    expected, got = sums(alone, NOON), sums(together, NOON)
    assert got.keys() == expected.keys()
    for key, row in expected.items():
        # What was added and taken away again leaves rounding of what was there meanwhile.
        np.testing.assert_allclose(got[key], row, rtol=1e-12, atol=1e-9, err_msg=str(key))
    assert (together.watermark, together.restatements) == (alone.watermark, alone.restatements)


def test_a_process_that_forgets_a_shard_is_found_out():
    groups = [
        SentGroup(0, [QueryRecord(query_id="a", timestamp=NOON)], False, "restart and save"),
        SentGroup(1, [QueryRecord(query_id="b", timestamp=NOON)], False, "go on"),
    ]
    whole = counted_by_shards(groups, 1)
    assert integers(whole, NOON) == integers(counted_alone(groups), NOON)
    assert integers(whole, NOON) != integers(counted_alone(groups[:1]), NOON)
