"""Copies of a store into another kind and back have every row, and go on as the first would."""

import pytest

from ragmon.alerts.silences import Silence
from ragmon.errors import StoreError
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting
from ragmon.stores.copying import TABLES, StoreCopy, check_complete
from ragmon.stores.protocols import (
    Awaited,
    BaselineRow,
    MappedSpans,
    Notification,
    Settled,
    SpanRow,
    Turn,
)
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.windows.snapshot import SavedBucket
from tests.support.stores import commit_of, nothing, opened, packed, small_pieces

DAY_S = 86_400.0
COUNTED = Position(30, 0)  # by windows and detectors: a restatement is still to be counted


@pytest.fixture(autouse=True)
def _small():
    with small_pieces():
        yield


def silence(name):
    return Silence(
        id=name, matchers=(), starts_at=0.0, ends_at=9e9, created_by="me", comment="a comment"
    )


def filled(store):
    """Put something into every table."""
    shard, state = store.shards[0], store.state
    first = 20_000 * DAY_S
    for number in range(10):
        ids = [f"{number}-{at}" for at in range(3)]
        shard.commit(commit_of(store, ids, [first + number * DAY_S + at for at in range(3)]))
        shard.index()
    shard.commit(
        nothing(
            amendments=[(3, b"late"), (4, b"later")],
            restatement=Restatement(packed([3], [first]), packed([4], [first])),
            waiting=[Waiting((1 << 63) + 5, "feedback", b"waits", 7.0)],
            offsets=[("a file", b"12"), ("another", b"13")],
            awaited=[Awaited(2, 1.5)],
            quarantined=[QuarantinedItem("decode", "broken", 3.0, "a name", "an error", b"body")],
            spans=[SpanRow(b"trace", 2, True, b"spans")],
        )
    )
    spans = shard.spans()
    spans.keep([MappedSpans(b"other", 1, 2, False, b"queries")], 5.0)
    spans.mark([b"trace"], 6.0)
    state.save_windows(
        [SavedBucket(0, 5, b"bucket"), SavedBucket(1, 2, b"other")], b"totals", {0: COUNTED}
    )
    alerts = state.alert_log()
    notices = [Notification("hook", f"e{at}", "incident", 4.0, b"text") for at in range(3)]
    alerts.save(
        Turn(
            state=b"state",
            buckets=[],
            oldest=(0,),
            book=b"book",
            catching_up=False,
            positions={0: COUNTED},
            notifications=notices,
        )
    )
    alerts.add_silence(silence("quiet"))
    outbox = state.outbox()
    [due] = outbox.due("hook", 10.0, 1).rows
    outbox.settle([Settled(due.number, "dead", 11.0, "gone")])
    row = BaselineRow(
        name="base", kind="traffic", created_at=1.0, created_by="me", provenance="7d", samples=2.5
    )
    state.baselines().promote(state.baselines().add(row, b"baseline"))
    state.probe_runs().save("probe", b"run")
    state.remembered().save("budget", b"spent")
    state.erasure().add(8.0, "user", b"request")


def copy(source, target):
    return StoreCopy(source.tables(), target.tables(), "the source").run()


def content(store):
    tables = store.tables()
    return {table.name: tables.rows(table, None, 10_000) for table in TABLES}


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_a_copy_there_and_back_is_the_same_and_goes_on(tmp_path, first, second):
    places = [tmp_path / name for name in ("one", "two", "three")]
    for place in places:
        place.mkdir()
    source = opened(first, places[0])
    filled(source)
    before, numbers = content(source), source.tables().numbers()
    target = opened(second, places[1])
    counts = copy(source, target)
    assert counts == {name: len(rows) for name, rows in before.items()}
    empty = {name for name, count in counts.items() if not count}
    assert empty == {"minutes", "alert_events", "incident_notices"}
    source.close()
    target.close()
    middle = opened(second, places[1])
    assert content(middle) == before
    assert middle.tables().numbers() == numbers
    back = opened(first, places[2])
    copy(middle, back)
    back.close()
    middle.close()
    for kind, place in ((first, places[2]), (second, places[1])):
        store = opened(kind, place)
        check_goes_on(store, before, numbers)
        store.close()


