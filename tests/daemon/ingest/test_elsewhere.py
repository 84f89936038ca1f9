"""Changes for queries of other shards: handed to their owners, and applied once."""

import pytest

from ragmon.access import Pipelines
from ragmon.errors import StoreError
from ragmon.records import Feedback, Label
from ragmon.stores import amendments
from tests.support.examples import NOON, record
from tests.support.postgres import shared_server
from tests.support.sharded import PARTITION, ShardedSite, submission


@pytest.fixture
def site(tmp_path):
    site = ShardedSite(tmp_path)
    yield site
    site.close()


def rating(query_id, value=-1.0, at=NOON):
    return Feedback(query_id=query_id, rating=value, timestamp=at)


def test_feedback_reaches_the_query_of_a_worker_once(site):
    site.stores("a", "b")
    assert site.posted(rating("b"), Label(query_id="a", faithful=1.0)) == (0, [])
    assert site.handed() == 2
    assert site.known() is None  # its owner has not seen it yet
    site.claim()
    assert site.handed() == 0
    assert site.known(1).feedback.rating == -1.0
    assert site.known(0).labels[0].faithful == 1.0
    restated = shared_server().execute(
        f"SELECT last_restatement FROM {site.schema}.shards WHERE shard = {PARTITION + 1}"
    )
    assert restated == [(1,)]
    assert site.posted(rating("b")) == (1, [])  # told by what is stored
    assert site.handed() == 0


def test_what_is_sent_again_before_its_owner_applied_it_counts_once(site):
    site.stores("a")
    for _ in range(3):
        assert site.posted(rating("a"), rating("a")) == (1, [])
    assert site.handed() == 3
    site.claim()
    assert site.handed() == 0
    restated = shared_server().execute(
        f"SELECT last_restatement FROM {site.schema}.shards WHERE shard = {PARTITION + 1}"
    )
    assert restated == [(1,)]


def test_a_sender_without_the_right_is_refused(site):
    site.stores("a")
    assert site.posted(rating("a"), pipelines=Pipelines(["other"])) == (
        0,
        [(0, "pipeline_forbidden")],
    )
    assert site.handed() == 0
    assert site.posted(rating("a"), pipelines=Pipelines(["do*"])) == (0, [])
    assert site.handed() == 1


def test_feedback_before_its_query_waits_and_is_handed_over(site):
    assert site.posted(rating("late"), rating("never"), pipelines=Pipelines(["docs"])) == (0, [])
    assert site.posted(rating("theirs"), pipelines=Pipelines(["other"])) == (0, [])
    assert site.store.shard.waiting_count() == 3
    assert site.committer.hand_over(NOON, newest_only=False) == 0
    site.stores("late", "theirs")
    assert site.committer.hand_over(NOON, newest_only=True) == 1
    assert site.committer.forbidden == 1
    assert site.store.shard.waiting_count() == 1
    assert site.committer.hand_over(NOON, newest_only=True) == 0
    site.claim()
    assert site.known(0).feedback.rating == -1.0
    assert site.known(1) is None


def test_a_worker_that_lost_its_shard_claims_nothing(site):
    site.stores("a")
    site.posted(rating("a"))
    successor = site.new_worker("successor")
    successor.take(PARTITION)
    with pytest.raises(StoreError, match="taken over"):
        site.claim()
    assert site.handed() == 1
    assert site.known() is None
    site.claim(successor)
    assert site.handed() == 0
    assert site.known().feedback.rating == -1.0
    successor.close()


def test_a_commit_of_the_evaluator_that_is_refused_hands_nothing_over(site):
    site.stores("a")
    shared_server().execute(f"UPDATE {site.schema}.shards SET epoch = epoch + 1 WHERE shard = 0")
    with pytest.raises(StoreError):
        site.posted(rating("a"))
    assert site.handed() == 0


def test_what_is_damaged_in_the_inbox_stays_and_costs_only_itself(site):
    site.stores("a", "b")
    site.posted(rating("a"), rating("b"))
    shared_server().execute(
        f"UPDATE {site.schema}.inbox SET body = set_byte(body, 20, 7) WHERE sequence = 0"
    )
    site.claim()
    site.claim()
    assert site.handed() == 1
    assert site.known(1).feedback.rating == -1.0


def test_changes_of_a_query_that_is_gone_go_too(site):
    site.stores("a")
    site.posted(rating("a"))
    shared_server().execute(f"DELETE FROM {site.schema}.blocks")
    site.claim()
    assert site.handed() == 0
    rows = shared_server().execute(f"SELECT count(*) FROM {site.schema}.waiting")
    assert rows == [(0,)]


def test_the_evaluators_own_queries_are_changed_at_once(site):
    site.stores("a")
    site.committer.commit([submission(records=[record("own")])], NOON)
    assert site.posted(rating("own"), rating("a")) == (0, [])
    assert site.handed() == 1
    with site.store.reader() as reader:
        assert amendments.decode(reader.record(0)[1]).known.feedback.rating == -1.0
