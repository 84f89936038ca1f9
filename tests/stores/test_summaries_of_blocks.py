"""Summaries of blocks as every store reads them: with their blocks, or the blocks alone."""

import pytest

from ragmon.stores.summaries import SummaryRow
from tests.support.stores import KINDS, commit_of, opened

LAYOUT = 7


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    store = opened(request.param, tmp_path)
    for at in range(3):
        store.shard.commit(commit_of(store, [f"a{at}", f"b{at}"], [10.0 * at, 10.0 * at + 1]))
    summaries = store.shard.summaries()
    with store.reader() as reader:
        due = reader.due_summaries(LAYOUT, store.shard.next_sequence, 2)
    assert [block.first_sequence for block in due] == [4, 2]
    summaries.begin(due)
    summaries.put([
        SummaryRow(4, LAYOUT, b"facts of 4", b"keys of 4"),
        SummaryRow(2, LAYOUT, b"facts of 2", b"keys of 2"),
    ])  # fmt: skip
    yield store
    store.close()


def test_facts_come_with_the_outlines_that_are_asked_for(store):
    for _ in ("read", "remembered"):
        with store.reader() as reader:
            outlines = [*reader.outlines(0.0, 100.0)]
        assert [outline[:2] for outline in outlines] == [(4, 2), (2, 2), (0, 2)]
        assert [outline.facts for outline in outlines] == [b"facts of 4", b"facts of 2", None]
        assert [outline.layout for outline in outlines] == [LAYOUT, LAYOUT, 0]
    with store.reader() as reader:
        bare = [*reader.outlines(5.0, 15.0, with_facts=False)]
    assert [(outline[:4], outline.facts) for outline in bare] == [((2, 2, 10.0, 11.0), None)]


def test_facts_that_were_made_anew_are_read_anew(store):
    with store.reader() as reader:
        assert next(reader.outlines(0.0, 100.0)).facts == b"facts of 4"
        due = reader.due_summaries(LAYOUT + 1, store.shard.next_sequence, 1)
    summaries = store.shard.summaries()
    summaries.begin(due)
    assert summaries.put([SummaryRow(4, LAYOUT + 1, b"other facts", None)]) == 1
    with store.reader() as reader:
        assert next(reader.outlines(0.0, 100.0))[4:] == (LAYOUT + 1, b"other facts")


def test_the_filters_of_several_blocks_are_read_at_once(store):
    with store.reader() as reader:
        assert reader.keys([0, 2, 4, 9]) == {2: b"keys of 2", 4: b"keys of 4"}
        assert reader.keys([4]) == {4: b"keys of 4"}
        assert reader.keys([0]) == {}
