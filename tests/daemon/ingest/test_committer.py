"""Groups of submissions become commits: nothing lost, nothing twice, nothing half."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace

from ragmon.detectors.losses import INDEX, LossMap
from ragmon.errors import StoreBodiesError, StoreError
from ragmon.pipeline import Pipeline, amend
from ragmon.records import Amendments, Label, Latency, Position, QueryRecord, Verdict
from ragmon.stores.sqlite import SqliteStore
from ragmon.stores.sqlite.shard import SqliteShard
from ragmon.windows import Windows
from tests.support.examples import DAY_S, NOON, pipeline, record, windows
from tests.support.rig import Rig, rated, sent

PIPELINE = pipeline(ks=(1,))


@pytest.fixture
def rig(tmp_path):
    found = Rig(tmp_path, PIPELINE)
    yield found
    found.store.close()


# ---- duplicates -----------------------------------------------------------------------------


def test_duplicates_are_counted_for_the_submission_that_sent_them(rig):
    first = sent(record("a"), record("b"), record("a"))
    second = sent(record("b"), record("c"))
    assert rig.commit(first, second) == (1, 1)
    assert rig.store.shard.next_sequence == 3
    assert rig.counted == 3
    third = sent(record("a"), record("d"), record("d"))
    assert rig.commit(third) == (2,)
    assert rig.counted == 4


def test_a_whole_batch_sent_again_changes_nothing(rig):
    batch = [record(f"q{at}", at=NOON - at) for at in range(50)]
    rig.commit(sent(*batch))
    before = rig.windows.totals.rows.copy()
    assert rig.commit(sent(*batch)) == (50,)
    assert rig.store.shard.next_sequence == 50
    np.testing.assert_array_equal(rig.windows.totals.rows, before)


def test_the_first_of_two_records_with_one_id_is_kept(rig):
    rig.commit(sent(record("a", error="E")), sent(record("a")))
    assert rig.sums("error") == (1, 1)


def test_an_offset_moves_on_although_everything_was_sent_before(rig):
    rig.commit(sent(record("a"), offset=b"10"))
    assert rig.commit(sent(record("a"), offset=b"20")) == (1,)
    assert rig.store.shard.offset("source") == b"20"


def test_nothing_to_keep_is_no_commit(rig):
    rig.store.shard.commit = None  # not to be called
    assert rig.commit(sent()) == (0,)
    assert rig.commit() == ()


# ---- repeats --------------------------------------------------------------------------------


def asked(query_id, **fields):
    return record(query_id, query="How?", user_id="ann", **fields)


def test_a_repeat_is_stored_with_its_number_and_counted_as_a_query(rig):
    rig.commit(sent(asked("a"), asked("b")), sent(asked("c")))
    rig.commit(sent(asked("d"), asked("e", at=NOON + 60.0)))
    stored = [
        msgspec.msgpack.decode(rig.store.shard.record(at), type=QueryRecord) for at in range(5)
    ]
    assert [each.repeat for each in stored] == [0, 1, 2, 3, 0]
    assert rig.counted == 5
    assert rig.sums("repeat", now=NOON + 60.0)[0] == 3


def test_a_query_that_is_sent_again_is_a_duplicate_and_no_repeat(rig):
    assert rig.commit(sent(asked("a"), asked("a"))) == (1,)
    assert rig.commit(sent(asked("a"))) == (1,)
    assert rig.sums("repeat") == (0, 0)


def test_what_a_commit_that_failed_would_have_remembered_is_forgotten(rig, monkeypatch):
    def fail(_):
        raise StoreError("no")

    with monkeypatch.context() as patched:
        patched.setattr(rig.store.shard, "commit", fail)
        with pytest.raises(StoreError):
            rig.commit(sent(asked("a")))
    rig.commit(sent(asked("b")))
    assert rig.sums("repeat") == (0, 0)


@pytest.mark.parametrize("privacy", ["redact", "drop"])
def test_questions_are_told_apart_before_their_texts_are_removed(tmp_path, privacy):
    observed_by = Pipeline(PIPELINE.catalogue, privacy=privacy)
    rig = Rig(tmp_path, observed_by)
    mails = [record(name, query=f"I am {name}@example.com", user_id="u") for name in ("a", "b")]
    rig.commit(sent(*mails, record("c", query="I am a@example.com", user_id="u")))
    assert rig.sums("repeat") == (1, 1)
    rig.store.close()


def test_feedback_on_a_repeat_counts_and_its_other_losses_do_not(rig):
    heard = []
    rig.committer.listen(heard.append)
    rig.commit(sent(asked("a", error="E"), asked("b", error="E")))
    rig.commit(sent(changes=[rated("b", -1.0)]))
    losses = LossMap(PIPELINE.columns).losses
    logged = losses(heard[0].logged.values)
    assert logged[:, INDEX["traffic"]].tolist() == [0.0, 0.0]
    assert np.isnan(logged[:, INDEX["error"]]).tolist() == [False, True]
    before, after = (
        losses(part.values)[0] for part in (heard[1].restated.old, heard[1].restated.new)
    )
    assert np.isnan(before[INDEX["positive_feedback"]])
    assert after[INDEX["positive_feedback"]] == 1.0
    assert np.isnan(after[INDEX["error"]])


# ---- feedback and labels --------------------------------------------------------------------


def test_feedback_in_the_commit_of_its_query(rig):
    assert rig.commit(sent(changes=[rated("a", -1.0)]), sent(record("a"))) == (0, 0)
    assert rig.sums("negative_feedback") == (1, 1)
    assert rig.counted == 1
    assert rig.store.shard.waiting_count() == 0


def test_feedback_before_its_query_waits(rig, tmp_path):
    rig.commit(sent(changes=[rated("a"), rated("b")]))
    assert rig.store.shard.waiting_count() == 2
    rig.commit(sent(record("a")))
    assert rig.sums("positive_feedback") == (1, 1)
    assert rig.store.shard.waiting_count() == 1
    rig.store.close()
    again = Rig(tmp_path, PIPELINE)
    again.commit(sent(record("b")))
    assert again.sums("positive_feedback") == (1, 1)
    assert again.store.shard.waiting_count() == 0
    again.store.close()


@pytest.mark.parametrize("time", [-62_135_596_800.0, 315_537_897_600_000.0])
@pytest.mark.parametrize("first", ["feedback", "query"])
def test_a_stored_time_that_nothing_can_read_costs_no_other_query(rig, first, time):
    """An older release stored the zero time of Go: every batch that touched it was refused."""
    change = rated("a")
    force_setattr(change, "timestamp", time)
    old = [sent(changes=[change]), sent(record("a"), record("b"))]
    for submission in old if first == "feedback" else old[::-1]:
        rig.commit(submission)
    assert rig.commit(sent(record("c"), changes=[rated("a", -1.0, at=NOON + 9)])) == (0,)
    assert rig.counted == 3
    assert rig.sums("negative_feedback") == (1, 1)


@pytest.mark.parametrize("first", ["query", "labels"])
def test_a_query_has_room_for_a_hundred_labels(rig, first):
    """Twenty thousand labellers of one query kept everybody else waiting for half a minute."""

    def label(number, faithful):
        return Label(query_id="a", labeller=f"l{number}", faithful=faithful, timestamp=NOON)

    query, labels = sent(record("a")), sent(changes=[label(at, 1.0) for at in range(1_000)])
    for submission in (query, labels) if first == "query" else (labels, query):
        rig.commit(submission)
    assert labels.refused == [(at, "labels_full") for at in range(100, 1_000)]
    revised = sent(changes=[replace(label(99, 0.0), timestamp=NOON + 1), label(100, 0.0)])
    assert rig.commit(revised) == (0,)
    assert revised.refused == [(1, "labels_full")]


def test_waiting_feedback_sent_again_is_a_duplicate_and_takes_no_room(rig):
    assert rig.commit(sent(changes=[rated("a"), rated("a", at=NOON + 1)])) == (1,)
    for retry in range(5):
        assert rig.commit(sent(changes=[rated("a", at=NOON + retry)])) == (1,)
    assert rig.store.shard.waiting_count() == 1
    assert rig.commit(sent(changes=[rated("a", -1.0, at=NOON + 9)])) == (0,)
    rig.commit(sent(record("a")))
    assert rig.sums("negative_feedback") == (1, 1)


def test_too_much_that_waits_is_refused_where_it_stands(tmp_path):
    rig = Rig(tmp_path, PIPELINE, most_waiting=2)
    submission = sent(record("q"), changes=[rated("a"), rated("q"), rated("b"), rated("c")])
    rig.commit(submission)
    assert submission.refused == [(3, "waiting_full")]
    assert rig.store.shard.waiting_count() == 2
    late = sent(changes=[rated("d"), rated("a")])
    assert rig.commit(late) == (1,)
    assert late.refused == [(0, "waiting_full")]
    rig.commit(sent(record("a")))  # makes room
    assert rig.commit(sent(changes=[rated("d")])) == (0,)
    assert rig.store.shard.waiting_count() == 2
    rig.store.close()


@pytest.mark.parametrize("days", [0.0, 1.0, 6.5])
def test_feedback_after_days_restates_the_time_of_its_query(rig, days):
    rig.commit(sent(record("a", feedback=-1.0, latency_ms=Latency(5.0)), record("b")))
    later = NOON + days * DAY_S
    rig.commit(sent(record("c", at=later, pipeline="other")), now=later)
    rig.commit(sent(changes=[rated("a", at=later)]), now=later)
    week = {"window": 7 * DAY_S, "now": later}
    assert rig.sums("positive_feedback", **week) == (1, 1)
    assert rig.sums("negative_feedback", **week) == (1, 0)
    assert rig.sums("feedback_coverage", **week) == (2, 1)
    assert rig.windows.restatements == 1
    if days:
        assert rig.sums("positive_feedback", now=later) == (0, 0)


def test_labels_and_verdicts_restate_too(rig):
    rig.commit(sent(record("a", answer="yes", chunks=[], relevant_ids=["x"])))
    label = Label(query_id="a", faithful=0.0, timestamp=NOON)
    verdict = Verdict(query_id="a", judge="grounding", score=0.25, timestamp=NOON)
    assert rig.commit(sent(changes=[label, verdict, label])) == (1,)
    assert rig.sums("faithfulness", judge="human") == (1, 0.0)
    assert rig.sums("grounding") == (1, 0.25)


def test_many_changes_of_one_query_are_one_restatement(rig):
    rig.commit(sent(record("a")))
    ratings = [rated("a", rating, at=NOON + at) for at, rating in enumerate((1.0, -1.0, 1.0))]
    assert rig.commit(sent(changes=ratings[:2]), sent(changes=ratings[2:])) == (0, 0)
    assert rig.windows.restatements == 1
    assert rig.sums("positive_feedback") == (1, 1)
    assert rig.commit(sent(changes=ratings)) == (3,)
    assert rig.windows.restatements == 1


@pytest.mark.parametrize("again", [False, True], ids=["new", "sent before"])
def test_changes_in_any_order_open_each_block_once(rig, monkeypatch, again):
    """10,000 ratings that go round 60 blocks took the writer 10 s: it opened one for each."""
    for block in range(6):
        rig.commit(sent(*(record(f"q{block}-{at}", at=NOON) for at in range(5))))
    ratings = [rated(f"q{block}-{at}", -1.0) for at in range(5) for block in range(6)]
    if again:
        rig.commit(sent(changes=ratings))
    rig.committer.let_go()
    opened = []
    holding = rig.store.shard._table.holding
    monkeypatch.setattr(
        rig.store.shard._table, "holding", lambda number: opened.append(number) or holding(number)
    )
    submission = sent(changes=ratings)
    rig.commit(submission)
    assert submission.duplicates == (30 if again else 0)
    assert len(opened) == 6
    assert rig.sums("positive_feedback") == (30, 0)


def test_feedback_for_a_query_that_expired_waits_like_for_any_unknown_one(rig):
    rig.commit(sent(record("a")))
    rig.store.state.save_windows([], b"", {0: Position(rig.store.shard.next_sequence, 0)})
    while rig.store.shard.expire(NOON + 1, None):
        pass
    assert rig.commit(sent(changes=[rated("a")])) == (0,)
    assert rig.store.shard.waiting_count() == 1


# ---- failures -------------------------------------------------------------------------------


def test_a_commit_that_fails_leaves_no_trace(rig):
    rig.commit(sent(record("a"), offset=b"10"), sent(changes=[rated("later")]))
    totals = rig.windows.totals.rows.copy()
    traced = record("b", trace_id="t1", latency_ms=Latency(9.0))
    group = [sent(traced, changes=[rated("a")], offset=b"20"), sent(record("later"))]
    commit = rig.store.shard.commit

    def fail(_):
        raise StoreError("no")

    rig.store.shard.commit = fail
    with pytest.raises(StoreError):
        rig.commit(*group)
    rig.store.shard.commit = commit
    assert rig.store.shard.offset("source") == b"10"
    assert rig.store.shard.next_sequence == 1
    assert rig.store.shard.waiting_count() == 1
    assert rig.exemplars.latest == {}
    np.testing.assert_array_equal(rig.windows.totals.rows, totals)
    assert rig.sums("positive_feedback") == (0, 0)
    rig.commit(
        *[
            sent(*each.records, changes=each.changes, offset=b"20" if each.offsets else None)
            for each in group
        ]
    )
    assert rig.store.shard.offset("source") == b"20"
    assert rig.counted == 3
    assert rig.sums("positive_feedback") == (2, 2)
    assert rig.exemplars.latest


def test_records_and_how_far_they_were_read_are_one_transaction(rig, tmp_path):
    full = rig.store._db.number("PRAGMA page_count")
    rig.store._db.connection.execute(f"PRAGMA max_page_count = {full}")
    large = [record(f"q{at}", answer="".join(map(chr, range(33, 9_000)))) for at in range(200)]
    with pytest.raises(StoreError):
        rig.commit(sent(*large, offset=b"10"))
    again = SqliteStore(tmp_path)
    assert (again.shard.next_sequence, again.shard.offset("source")) == (0, None)
    again.close()


# ---- ids that share a hash ------------------------------------------------------------------


@pytest.fixture
def few_hashes(monkeypatch):
    """Ids with the same first letter have the same first hash, with the same last the second."""
    real = SqliteShard.hash

    def colliding(self, query_id, attempt=0):
        return real(self, query_id, attempt) if attempt > 1 else ord(query_id[-attempt])

    monkeypatch.setattr(SqliteShard, "hash", colliding)


def test_another_id_with_the_same_hash_is_no_duplicate(few_hashes, rig):
    assert rig.commit(sent(record("a1"), record("a2"), record("a1"))) == (1,)
    assert rig.commit(sent(record("a3"), record("a2"), record("a1"))) == (2,)
    assert rig.commit(sent(record("a3"), record("a2"), record("a1"), record("b1"))) == (3,)
    assert rig.counted == 4
    assert rig.store.shard.next_sequence == 4


def test_feedback_finds_its_own_query_among_those_with_its_hash(few_hashes, rig):
    rig.commit(sent(record("a1"), record("a2", pipeline="second"), record("a3", pipeline="third")))
    rig.commit(sent(changes=[rated("a2"), rated("a3", -1.0)]))
    rows = rig.windows.merge(300.0, NOON).rows
    found = {
        key.pipeline: rows[number, len(PIPELINE.columns) + at]
        for key, number in rig.windows.series.keys.items()
        for at in [PIPELINE.catalogue.index("positive_feedback")]
        if not key.dimension and key.pipeline != "other"
    }
    assert found == {"default": 0, "second": 1, "third": 0}
    assert rig.sums("feedback_coverage") == (1, 0)


def test_feedback_waits_for_its_own_query_among_those_with_its_hash(few_hashes, rig):
    rig.commit(sent(changes=[rated("a2", -1.0)]))
    rig.commit(sent(record("a1")))
    assert rig.sums("feedback_coverage") == (1, 0)
    assert rig.store.shard.waiting_count() == 1
    assert rig.commit(sent(changes=[rated("a2", -1.0)])) == (1,)
    rig.commit(sent(record("a2")))
    assert rig.sums("negative_feedback") == (1, 1)
    assert rig.store.shard.waiting_count() == 0


# ---- everything at once ---------------------------------------------------------------------

ids = st.sampled_from([f"{letter}{at}" for letter in "abc" for at in range(3)])
stamps = st.integers(0, 600).map(lambda age: NOON - age)
records = st.builds(
    record,
    ids,
    stamps,
    pipeline=st.sampled_from(["docs", "support"]),
    error=st.none() | st.just("E"),
)
changes = st.one_of(
    st.builds(rated, ids, st.sampled_from([-1.0, 1.0]), stamps),
    st.builds(
        Label,
        query_id=ids,
        labeller=st.sampled_from(["ann", "bob"]),
        faithful=st.sampled_from([0.0, 1.0]),
        timestamp=stamps,
    ),
)
submissions = st.tuples(st.lists(records, max_size=4), st.lists(changes, max_size=4))
groups = st.lists(st.lists(submissions, min_size=1, max_size=3), max_size=6)


class Model:
    """Everything in dictionaries by id."""

    def __init__(self) -> None:
        self.records: dict[str, QueryRecord] = {}
        self.known: dict[str, Amendments] = {}

    def commit(self, group) -> tuple[int, ...]:
        duplicates = [0] * len(group)
        for at, (sent_records, _) in enumerate(group):
            for each in sent_records:
                duplicates[at] += each.query_id in self.records
                self.records.setdefault(each.query_id, each)
        for at, (_, sent_changes) in enumerate(group):
            for each in sent_changes:
                before = self.known.get(each.query_id, Amendments())
                after, is_new = amend(before, each)
                if is_new or each.query_id in self.records:  # what waits is not kept again
                    self.known[each.query_id] = after
                duplicates[at] += not is_new
        return tuple(duplicates)

    def windows(self) -> Windows:
        held = windows(PIPELINE)
        if self.records:
            known = [self.known.get(each, Amendments()) for each in self.records]
            held.fold(PIPELINE.observe(list(self.records.values()), known))
        return held


def shown(held: Windows) -> dict:
    rows = held.merge(3_600.0, NOON).rows
    return {
        key: rows[number].round(9).tolist()
        for key, number in held.series.keys.items()
        if rows[number, -1]
    }


@pytest.mark.parametrize("colliding", [False, True], ids=["hashes differ", "hashes collide"])
def test_any_stream_is_as_if_it_had_been_known_at_once(tmp_path_factory, request, colliding):
    if colliding:
        request.getfixturevalue("few_hashes")

    @settings(deadline=None, max_examples=60)
    @given(groups)
    def check(stream):
        rig, model = Rig(tmp_path_factory.mktemp("store"), PIPELINE), Model()
        for group in stream:
            batch = [sent(*each, changes=each_changes) for each, each_changes in group]
            assert rig.commit(*batch) == model.commit(group)
        assert shown(rig.windows) == shown(model.windows())
        awaited = {each for each in model.known if each not in model.records}
        assert (rig.store.shard.waiting_count() > 0) == bool(awaited)
        assert rig.store.shard.next_sequence == len(model.records)
        rig.store.close()

    check()


# ---- records in an object store that is away ------------------------------------------------


def test_feedback_for_a_record_that_cannot_be_read_waits_and_is_taken_up(rig, monkeypatch):
    rig.commit(sent(record("a"), record("b")))

    def away(*_: object) -> bytes:
        raise StoreBodiesError("the object store is away")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteShard, "record", away)
        assert rig.commit(sent(record("a"))) == (1,)  # its hash is enough
        late = sent(record("c"), changes=[rated("a"), rated("c")])
        assert rig.commit(late) == (0,)
        assert late.refused == []
        assert rig.store.shard.waiting_count() == 1
        with pytest.raises(StoreBodiesError):
            rig.committer.take_up(NOON)
        assert rig.store.shard.waiting_count() == 1
    assert rig.sums("positive_feedback") == (1.0, 1.0)
    assert rig.committer.take_up(NOON) == 1
    assert rig.committer.take_up(NOON) == 0
    assert rig.store.shard.waiting_count() == 0
    assert rig.sums("positive_feedback") == (2.0, 2.0)
