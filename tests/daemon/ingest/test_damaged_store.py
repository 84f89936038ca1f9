"""An engine over a store with damaged rows: it starts, counts the rest, and takes what comes."""

import sqlite3

import pytest

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.metrics import watch
from ragmon.exposition import page
from ragmon.exposition.negotiation import TEXT
from ragmon.exposition.own import OwnMetrics
from ragmon.queries import newest
from ragmon.queries.blocks import QueryFilter
from ragmon.stores.sqlite import SqliteStore
from ragmon.stores.sqlite.store import FILE
from ragmon.windows.series import SeriesKey
from tests.support.examples import NOON, pipeline, record, windows
from tests.support.rig import rated, sent

PIPELINE = pipeline(ks=(1,))
SECOND = "blocks WHERE first_sequence = 10"


class Restart:
    """The engine of a directory, again and again."""

    def __init__(self, directory):
        self.directory = directory
        self.settings = Settings(data_dir=directory)
        self.start()

    def start(self):
        store = SqliteStore(self.directory, synchronous="OFF")
        clock = ManualClock(NOON)
        self.engine = Engine(store, PIPELINE, windows(PIPELINE), clock, self.settings)
        self.replayed = self.engine.restore()

    def end(self, *, snapshot=False):
        if snapshot:
            self.engine.snapshot()
        self.engine.store.close()

    def commit(self, *records, changes=()):
        submission = sent(*records, changes=changes)
        self.engine.committer.commit([submission], NOON)
        return submission.duplicates

    def spoil(self, column, row):
        table, _, where = row.partition(" ")
        db = sqlite3.connect(self.directory / FILE)
        (body,) = db.execute(f"SELECT {column} FROM {row}").fetchone()
        broken = body[:20] + bytes([body[20] ^ 1]) + body[21:]
        db.execute(f"UPDATE {table} SET {column} = ? {where}", (broken,))
        db.commit()
        db.close()

    @property
    def counted(self):
        held = self.engine.windows
        return float(held.totals.queries[held.series.keys[SeriesKey("default")]])

    def damaged(self):
        return {kind: n for kind, n in self.engine.store.damage.counts().items() if n}

    def newest(self):
        with self.engine.store.reader() as reader:
            found = newest(reader, PIPELINE, QueryFilter(0.0, NOON + 60, "", (), 100))
        return sorted(int(detail.record.query_id[1:]) for detail in found)


@pytest.fixture
def restart(tmp_path):
    """Three batches of ten, feedback for one and for one to come; closed."""
    made = Restart(tmp_path)
    for start in (0, 10, 20):
        made.commit(*(record(f"q{at}", at=NOON - at) for at in range(start, start + 10)))
    made.commit(changes=[rated("q15", -1.0), rated("q40", 1.0)])
    made.end()
    yield made
    made.engine.store.close()


def test_damaged_observations_are_left_out_of_the_count(restart):
    restart.spoil("observations", SECOND)
    restart.start()
    assert restart.replayed == 20
    assert restart.damaged() == {"block": 1}
    assert restart.newest() == [*range(10), *range(20, 30)]


def test_damaged_records_are_counted_but_not_shown_and_not_taken_twice(restart):
    restart.spoil("body", SECOND)
    restart.start()
    assert restart.counted == 30
    assert restart.newest() == [*range(10), *range(20, 30)]
    again = [record(f"q{at}", at=NOON - at) for at in range(30)]
    assert restart.commit(*again) == 30
    assert restart.counted == 30
    assert restart.damaged() == {"block": 1}


def test_feedback_for_a_damaged_record_changes_nothing(restart):
    restart.spoil("body", SECOND)
    restart.start()
    before = restart.engine.windows.totals.rows.copy()
    assert restart.commit(changes=[rated("q12", -1.0), rated("q3", -1.0)]) == 1
    assert (restart.engine.windows.totals.rows != before).any()
    assert restart.commit(record("q31", at=NOON)) == 0


def test_feedback_that_waits_damaged_lets_its_query_come(restart):
    restart.spoil("body", "waiting WHERE rowid = 1")
    restart.start()
    assert restart.commit(record("q40", at=NOON)) == 0
    assert restart.counted == 31
    assert restart.damaged() == {"waiting": 1}


def test_a_damaged_amendment_is_not_restated(restart):
    """The feedback before is counted: to restate the query without it would count both."""
    restart.spoil("body", "amendments WHERE sequence = 15")
    restart.start()
    at = PIPELINE.catalogue.index("negative_feedback")
    before = restart.engine.windows.totals.rows[:, at].copy()
    assert restart.commit(changes=[rated("q15", 1.0, at=NOON + 1)]) == 1
    assert (restart.engine.windows.totals.rows[:, at] == before).all()
    assert 15 in restart.newest()
    assert restart.damaged() == {"amendment": 1}


def test_a_damaged_restatement_leaves_the_query_as_it_came(restart):
    restart.spoil("new", "restatements WHERE number = 1")
    restart.start()
    assert (restart.replayed, restart.counted) == (30, 30)
    assert restart.damaged() == {"restatement": 1}


def test_damaged_totals_begin_at_zero_and_the_windows_stay(restart):
    restart.start()
    restart.end(snapshot=True)
    restart.spoil("value", "meta WHERE name = 'totals'")
    restart.start()
    assert restart.replayed == 0
    merged = restart.engine.windows.merge(300.0, NOON)
    number = restart.engine.windows.series.keys[SeriesKey("default")]
    assert merged.rows[number][-1] == 30
    assert restart.damaged() == {"totals": 1}


def test_a_damaged_bucket_costs_its_time_only(restart):
    restart.start()
    restart.end(snapshot=True)
    restart.spoil("body", "windows WHERE tier = 0 AND bucket = (SELECT max(bucket) FROM windows"
                          " WHERE tier = 0)")  # fmt: skip
    restart.start()
    assert restart.counted == 30
    assert restart.damaged() == {"windows": 1}
    merged = restart.engine.windows.merge(300.0, NOON)
    number = restart.engine.windows.series.keys[SeriesKey("default")]
    assert 0 < merged.rows[number][-1] < 30


def test_damage_is_a_counter_by_kind(restart):
    restart.start()
    sound = OwnMetrics()
    watch(sound, restart.engine, restart.settings)
    assert b'ragmon_store_undecodable_total{what="block"} 0\n' in shown(sound)
    restart.end()
    restart.spoil("body", SECOND)
    restart.start()
    restart.newest()
    own = OwnMetrics()
    watch(own, restart.engine, restart.settings)
    assert b'ragmon_store_undecodable_total{what="block"} 1\n' in shown(own)
    assert b'ragmon_store_undecodable_total{what="windows"} 0\n' in shown(own)


def shown(own: OwnMetrics) -> bytes:
    return page(own.families(), TEXT)
