"""An evaluator's committer and a worker's shard on one database, without their processes."""

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.erasure.shard_requests import ERASE, carry_out
from ragmon.daemon.ingest.committer import Committer
from ragmon.daemon.ingest.elsewhere import Elsewhere
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.daemon.partitions import Uncounted, WorkerShards, WorkerTasks
from ragmon.records import number_of
from ragmon.sources import IngestOutcome, Submission
from ragmon.stores import amendments
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.shards import PostgresShards
from tests.support.examples import NOON, pipeline, record
from tests.support.postgres import shared_server
from tests.support.stores import opened

PIPELINE = pipeline()
PARTITION = 4


class ShardedSite:
    """An evaluator's committer, and one worker with one partition."""

    def __init__(self, tmp_path):
        self.clock = ManualClock(NOON)
        self.store = opened("postgresql", tmp_path)
        self.store.share()
        self.schema = self.store.shard._db.schema
        self.others = self.store.others()
        self.committer = Committer(
            self.store.shard, PIPELINE, Uncounted(), ExemplarStore(), most_waiting=100
        )
        self.committer.elsewhere = Elsewhere(self.others, self.store.reader, self.store.shard.hash)
        self.worker = self.new_worker()
        self.shard = self.worker.take(PARTITION)

    def new_worker(self, name="worker"):
        access = DatabaseAccess(dsn=shared_server().url)
        worker = WorkerShards(
            lambda: PostgresShards(access, self.schema, name),
            PIPELINE, Settings(), self.clock, lambda _: None, tasks=WorkerTasks({ERASE: carry_out}),
        )  # fmt: skip
        worker.check()
        return worker

    def stores(self, *ids, **fields):
        """The worker stores queries."""
        records = [record(each, pipeline="docs", **fields) for each in ids]
        self.shard.commit(submission(records=records))

    def posted(self, *changes, **fields):
        """What becomes of changes that came to the evaluator: (duplicates, refused)."""
        sent = submission(changes=changes, **fields)
        self.committer.commit([sent], NOON)
        return sent.duplicates, sent.refused

    def submit(self, submission):
        """Commit at once, as a writer would in a moment."""
        self.committer.commit([submission], NOON)
        submission.reply(IngestOutcome(len(submission.changes)))

    def claim(self, worker=None):
        self.clock.sleep(1.0)
        (worker or self.worker).maintain()

    def next_sequence(self):
        """Number of the worker's next query, within its shard."""
        return self.shard.shard.next_sequence

    def handed(self):
        return shared_server().execute(f"SELECT count(*) FROM {self.schema}.inbox")[0][0]

    def known(self, sequence=0):
        """Amendments of one of the worker's queries."""
        with self.store.reader() as reader:
            stored = reader.record(number_of(PARTITION + 1, sequence))
        return amendments.decode(stored[1]).known if stored and stored[1] else None

    def close(self):
        self.worker.close()
        self.others.close()
        self.store.close()


def submission(**fields):
    return Submission("test", 1, lambda _: None, **fields)
