"""Shards of a worker: changes that wait for their query are counted, to their end."""

import pytest

from ragmon.config import Settings
from ragmon.records import Feedback
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
