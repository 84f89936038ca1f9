"""A short storm, and a worker that loses what it could not commit; ``make chaos`` is long."""

from collections import Counter

import pytest

from ragmon.clock import SystemClock
from tests.chaos.fleet import Fleet
from tests.chaos.storm import Storm, traffic_for
from tests.chaos.verdict import stored
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

IDS, LASTS_S = 5_000, 24.0


def test_nothing_is_lost_or_doubled_whatever_dies(tmp_path):
    with Fleet(tmp_path, SystemClock()) as fleet:
        fleet.start()
        with traffic_for(fleet, ids=IDS, lasts_s=LASTS_S, seed=1) as traffic:
            storm = Storm(fleet, traffic, kills=9, freezes=3, seed=5)
            storm.rage(LASTS_S)
            outcome = storm.settle()
    assert outcome.events.total() == 12
    assert {"worker", "evaluator", "PostgreSQL", "Kafka", "frozen worker"} <= {*outcome.events}
    assert outcome.rated > IDS / 20


def test_a_worker_that_does_not_seek_back_is_caught(tmp_path):
    """The verdict sees a loss: this worker goes on behind a batch that it could not commit."""
    with Fleet(tmp_path, SystemClock(), database=(), patch="tests.chaos.naive") as fleet:
        fleet.start()
        with traffic_for(fleet, ids=2_000, lasts_s=8.0, seed=2) as traffic:
            traffic.start()
            eventually(lambda: fleet.counted() > 100, "some are counted", 60)
            fleet.crash_database(2.0)
            eventually(lambda: traffic.is_over, "all is in the log", 60)
            storm = Storm(fleet, traffic, kills=0, freezes=0, seed=1)
            with pytest.raises(AssertionError, match="lost="):
                storm.settle(within_s=15.0)
            assert stored(fleet, traffic).lost > 0
        assert storm.events == Counter()