def check_goes_on(store, before, numbers):
    assert content(store) == before
    assert store.tables().numbers() == numbers
    shard, state = store.shards[0], store.state
    assert shard.position == Position(30, 1)
    assert shard.find(shard.hash("4-2")) == 14
    assert shard.record(14) is not None
    assert shard.amendments([3, 4]) == {3: b"late", 4: b"later"}
    assert [each.body for each in shard.waiting([(1 << 63) + 5])] == [b"waits"]
    assert shard.offset("a file") == b"12"
    positions, totals, buckets = state.load_windows()
    assert (positions, totals) == ({0: COUNTED}, b"totals")
    assert [each.body for each in buckets] == [b"bucket", b"other"]
    alerts = state.alert_log()
    saved = alerts.load()
    assert (saved.state, saved.book, saved.positions) == (b"state", b"book", {0: COUNTED})
    assert alerts.silences() == [silence("quiet")]
    assert state.outbox().undelivered() == (2, 4.0, 1)
    assert state.baselines().promoted("traffic")[1] == b"baseline"
    assert state.remembered().load("budget") == b"spent"
    assert shard.spans().bodies([b"trace"]) == [[b"spans"]]
    shard.commit(commit_of(store, ["new"], [1.0], spans=[SpanRow(b"trace", 1, False, b"more")]))
    assert shard.spans().bodies([b"trace"]) == [[b"spans", b"more"]]
    state.outbox().put([Notification("hook", "new", "another", 5.0, b"text")])
    assert state.erasure().add(9.0, "another", b"request") == 2
    shard.quarantine().put([QuarantinedItem("decode", "x", 3.0, "n", "e", b"other body")])
    assert [row.number for row in shard.quarantine().rows(9)] == [2, 1]
    assert [entry.position for entry in state.follow({0: COUNTED})] == [
        Position(31, 0),
        Position(31, 1),
    ]


def stopped_at(target, table, monkeypatch):
    """Tables of a target that fail where some table is written."""
    tables = target.tables()
    write = tables.write

    def fail(into, rows):
        if into.name == table:
            raise StoreError("stopped")
        write(into, rows)

    monkeypatch.setattr(tables, "write", fail)
    return tables


@pytest.mark.parametrize("table", ["runs", "windows"])
def test_a_copy_that_was_stopped_goes_on(tmp_path, monkeypatch, table):
    source, place = opened("sqlite", tmp_path / "source"), tmp_path / "target"
    place.mkdir()
    filled(source)
    target = opened("postgresql", place)
    with pytest.raises(StoreError, match="stopped"):
        StoreCopy(source.tables(), stopped_at(target, table, monkeypatch), "it").run()
    target.close()
    again = opened("postgresql", place)
    with pytest.raises(StoreError, match=r"not finished.* goes on"):
        check_complete(again.tables())
    seen = []
    tables = again.tables()
    write = tables.write

    def note(into, rows):
        seen.append(into.name)
        write(into, rows)

    monkeypatch.setattr(tables, "write", note)
    StoreCopy(source.tables(), tables, "it").run()
    check_complete(again.tables())
    assert "blocks" not in seen
    assert "windows" in seen
    assert content(again) == content(source)
    source.close()
    again.close()


def test_a_copy_whose_source_went_on_begins_anew(tmp_path, monkeypatch):
    source, place = opened("sqlite", tmp_path / "source"), tmp_path / "target"
    place.mkdir()
    filled(source)
    target = opened("postgresql", place)
    with pytest.raises(StoreError, match="stopped"):
        StoreCopy(source.tables(), stopped_at(target, "windows", monkeypatch), "it").run()
    shard = source.shards[0]
    assert shard.compact(0, 30)[0] > 1
    StoreCopy(source.tables(), target.tables(), "it").run()
    assert content(target) == content(source)
    source.close()
    target.close()


def test_a_target_with_content_is_refused(tmp_path):
    source = opened("sqlite", tmp_path / "source")
    target = opened("sqlite", tmp_path / "target")
    for store in (source, target):
        store.shards[0].commit(commit_of(store, ["a"], [1.0]))
    with pytest.raises(StoreError, match="has content already"):
        copy(source, target)
    assert target.shards[0].find(target.shards[0].hash("a")) == 0
    source.close()
    target.close()


def test_a_copy_that_differs_is_told_and_begun_anew(tmp_path, monkeypatch):
    source = opened("sqlite", tmp_path / "source")
    target = opened("sqlite", tmp_path / "target")
    filled(source)
    tables = target.tables()
    write = tables.write

    def change(into, rows):
        if into.name == "blocks":
            rows = [(*row[:-1], row[-1] + b"!") for row in rows]
        write(into, rows)

    monkeypatch.setattr(tables, "write", change)
    with pytest.raises(StoreError, match="copy of table blocks differs"):
        StoreCopy(source.tables(), tables, "it").run()
    copy(source, target)
    assert content(target) == content(source)
    source.close()
    target.close()
