"""Judging of what workers stored: read in place, verdicts and draws handed to their owner."""

import pytest

from ragmon.clock import ManualClock
from ragmon.daemon.ingest.record_cache import RecordCache
from ragmon.daemon.judging import grounding_follower
from ragmon.daemon.judging.committed_reader import SOURCE, CommittedReader
from ragmon.daemon.judging.grounding_follower import GroundingFollower, VerdictHooks
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.errors import StoreError
from ragmon.judges.grounding import GroundingResult
from ragmon.records import Chunk, Draw, Verdict, number_of
from ragmon.sources import IngestOutcome
from tests.support.examples import NOON, record
from tests.support.postgres import shared_server
from tests.support.sharded import PARTITION, ShardedSite, submission

ANSWER = {"answer": "It rains.", "chunks": [Chunk("c", None, "It rains.")]}


class Reading:
    """In the place of the judge's process."""

    def __init__(self):
        self.read = 0

    def judge(self, cases):
        self.read += len(cases)
        return [GroundingResult(0.5, None, (), (), "") for _ in cases]


class OnThisThread:
    """In the place of the writer's thread."""

    def __init__(self, part):
        self._part = part

    def ask(self, function):
        return function(self._part)


@pytest.fixture
def site(tmp_path):
    site = ShardedSite(tmp_path)
    yield site
    site.close()


def following(site, sink=None):
    """A follower of both shards, as a new process makes it."""
    own = site.store.shard
    committed = CommittedReader(
        site.store.reader,
        newest=lambda: {
            0: own.next_sequence,
            PARTITION + 1: number_of(PARTITION + 1, site.next_sequence()),
        },
        position=own.offset,
        cache=RecordCache(),
    )
    hooks = VerdictHooks(on_verdict=lambda *_: None, draws=draws)
    return GroundingFollower(committed, sink or site, Reading(), ManualClock(NOON), hooks)


def draws(records, verdicts, share):
    return [
        Draw(query_id=each.query_id, probability=0.25, proxy=0.5, drawn=True, timestamp=NOON)
        for each in records
    ]


def judge_all(site, follower):
    follower.resume()
    with site.store.reader() as reader:
        while follower.step(reader):
            pass
    return follower._worker.read


def test_answers_of_all_shards_are_read_once_and_verdicts_reach_them(site):
    site.stores("a", "b", **ANSWER)
    site.submit(submission(records=[record("own", **ANSWER)]))
    assert judge_all(site, following(site)) == 3
    assert site.handed() == 4  # a verdict and a draw of each
    assert judge_all(site, following(site)) == 0  # also after a restart
    site.claim()
    assert site.handed() == 0
    for sequence in (0, 1):
        known = site.known(sequence)
        assert [(each.judge, each.score) for each in known.verdicts] == [("grounding", 0.5)]
        assert (known.draw.drawn, known.draw.probability) == (True, 0.25)
    site.stores("c", **ANSWER)
    assert judge_all(site, following(site)) == 1
    positions = shared_server().execute(
        f"SELECT source, source_offset FROM {site.schema}.sides WHERE shard = 0 ORDER BY source"
    )
    assert positions == [(SOURCE, b"1"), (f"{SOURCE}/{PARTITION + 1}", b"3")]


class Refusing:
    """A sink of a process that dies before its commit."""

    def submit(self, submission):
        submission.reply(IngestOutcome(error=StoreError("killed")))


def test_what_was_not_committed_is_judged_again(site, monkeypatch):
    monkeypatch.setattr(grounding_follower, "deliver", lambda *_: None)
    site.stores("a", **ANSWER)
    assert judge_all(site, following(site, Refusing())) == 1
    monkeypatch.undo()
    assert site.handed() == 0
    assert judge_all(site, following(site)) == 1


def queue_of(site):
    answers = OnThisThread(site.store.shard.awaited())
    remembered = OnThisThread(site.store.state.remembered())
    return JudgeQueue(answers, remembered, site.store.reader, site)


def test_answers_of_workers_wait_for_the_sampled_judge_until_its_verdict_is_on_its_way(site):
    site.stores("a", "b", **ANSWER)
    judge_all(site, following(site))
    site.claim()
    queue = queue_of(site)
    waiting = sorted(row.sequence for row in queue.waiting(()))
    assert waiting == [number_of(PARTITION + 1, 0), number_of(PARTITION + 1, 1)]
    assert [row.sequence for row in queue.overdue(NOON + 1.0, 9)] == waiting
    with site.store.reader() as reader:
        rows = {row.sequence: queue.read(reader, row) for row in queue.waiting(())}
    drawn, draw = rows[waiting[1]]
    assert (drawn.query_id, draw.probability) == ("b", 0.25)
    verdict = Verdict(query_id="b", judge="llm", score=1.0, probability=0.25, timestamp=NOON)
    follower = following(site)
    assert queue.commit([verdict], follower.loop.stopping, places={"b": waiting[1]})
    assert queue.count() == 1  # also for a process that starts before its owner has it
    assert [row.sequence for row in queue_of(site).waiting(())] == waiting[:1]
    site.claim()
    assert queue.count() == 1
    assert [each.judge for each in site.known(1).verdicts] == ["grounding", "llm"]


def test_an_answer_whose_record_is_gone_is_awaited_no_longer(site):
    site.stores("a", **ANSWER)
    judge_all(site, following(site))
    site.claim()
    shared_server().execute(f"DELETE FROM {site.schema}.blocks WHERE shard = {PARTITION + 1}")
    queue = queue_of(site)
    [row] = queue.waiting(())
    with site.store.reader() as reader:
        assert queue.read(reader, row) is None
    assert queue.count() == 0
