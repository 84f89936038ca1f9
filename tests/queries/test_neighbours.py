"""Queries next to one: its session in time order, and the same question asked before."""

import pytest

from ragmon.api_schema import StoredQuery
from ragmon.queries.neighbours import NeighbourSearch
from ragmon.queries.summaries import layout_of, summarize
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent

HOUR = 3_600.0


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, pipeline())
    yield rig
    rig.store.close()


def asked(at: float, name: str, **known: object):
    return record(name, at=NOON + at, **known)


def near(rig: Rig, at: float = 0.0, *, goes_on: bool = True, **known: object):
    own = StoredQuery(query_id="own", timestamp=NOON + at, **known)
    with rig.store.reader() as reader:
        return NeighbourSearch(own).run(reader, lambda: goes_on)


def summed_up(rig: Rig) -> None:
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout_of(rig.pipeline), rig.store.shard.next_sequence, 100)
        rig.store.shard.summaries().begin(due)
        rig.store.shard.summaries().put(
            [summarize(reader, rig.pipeline, each.first_sequence) for each in due]
        )


@pytest.mark.parametrize("has_filters", [True, False])
def test_the_session_comes_in_order_and_the_question_newest_first(rig, has_filters):
    same = {"query": "How long do refunds take?"}
    for block in (
        [asked(-7 * HOUR, "long-ago", **same), asked(-2 * HOUR, "two-hours", **same)],
        [asked(-600, "before", session_id="s", query="Hello"), asked(-500, "other", query="x")],
        [asked(0, "own", session_id="s", **same), asked(-60, "again", query=" how LONG do "
         "refunds take ")],
        [asked(120, "after", session_id="s", answer="Yes", error="boom")],
        [asked(180, "later", **same), asked(200, "elsewhere", session_id="s", pipeline="b")],
        [asked(2 * HOUR, "too-late", session_id="s")],
    ):  # fmt: skip
        rig.commit(sent(*block))
    if has_filters:
        summed_up(rig)
    found = near(rig, session_id="s", **same)
    assert [each.query_id for each in found.session] == ["before", "after"]
    assert [each.query_id for each in found.same_question] == ["again", "two-hours"]
    after = found.session[1]
    assert (after.answer, after.failed, after.timestamp) == ("Yes", True, NOON + 120)


def test_of_many_the_nearest_are_kept(rig):
    rig.commit(sent(*(asked(10.0 * at, f"q{at}", session_id="s") for at in range(-20, 20) if at)))
    found = near(rig, session_id="s", query="what?")
    assert [each.query_id for each in found.session] == ["q-3", "q-2", "q-1", "q1", "q2", "q3"]
    assert not found.same_question


def test_without_time_its_own_block_is_looked_through(rig):
    rig.commit(sent(asked(-100, "far", session_id="s")))
    rig.commit(sent(asked(-5, "near", session_id="s"), asked(0, "own", session_id="s")))
    found = near(rig, session_id="s", goes_on=False)
    assert [each.query_id for each in found.session] == ["near"]


def test_a_query_without_session_and_text_has_none(rig):
    rig.commit(sent(asked(-5, "near"), asked(0, "own")))
    assert near(rig) == ((), ())


def test_texts_are_cut(rig):
    rig.commit(sent(asked(-1, "long", session_id="s", query="q" * 1_000_000, answer="a" * 9_999)))
    (long,) = near(rig, session_id="s").session
    assert (len(long.query), len(long.answer)) == (300, 300)
