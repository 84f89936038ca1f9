"""The outbox of every store: order per alert, retries, dead letters, restarts."""

import pytest

from ragmon.errors import StoreError
from ragmon.stores.postgresql import outbox as postgres_outbox
from ragmon.stores.protocols import Notification, Settled, Undelivered
from ragmon.stores.sqlite import outbox as sqlite_outbox
from tests.support.stores import KINDS, opened

NOW = 1_740_000_000.0


def notification(alert: str, step: int = 0, sink: str = "chat") -> Notification:
    return Notification(sink, f"{alert}-{step}", alert, NOW + step, f"{alert}{step}".encode())


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    held = opened(request.param, tmp_path)
    yield held
    held.close()


def tried(outbox, now=NOW, sink="chat", limit=100) -> list[str]:
    return [row.event_id for row in outbox.due(sink, now, limit).rows]


def settle(outbox, event_id, fate, at=NOW, error="", sink="chat", now=NOW):
    [row] = [each for each in outbox.due(sink, now, 100).rows if each.event_id == event_id]
    outbox.settle([Settled(row.number, fate, at, error)])


def test_the_next_of_an_alert_waits_for_the_one_before(store):
    outbox = store.state.outbox()
    outbox.put([notification("a", 0), notification("b", 0), notification("a", 1)])
    assert tried(outbox) == ["a-0", "b-0"]
    assert tried(outbox, limit=1) == ["a-0"]
    settle(outbox, "a-0", "retried", at=NOW + 30, error="503")
    assert tried(outbox) == ["b-0"]
    assert tried(outbox, now=NOW + 30) == ["a-0", "b-0"]
    settle(outbox, "a-0", "delivered", now=NOW + 30)
    assert tried(outbox) == ["b-0", "a-1"]


def test_sinks_do_not_wait_for_each_other(store):
    outbox = store.state.outbox()
    outbox.put([notification("a"), notification("a", sink="page")])
    settle(outbox, "a-0", "delivered")
    assert (tried(outbox), tried(outbox, sink="page")) == ([], ["a-0"])


def test_what_is_put_twice_is_there_once(store):
    outbox = store.state.outbox()
    outbox.put([notification("a"), notification("a")])
    outbox.put([notification("a")])
    assert outbox.undelivered() == Undelivered(1, NOW, 0)


def test_attempts_are_counted_and_the_next_one_is_known(store):
    outbox = store.state.outbox()
    outbox.put([notification("a"), notification("b")])
    assert outbox.due("nobody", NOW, 9) == ([], None)
    settle(outbox, "a-0", "retried", at=NOW + 40)
    settle(outbox, "b-0", "retried", at=NOW + 20)
    assert outbox.due("chat", NOW, 9) == ([], NOW + 20)
    assert [row.attempts for row in outbox.due("chat", NOW + 50, 9).rows] == [1, 1]


def test_a_clock_that_was_set_back_holds_nothing_up(store):
    outbox = store.state.outbox()
    outbox.put([notification("a")])
    settle(outbox, "a-0", "retried", at=NOW + 5)
    assert tried(outbox, now=NOW - 86_400.0) == ["a-0"]


def test_dead_letters_say_why_and_let_the_next_one_go(store):
    outbox = store.state.outbox()
    outbox.put([notification("a", 0), notification("a", 1)])
    settle(outbox, "a-0", "dead", at=NOW + 9, error="answered 404")
    assert tried(outbox) == ["a-1"]
    assert outbox.undelivered() == Undelivered(1, NOW + 1, 1)
    [letter] = outbox.dead(5)
    assert letter[:-1] == ("chat", "a-0", "a", NOW, b"a0", 1, NOW + 9, "answered 404")


def test_dead_letters_are_bounded(store, monkeypatch):
    for module in (sqlite_outbox, postgres_outbox):
        monkeypatch.setattr(module, "MOST_DEAD", 3)
    outbox = store.state.outbox()
    for at in range(6):
        outbox.put([notification(f"a{at}")])
        settle(outbox, f"a{at}-0", "dead", at=NOW + at)
    assert [letter.incident_id for letter in outbox.dead(9)] == ["a5", "a4", "a3"]
    outbox.put([notification("late")])
    settle(outbox, "late-0", "dead", at=NOW + 90 * 86_400.0)
    assert [letter.incident_id for letter in outbox.dead(9)] == ["late"]


def test_a_clock_that_is_doubted_deletes_no_dead_letter(store):
    outbox = store.state.outbox()
    for name, at, is_doubted in (("a", NOW, False), ("b", NOW + 90 * 86_400.0, True)):
        outbox.put([notification(name)])
        [row] = outbox.due("chat", NOW, 9).rows
        outbox.settle([Settled(row.number, "dead", at, "", is_doubted)])
    assert [letter.incident_id for letter in outbox.dead(9)] == ["b", "a"]


def test_what_waits_for_a_removed_sink_is_buried(store):
    outbox = store.state.outbox()
    outbox.put([notification("a"), notification("a", sink="gone"), notification("b", sink="old")])
    assert outbox.abandon(["chat", "page"], NOW, "no longer configured") == {"gone": 1, "old": 1}
    assert tried(outbox) == ["a-0"]
    assert {letter.sink for letter in outbox.dead(9)} == {"gone", "old"}
    assert outbox.abandon([], NOW, "no longer configured") == {"chat": 1}


def test_a_restart_forgets_nothing(store, tmp_path, request):
    store.state.outbox().put([notification("a", 0), notification("a", 1)])
    settle(store.state.outbox(), "a-0", "retried", at=NOW + 60)
    store.close()
    again = opened(request.node.callspec.params["store"], tmp_path)
    assert [row.attempts for row in again.state.outbox().due("chat", NOW + 60, 9).rows] == [1]
    assert again.state.outbox().undelivered().length == 2
    again.close()


def test_insert_is_part_of_the_callers_transaction(tmp_path):
    store = opened("sqlite", tmp_path)
    outbox = store.state.outbox()

    def fail() -> None:
        with store._db.transaction() as db:
            outbox.insert(db, [notification("a")])
            db.execute("SELECT * FROM nowhere")

    with pytest.raises(StoreError):
        fail()
    assert outbox.undelivered().length == 0
    with store._db.transaction() as db:
        outbox.insert(db, [notification("a")])
    assert outbox.undelivered().length == 1
    store.close()
