"""What waits for the sampled judge: written with the draw, gone with the verdict, never half."""

import pytest

from ragmon.records import Chunk, Draw, Verdict
from ragmon.stores.protocols import Awaited
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent

CHUNKS = [Chunk("a", text="Paris is the capital.")]


@pytest.fixture
def rig(tmp_path):
    opened = Rig(tmp_path, pipeline())
    yield opened
    opened.store.close()


def answered(*ids):
    return [record(each, answer="Paris.", chunks=CHUNKS) for each in ids]


def draw(query_id, *, drawn=True, **fields):
    usual = {"probability": 0.5, "proxy": 0.5, "timestamp": NOON}
    return Draw(query_id=query_id, drawn=drawn, **(usual | fields))


def verdict(query_id, score=0.5, **fields):
    return Verdict(query_id=query_id, judge="llm", score=score, timestamp=NOON + 9, **fields)


def waiting(rig):
    return sorted(row.sequence for row in rig.store.shard.awaited().awaited(0, 100))


def test_what_is_drawn_waits_until_its_verdict(rig):
    rig.commit(sent(*answered("a", "b", "c")))
    rig.commit(sent(changes=[draw("a"), draw("b", drawn=False), draw("c")]))
    assert rig.store.shard.awaited().awaited(0, 100) == [Awaited(0, NOON), Awaited(2, NOON)]
    assert rig.store.shard.awaited().awaited(1, 100) == [Awaited(2, NOON)]
    rig.commit(sent(changes=[verdict("a")]))
    assert waiting(rig) == [2]
    assert rig.store.shard.awaited().awaited_count() == 1


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(draw("a"), id="the same draw again"),
        pytest.param(draw("a", round=1, probability=0.9), id="another round"),
    ],
)
def test_what_was_judged_is_not_asked_again(rig, last):
    rig.commit(sent(*answered("a")))
    rig.commit(sent(changes=[draw("a")]), sent(changes=[verdict("a")]))
    rig.commit(sent(changes=[last]))
    assert waiting(rig) == []


def test_a_failure_is_the_last_word(rig):
    rig.commit(sent(*answered("a")))
    rig.commit(sent(changes=[draw("a")]))
    rig.commit(sent(changes=[verdict("a", None, reason="refusal")]))
    assert waiting(rig) == []


def test_a_verdict_that_says_nothing_new_still_ends_the_waiting(rig):
    rig.commit(sent(*answered("a")))
    rig.commit(sent(changes=[draw("a"), verdict("a")]))
    with rig.store._db.transaction() as db:
        db.execute("INSERT INTO awaited VALUES (0, 1.0)")
    rig.commit(sent(changes=[verdict("a")]))
    assert waiting(rig) == []


def test_nothing_waits_for_a_commit_that_failed(rig, monkeypatch):
    rig.commit(sent(*answered("a")))

    def refuse(_connection, _commit):
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(rig.store.shard._awaited, "write", refuse)
    with pytest.raises(RuntimeError):
        rig.commit(sent(changes=[draw("a")]))
    monkeypatch.undo()
    assert waiting(rig) == []
    assert rig.store.shard.amendments([0]) == {}


def test_what_is_remembered_outlives_the_store(tmp_path):
    first = Rig(tmp_path, pipeline())
    first.store.state.remembered().save("budget", b"1")
    first.store.state.remembered().save("budget", b"2")
    first.commit(sent(*answered("a"), changes=[draw("a")]))
    first.store.close()
    again = Rig(tmp_path, pipeline())
    assert again.store.state.remembered().load("budget") == b"2"
    assert again.store.state.remembered().load("other") is None
    assert waiting(again) == [0]
    again.store.shard.awaited().abandon([0])
    assert waiting(again) == []
    again.store.close()


def test_what_waits_comes_in_no_order_of_time(rig):
    ids = [f"q{number}" for number in range(200)]
    rig.commit(sent(*answered(*ids)))
    rig.commit(sent(changes=[draw(each, timestamp=NOON + at) for at, each in enumerate(ids)]))
    judging = rig.store.shard.awaited()
    pages = [judging.awaited(skip, 50) for skip in range(0, 250, 50)]
    assert sorted(row.sequence for page in pages for row in page) == list(range(200))
    for page in pages[:4]:
        mean = sum(row.sequence for row in page) / len(page)
        assert 75 < mean < 125  # each page speaks for the whole time
    assert [row.sequence for row in judging.overdue(NOON + 3, 10)] == [0, 1, 2]
