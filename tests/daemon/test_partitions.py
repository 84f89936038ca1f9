"""Shards of a worker: changes that wait for their query are counted, to their end."""

import pytest

from ragmon.config import Settings
from ragmon.records import Feedback
from ragmon.stores.quarantine import QuarantinedItem
from tests.support.examples import NOON
from tests.support.sharded import PARTITION, ShardedSite, submission


@pytest.fixture
def site(tmp_path):
    site = ShardedSite(tmp_path)
    yield site
    site.close()


def test_feedback_whose_query_never_comes_is_counted_while_it_waits_and_when_it_goes(site):
    feedback = Feedback(query_id="of another way", rating=-1.0, timestamp=NOON)
    site.shard.commit(submission(changes=[feedback]))
    site.claim()
    assert (site.worker.waiting_changes, site.worker.waiting_expired) == (1, 0)
    site.clock.sleep(Settings().retention.records + 61.0)
    site.claim()
    assert (site.worker.waiting_changes, site.worker.waiting_expired) == (0, 1)
    site.worker.let_go(PARTITION)
    assert site.worker.waiting_expired == 1


def test_quarantined_messages_are_deleted_after_quarantine_keep(site):
    item = QuarantinedItem("decode", "malformed", NOON, "partition 4, offset 7", "half", b"{")
    site.shard.commit(submission(quarantined=[item]))
    quarantine = site.shard.shard.quarantine()
    site.clock.sleep(Settings().quarantine.keep - 1.0)
    site.claim()
    assert quarantine.counts["decode"] == 1
    site.clock.sleep(61.0)
    site.claim()
    assert quarantine.counts.get("decode", 0) == 0
