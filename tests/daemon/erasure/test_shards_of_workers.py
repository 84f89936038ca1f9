"""Erasure of a person's content in the shards of workers."""

from types import SimpleNamespace

import pytest

from ragmon.daemon.erasure.shard_requests import ErasedInShard, ShardRequests
from ragmon.daemon.ingest.identities import stored_id
from ragmon.errors import StoreError
from ragmon.privacy.erasure import Subject, is_erased
from ragmon.records import Feedback, number_of
from tests.support.examples import NOON
from tests.support.sharded import PARTITION, ShardedSite

SHARD = PARTITION + 1
USER = Subject(kind="user", id="ada")


class ThisThread:
    """In the place of the writer's thread."""

    def ask(self, function):
        return function()


class ErasedSite(ShardedSite):
    """The evaluator's side of erasure, with one worker."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        engine = SimpleNamespace(others=self.others, committer=self.committer, thread=ThisThread())
        self.requests = ShardRequests(engine)

    def asked(self, request=1, subject=USER):
        """What has been answered, and whether that is all."""
        answers = self.requests.ask(request, subject, NOON, NOON)
        return sorted(answers.rows.values(), key=lambda each: each.shard), answers.is_complete

    def caught_up(self, worker=None):
        """The worker has stored all that the log held."""
        (worker or self.worker).complete({PARTITION: NOON + 1.0})

    def ids(self):
        with self.store.reader() as reader:
            return [
                stored_id(reader.record(number_of(SHARD, at))[0])
                for at in range(self.next_sequence())
            ]


@pytest.fixture
def site(tmp_path):
    site = ErasedSite(tmp_path)
    yield site
    site.close()


def rating(query_id):
    return Feedback(query_id=query_id, rating=-1.0, comment="mine", timestamp=NOON)


def test_the_owner_erases_and_the_answer_comes_once(site):
    site.stores("a", "b", user_id="ada", query="Who am I?")
    site.stores("c", user_id="bob", query="And I?")
    site.posted(rating("a"), rating("c"))
    site.claim()
    site.caught_up()
    assert site.asked() == ([], False)
    assert site.asked() == ([], False)  # a second look asks nobody again
    assert site.handed() == 1
    site.claim()
    site.claim()
    done = ErasedInShard(shard=SHARD, records=2, changes=1)
    assert site.asked() == ([done], True)
    assert site.asked() == ([done], True)
    assert [is_erased(each) for each in site.ids()] == [True, True, False]
    with site.store.reader() as reader:
        record, known = reader.record(number_of(SHARD, 0))
        assert b"Who am I" not in record
        assert b"mine" not in known
        assert b"And I?" in reader.record(number_of(SHARD, 2))[0]
    site.requests.settle(1)
    assert site.handed() == 0
    site.stores("a", user_id="ada")  # sent again: its id is known still
    assert len(site.ids()) == 3


def test_nothing_is_asked_before_workers_have_stored_what_was_sent_before(site):
    site.stores("a", user_id="ada")
    assert site.asked() == ([], False)
    site.worker.complete({PARTITION: NOON - 1.0})
    assert site.asked() == ([], False)
    assert site.handed() == 0
    site.caught_up()
    assert site.asked() == ([], False)
    assert site.handed() == 1


def test_a_worker_that_lost_its_shard_is_followed_by_one_that_erases(site):
    site.stores("a", user_id="ada")
    site.caught_up()
    site.asked()
    successor = site.new_worker("successor")
    successor.take(PARTITION)
    with pytest.raises(StoreError, match="taken over"):
        site.claim()
    assert site.ids() == ["a"]
    site.claim(successor)
    site.claim(successor)
    site.caught_up(successor)
    assert site.asked() == ([ErasedInShard(shard=SHARD, records=1)], True)
    assert is_erased(site.ids()[0])
    successor.close()


def test_requests_do_not_take_one_anothers_answers(site):
    site.stores("a", user_id="ada")
    site.stores("b", session_id="s")
    site.caught_up()
    session = Subject(kind="session", id="s")
    site.asked(1)
    site.asked(2, session)
    for _ in range(3):
        site.claim()
    assert site.asked(1) == ([ErasedInShard(shard=SHARD, records=1)], True)
    assert site.asked(2, session) == ([ErasedInShard(shard=SHARD, records=1)], True)
    site.requests.settle(1)
    assert site.handed() == 1
    site.requests.settle(2)
    assert site.handed() == 0
