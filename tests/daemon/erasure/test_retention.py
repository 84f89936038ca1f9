"""Retention per pipeline: content goes when its time is over, whatever else is in the block."""

from collections import Counter

import pytest
from pydantic import ValidationError

from ragmon.access import matches
from ragmon.config import Settings
from ragmon.daemon.erasure.evidence import EvidenceEraser
from ragmon.daemon.erasure.retention import PipelineRetention, rule_of
from ragmon.privacy.erasure import ERASED
from tests.support.examples import DAY_S, NOON, record
from tests.support.vigil import Vigil

RULES = {"support": {"records": DAY_S}, "hr-*": {"records": 0.5 * DAY_S}}


class Rig(Vigil):
    """A store, and what would run every five minutes."""

    def start(self):
        super().start()
        thread, store = self.engine.thread, self.engine.store
        context = self.alerting._context
        evidence = EvidenceEraser(self.engine, self.alerting)
        self.retention = PipelineRetention(context, evidence)
        self.ask = lambda function: thread.ask(lambda: function(store))

    def later(self, seconds):
        """Time goes by, and one query more comes."""
        self.clock.sleep(seconds)
        self.commit([record(f"tick-{self.clock.now()}", at=self.clock.now(), pipeline="docs")])
        self.retention.run()

    def left(self):
        """Queries with content, by pipeline."""
        with self.engine.store.reader() as reader:
            stored = [
                queries
                for block in reader.block_times()
                for queries in reader.records(block.first_sequence)
            ]
        texts = [each for each in stored if ERASED.encode() not in each]
        return Counter(name for name in ("docs", "support", "hr-1") for each in texts
                       if b"text-" + name.encode() in each)  # fmt: skip


@pytest.fixture
def rig(tmp_path):
    opened = Rig(tmp_path, NOON, retention={"records": 7 * DAY_S, "pipelines": RULES})
    yield opened
    opened.end()


def mixed(at, number=3):
    return [
        record(f"{name}-{at}-{n}", at=at, pipeline=name, query=f"text-{name}")
        for name in ("docs", "support", "hr-1")
        for n in range(number)
    ]


def test_each_pipeline_has_its_time(rig):
    rig.commit(mixed(NOON))
    rig.later(0.4 * DAY_S)
    assert rig.left() == {"docs": 3, "support": 3, "hr-1": 3}
    rig.later(0.2 * DAY_S)
    assert rig.left() == {"docs": 3, "support": 3}
    rig.later(0.5 * DAY_S)
    assert rig.left() == {"docs": 3}
    assert rig.retention.erased == 6


def test_what_comes_late_goes_as_well(rig):
    rig.commit(mixed(NOON))
    rig.later(1.2 * DAY_S)
    rig.commit(mixed(NOON + 1.0, number=2))
    assert rig.left() == {"docs": 5, "support": 2, "hr-1": 2}
    rig.later(60.0)
    assert rig.left() == {"docs": 5}


def test_a_block_over_a_long_time_is_emptied_bit_by_bit(rig):
    rig.commit([each for hour in range(10) for each in mixed(NOON + 3_600.0 * hour, number=1)])
    rig.clock.sleep(10 * 3_600.0)
    rig.later(0.5 * DAY_S - 5 * 3_600.0)
    assert rig.left()["hr-1"] == 5
    assert rig.left()["support"] == 10


def test_nothing_is_written_again_while_no_limit_has_moved_over_it(rig):
    rig.commit(mixed(NOON))
    rig.later(0.6 * DAY_S)
    changes = rig.ask(lambda store: store._db.connection.total_changes)
    rig.retention.run()
    assert rig.ask(lambda store: store._db.connection.total_changes) - changes == 1  # the pass
    assert rig.retention.erased == 3


def test_a_restart_goes_on_and_other_rules_begin_anew(rig):
    rig.commit(mixed(NOON))
    rig.later(0.6 * DAY_S)
    rig._fields["retention"] = {"records": 7 * DAY_S, "pipelines": {"doc*": {"records": 60.0}}}
    rig.crash()
    rig.clock.sleep(120.0)
    rig.later(3_700.0)
    rig.later(3_700.0)
    assert rig.left() == {"support": 3}


def test_a_clock_that_jumps_ahead_erases_nothing(rig):
    rig.commit(mixed(NOON))
    rig.later(60.0)
    rig.clock.step(5 * DAY_S)
    rig.later(60.0)
    assert rig.left() == {"docs": 3, "support": 3, "hr-1": 3}


@pytest.mark.parametrize(
    ("pipeline", "rule"),
    [("hr-x", "hr-*"), ("hr-1", "hr-1"), ("a-hr", "*-hr"), ("docs", "")],
)
def test_a_name_counts_before_a_glob(pipeline, rule):
    rules = {"hr-*": 1.0, "*-hr": 2.0, "hr-1": 3.0}
    assert rule_of(pipeline, rules) == rule
    assert not rule or matches(rule, pipeline)


def test_a_longer_time_is_refused():
    with pytest.raises(ValidationError, match="longer than retention"):
        Settings(retention={"records": 60.0, "pipelines": {"support": {"records": "2m"}}})
