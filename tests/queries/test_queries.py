"""The queries behind a number, against a pass over every record."""

import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragmon import queries
from ragmon.api_schema import QueryDetail
from ragmon.detectors.losses import INDEX, LossMap
from ragmon.errors import ReadTimeoutError
from ragmon.pipeline import Pipeline, amend
from ragmon.queries import blocks
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.contents import FIELDS
from ragmon.queries.criteria import FEEDBACK, FailedWay, check_filter, failures
from ragmon.queries.summaries import layout_of, summarize
from ragmon.queries.words import WordSearch
from ragmon.records import Amendments, Feedback, Label, Latency, QueryRecord, Verdict
from ragmon.signals.failure_mode import MODES
from ragmon.stores.packing import read_observations
from ragmon.stores.sqlite import maintenance
from ragmon.stores.sqlite import reader as sqlite_reader
from ragmon.windows import observations
from tests.support.examples import NOON, chunks, pipeline, query_records, record
from tests.support.rig import Rig, rated, sent

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3), slow_ms=1_000.0, low_score=0.3)
FAILURES = failures(PIPELINE)


def newest(rig: Rig, pipeline_: Pipeline | None = None, **wanted: Any) -> list[QueryDetail]:
    defaults = {"since": 0.0, "until": 2e9, "pipeline": "", "failing": (), "limit": 50}
    with rig.store.reader() as reader:
        query_filter = QueryFilter(**(defaults | wanted))
        return queries.newest(reader, pipeline_ or rig.pipeline, query_filter)


def ids(details: list[QueryDetail]) -> list[str]:
    return [detail.record.query_id for detail in details]


@pytest.fixture
def rig(tmp_path):
    found = Rig(tmp_path, PIPELINE)
    yield found
    found.store.close()


# ---- against brute force --------------------------------------------------------------------


class Everything:
    """Every record with what is known of it, in the order of its number."""

    def __init__(self) -> None:
        self.records: dict[str, QueryRecord] = {}
        self.known: dict[str, Amendments] = {}

    def add(self, group_records, group_changes) -> None:
        for each in group_records:
            self.records.setdefault(each.query_id, each)
        for each in group_changes:
            before = self.known.get(each.query_id, Amendments())
            self.known[each.query_id], _ = amend(before, each)

    def newest(self, wanted: QueryFilter) -> list[str]:
        found = []
        for sequence, (query_id, query) in enumerate(self.records.items()):
            known = self.known.get(query_id, Amendments())
            row = PIPELINE.observe([query], [known]).values[0]
            fits = wanted.since <= query.timestamp < wanted.until
            fits &= wanted.pipeline in ("", query.pipeline)
            fits &= wanted.version in (None, query.version)
            fits &= all((query.tags or {}).get(key, "") == value for key, value in wanted.tags)
            fits &= all((getattr(query, field) or "") == value for field, value in wanted.same)
            if wanted.words is not None:
                words = re.findall(r"\w+", f"{query.query or ''} {query.answer or ''}".lower())
                fits &= set(wanted.words.keys) <= set(words)
            fits &= self.is_rated(row, wanted) and self.is_scored(row, known, wanted)
            bad = [self.fails(row, FAILURES[name]) for name in wanted.failing]
            if fits and (any(bad) or not wanted.failing):
                rank = query.timestamp
                if wanted.slowest:
                    rank = row[PIPELINE.catalogue.index("latency_ms", stage="total")]
                elif wanted.worst or wanted.failing == ("unfaithful",):
                    rank = 1.0 - self.faithfulness(row, known)
                if not np.isnan(rank):
                    found.append((rank, sequence, query_id))
        return [query_id for _, _, query_id in sorted(found, reverse=True)]

    def is_rated(self, row: np.ndarray, wanted: QueryFilter) -> bool:
        index = PIPELINE.catalogue.index
        if wanted.mode and row[index("failure_mode", mode=wanted.mode)] != 1.0:
            return False
        if wanted.feedback == "none":
            return row[index("feedback_coverage")] == 0.0
        return not wanted.feedback or row[index(f"{wanted.feedback}_feedback")] == 1.0

    def is_scored(self, row: np.ndarray, known: Amendments, wanted: QueryFilter) -> bool:
        if wanted.least_score is None and wanted.most_score is None:
            return True
        least, most = wanted.least_score or 0.0, wanted.most_score
        return least <= self.faithfulness(row, known) <= (1.0 if most is None else most)

    def fails(self, row: np.ndarray, failure: FailedWay) -> bool:
        known = [row[column] for column in failure.columns if not np.isnan(row[column])]
        return bool(known) and known[0] == failure.bad

    def faithfulness(self, row: np.ndarray, known: Amendments) -> float:
        index = PIPELINE.catalogue.index
        human = row[index("faithfulness", judge="human")]
        if not np.isnan(human):
            return human
        sampled = [each.score for each in known.verdicts if each.judge == "llm"]
        if sampled and sampled[0] is not None:
            return sampled[0]
        return row[index("faithfulness", judge="grounding")]


def summarized(rig: Rig) -> None:
    """Make every summary that is missing."""
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout_of(rig.pipeline), rig.store.shard.next_sequence, 1_000)
        rig.store.shard.summaries().begin(due)
        rows = [
            summarize(reader, rig.pipeline, each.first_sequence, with_keys=each.needs_keys)
            for each in due
        ]
        assert rig.store.shard.summaries().put(rows) == len(due)
        assert not reader.due_summaries(
            layout_of(rig.pipeline), rig.store.shard.next_sequence, 1_000
        )


names = st.sampled_from([f"q{at}" for at in range(15)])
stamps = st.integers(0, 20).map(lambda age: NOON - age)
changes = st.one_of(
    st.builds(rated, names, st.sampled_from([-1.0, 1.0]), stamps),
    st.builds(
        Label,
        query_id=names,
        relevant_ids=st.none() | st.lists(st.sampled_from("abz"), max_size=2),
        faithful=st.sampled_from([0.0, 0.4, 1.0]),
        timestamp=stamps,
    ),
    st.builds(
        Verdict,
        query_id=names,
        judge=st.sampled_from(["grounding", "llm"]),
        score=st.none() | st.sampled_from([0.1, 0.3, 0.9]),
        timestamp=stamps,
    ),
)
few = st.none() | st.sampled_from(["a", "b"])
asked_queries = st.builds(
    replace,
    query_records(stamps, names),
    environment=few,
    model=few,
    session_id=few,
    user_id=few,
    trace_id=few,
)
groups = st.tuples(
    st.lists(asked_queries, max_size=5), st.lists(changes, max_size=4), st.booleans()
)
scores = st.none() | st.sampled_from([0.0, 0.2, 0.4, 0.9])
wanted = st.builds(
    QueryFilter,
    readable=st.none(),
    since=st.sampled_from([0.0, NOON - 12, NOON - 3]),
    until=st.sampled_from([2e9, NOON - 1, NOON - 10]),
    pipeline=st.sampled_from(["", "", "docs", "nobody"]),
    failing=st.lists(st.sampled_from(sorted(FAILURES)), max_size=2, unique=True).map(tuple),
    limit=st.sampled_from([1, 2, 5, 50]),
    version=st.sampled_from([None, None, "", "v1", "nobody's"]),
    tags=st.dictionaries(  # one is a slice, the other is not
        st.sampled_from(["tenant", "region"]), st.sampled_from(["", "a", "b"]), max_size=2
    ).map(lambda tags: tuple(tags.items())),
    slowest=st.booleans(),
    worst=st.booleans(),
    same=st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(["", "a", "c"]), max_size=1).map(
        lambda same: tuple(same.items())
    ),
    mode=st.sampled_from(["", "", *MODES]),
    feedback=st.sampled_from(["", "", *FEEDBACK]),
    least_score=scores,
    most_score=scores,
    words=st.sampled_from(["", "", "card", "PAY How", "know karte", "nowhere"]).map(
        lambda words: WordSearch.of(words) if words else None
    ),
    after=st.none(),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(groups, max_size=6), st.lists(wanted, min_size=1, max_size=6), st.booleans())
def test_pages_are_those_of_a_pass_over_everything(stream, asked, compacted):
    everything = Everything()
    with tempfile.TemporaryDirectory() as name:
        rig = Rig(Path(name), PIPELINE)
        for group_records, group_changes, is_summarized in stream:
            rig.commit(sent(*group_records, changes=group_changes))
            everything.add(group_records, group_changes)
            if is_summarized:
                summarized(rig)
        if compacted:
            maintenance.compact(rig.store._db, 0, rig.store.shard.next_sequence)
        for each in asked:
            expected = everything.newest(each)
            assert paged(rig, each, len(expected)) == expected, each
        rig.store.close()


def paged(rig: Rig, asked: QueryFilter, count: int) -> list[str]:
    """The ids of all pages."""
    listed: list[str] = []
    with rig.store.reader() as reader:
        page = queries.page(queries.QuerySearch(reader, rig.pipeline, asked, goes_on=lambda: True))
        assert page.matches == queries.MatchCount(total=count, at_least=False)
        listed += ids(page.queries)
        while page.after is not None:
            assert len(page.queries) == asked.limit
            asked = asked._replace(after=page.after)
            page = queries.page(queries.QuerySearch(reader, rig.pipeline, asked))
            listed += ids(page.queries)
    return listed


# ---- by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        pytest.param("refusal", ["right", "wrong"], id="answers that decline"),
        pytest.param("false_refusal", ["wrong"], id="although something relevant was retrieved"),
        pytest.param("missing_refusal", ["made up"], id="an answer out of nothing"),
    ],
)
def test_answers_that_decline_are_found(rig, failing, expected):
    declines = "I do not know."
    rig.commit(
        sent(
            record("fine", at=NOON - 5, chunks=chunks("a"), relevant_ids=["a"], answer="Five."),
            record("wrong", at=NOON - 4, chunks=chunks("a"), relevant_ids=["a"], answer=declines),
            record("right", at=NOON - 3, chunks=[], answer=declines),
            record("made up", at=NOON - 2, chunks=[], answer="Five."),
        )
    )
    assert ids(newest(rig, failing=(failing,))) == expected


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        pytest.param((), ["slow", "disliked", "empty", "failed", "fine"], id="any, newest first"),
        pytest.param(("error",), ["failed"], id="failed"),
        pytest.param(("zero_result",), ["empty"], id="nothing retrieved"),
        pytest.param(("slow", "error"), ["slow", "failed"], id="either"),
        pytest.param(("disliked",), ["disliked"], id="disliked later"),
        pytest.param(("retrieval",), ["empty", "failed"], id="retrieval is to blame"),
        pytest.param(("generation",), ["disliked"], id="generation is to blame"),
        pytest.param(("unfaithful",), [], id="nobody was judged"),
    ],
)
def test_failing(rig, failing, expected):
    rig.commit(
        sent(
            record("fine", at=NOON - 5, chunks=chunks("a")),
            record("failed", at=NOON - 4, error="E"),
            record("empty", at=NOON - 3, chunks=[]),
            record("disliked", at=NOON - 2, chunks=chunks("a")),
            record("slow", at=NOON - 1, latency_ms=Latency(2_000.0)),
        )
    )
    rig.commit(sent(changes=[rated("disliked", -1.0)]))
    assert ids(newest(rig, failing=failing)) == expected


def test_the_least_faithful_come_first(rig):
    scores = {"worst": 0.1, "bad": 0.4, "good": 0.9}
    rig.commit(sent(*(record(each, at=NOON + at) for at, each in enumerate(scores))))
    rig.commit(
        sent(
            changes=[
                Verdict(query_id=each, judge="grounding", score=score, timestamp=NOON)
                for each, score in scores.items()
            ]
        )
    )
    assert ids(newest(rig, failing=("unfaithful",))) == ["worst", "bad"]
    assert ids(newest(rig, failing=("unfaithful",), limit=1)) == ["worst"]
    human = Label(query_id="bad", faithful=0.0, timestamp=NOON)
    rig.commit(sent(changes=[human]))
    assert ids(newest(rig, failing=("unfaithful",))) == ["bad", "worst"]


def test_a_changed_mind_leaves_the_list(rig):
    rig.commit(sent(record("a", feedback=-1.0)))
    assert ids(newest(rig, failing=("disliked",))) == ["a"]
    rig.commit(sent(changes=[rated("a", 1.0)]))
    assert newest(rig, failing=("disliked",)) == []


@pytest.mark.parametrize("ks", [(1, 3, 5), (3,)], ids=["a signal more", "a signal less"])
def test_amendments_from_before_the_signals_changed_are_worked_out_anew(rig, ks):
    rig.commit(sent(record("a", chunks=chunks("x", "y")), record("b", chunks=chunks("x", "y"))))
    rig.commit(sent(changes=[Label(query_id="b", relevant_ids=["z"], timestamp=NOON)]))
    now = pipeline(ks=ks, slow_ms=1_000.0, low_score=0.3)
    assert ids(newest(rig, now, failing=("miss",))) == ["b"]


def test_only_blocks_that_can_matter_are_opened(rig):
    for at in range(10):
        rig.commit(sent(record(f"q{at}", at=NOON + at)))
    with rig.store.reader() as reader:
        seen = []
        block = reader.block

        def watched(first_sequence, **how):
            seen.append(first_sequence)
            return block(first_sequence, **how)

        reader.block = watched
        wanted_ = QueryFilter(0.0, 2e9, "", (), 2)
        assert ids(queries.newest(reader, PIPELINE, wanted_)) == ["q9", "q8"]
    assert seen == [9, 8, 7]


def test_a_record_is_copied_and_a_column_unpacked_only_where_it_is_asked_for(rig, monkeypatch):
    """Of 300 blocks of 1,000 queries each, all of both took two thirds of a read's time."""
    for block in range(6):
        names = [f"{block}-{at}" for at in range(20)]
        rig.commit(sent(failed(names[0], NOON + block), *map(record, names[1:])))
    rig.commit(sent(changes=[Feedback(query_id="2-7", rating=-1.0, timestamp=NOON)]))
    unpacked: list[tuple[str, ...]] = []
    opened: dict[int, list[int]] = {}

    def unpack(packed, columns):
        unpacked.append(tuple(columns))
        return observations.unpack(packed, columns)

    monkeypatch.setattr(blocks, "unpack", unpack)
    with rig.store.reader() as reader:
        some_records = reader.some_records

        def watched(first, places):
            opened[first] = list(places)
            return some_records(first, places)

        reader.some_records = watched
        asked = QueryFilter(0.0, 2e9, "", ("error",), 4)
        assert ids(queries.newest(reader, PIPELINE, asked)) == ["5-0", "4-0", "3-0", "2-0"]
        assert opened == {100: [0], 80: [0], 60: [0], 40: [0]}
        assert set(unpacked) == {(PIPELINE.columns[FAILURES["error"].columns[0]],)}
        opened.clear()
        asked = QueryFilter(0.0, 2e9, "", ("error", "disliked"), 1_000)
        assert "2-7" in ids(queries.newest(reader, PIPELINE, asked))
    assert opened == {20 * block: [0, 7] if block == 2 else [0] for block in range(6)}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"version": "v2"}, id="another version"),
        pytest.param({"pipeline": "nobody"}, id="another pipeline"),
        pytest.param({"tags": (("tenant", "b"), ("region", "eu"))}, id="another slice"),
        pytest.param({"readable": lambda _: False}, id="none that may be read"),
        pytest.param({"until": NOON - 1}, id="another time"),
    ],
)
def test_nothing_is_unpacked_or_read_of_a_block_without_members(rig, monkeypatch, asked):
    tags = {"tenant": "a", "region": "eu"}
    rig.commit(sent(*(failed(f"q{at}", NOON + at, version="v1", tags=tags) for at in range(9))))
    rig.commit(sent(changes=[rated("q3", -1.0)]))
    unpacked: list[tuple[str, ...]] = []

    def unpack(packed, columns):
        unpacked.append(tuple(columns))
        return observations.unpack(packed, columns)

    monkeypatch.setattr(blocks, "unpack", unpack)
    query_filter = QueryFilter(**({"since": 0.0, "until": 2e9, "pipeline": ""} | asked),
                               failing=("error",), limit=5)  # fmt: skip
    with rig.store.reader() as reader:
        monkeypatch.setattr(reader, "some_records", lambda *_: pytest.fail("records were read"))
        assert queries.newest(reader, PIPELINE, query_filter) == []
    assert set(unpacked) <= {()}  # the dims alone


def test_a_block_beyond_the_time_is_not_even_decompressed(rig, monkeypatch):
    for at in range(10):
        rig.commit(sent(record(f"q{at}", at=NOON + at)))
    opened: list[int] = []

    def read(stored, first):
        opened.append(first)
        return read_observations(stored, first)

    monkeypatch.setattr(sqlite_reader, "read_observations", read)
    assert ids(newest(rig, until=NOON + 2)) == ["q1", "q0"]
    assert opened == [2, 1, 0]  # the first begins at the end, which is exclusive


def test_a_tag_that_became_a_slice_is_found_on_both_sides(rig, tmp_path):
    tags = {"region": "eu"}
    rig.commit(sent(record("before", tags=tags), record("elsewhere", tags={"region": "us"})))
    rig.store.close()
    again = Rig(tmp_path, pipeline(slices=("region",)))
    again.commit(sent(record("after", at=NOON + 1, tags=tags), record("without", at=NOON + 1)))
    assert ids(newest(again, tags=(("region", "eu"),))) == ["after", "before"]
    assert ids(newest(again, tags=(("region", ""),))) == ["without"]
    assert ids(newest(again, tags=(("region", "us"),))) == ["elsewhere"]


def test_a_miss_is_what_the_hit_rate_counts(rig):
    rig.commit(
        sent(
            record("cited", chunks=chunks("a", "b"), citations=["a"]),
            record("missed", chunks=chunks("a", "b"), citations=["z"]),
            record("unknown"),
            record("labelled", chunks=chunks("a"), citations=["a"], relevant_ids=["z"]),
        )
    )
    everything = newest(rig)
    rows = PIPELINE.observe([each.record for each in everything], [Amendments()] * 4).values
    missed = LossMap(PIPELINE.columns).losses(rows)[:, INDEX["hit"]] == 1.0
    expected = [each.record.query_id for each, miss in zip(everything, missed, strict=True) if miss]
    assert sorted(expected) == ["labelled", "missed"]
    assert ids(newest(rig, failing=("miss",))) == expected


def test_queries_are_described_in_batches(rig, monkeypatch):
    rig.commit(sent(*(failed(f"q{at}", NOON - at) for at in range(150))))
    sizes: list[int] = []
    describe = queries.describe
    monkeypatch.setattr(
        queries,
        "describe",
        lambda stored, of: sizes.append(len(stored)) or describe(stored, of),
    )
    found = newest(rig, failing=("error",), limit=1_000)
    assert sizes == [64, 64, 22]
    monkeypatch.setattr(queries, "_BATCH_BYTES", 1)  # each alone
    assert newest(rig, failing=("error",), limit=1_000) == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param({"failing": ("miss", "sad")}, "failing: 'sad' is not one of zero_result, e",
                     id="failure"),
        pytest.param({"mode": "sad"}, "failure_mode: 'sad' is not one of retrieval, ", id="mode"),
        pytest.param({"feedback": "sad"}, "feedback: 'sad' is not one of positive, n",
                     id="feedback"),
    ],
)  # fmt: skip
def test_names_are_checked(asked, message):
    every = QueryFilter(0.0, 2e9, "", ("miss", "slow"), 5, mode="none", feedback="none")
    check_filter(every, PIPELINE)
    with pytest.raises(ValueError, match=message):
        check_filter(every._replace(**asked), PIPELINE)


# ---- one query ------------------------------------------------------------------------------


def described(rig: Rig, query_id: str) -> dict[str, Any]:
    sequence = rig.store.shard.find(rig.store.shard.hash(query_id))
    with rig.store.reader() as reader:
        found = reader.record(sequence)
    assert found is not None
    return msgspec.to_builtins(queries.describe([found], rig.pipeline)[0])


def test_one_query_with_everything_known_of_it(rig):
    query = record("a", chunks=chunks("x", "y"), citations=["y"], latency_ms=Latency(5.0))
    rig.commit(sent(query))
    label = Label(query_id="a", relevant_ids=["y"], timestamp=NOON)
    verdict = Verdict(query_id="a", judge="grounding", score=0.25, timestamp=NOON)
    rig.commit(sent(changes=[rated("a", -1.0), label, verdict]))
    found = described(rig, "a")
    assert msgspec.convert(found["record"], QueryRecord) == query
    assert found["feedback"] == {"query_id": "a", "rating": -1.0, "timestamp": NOON}
    assert msgspec.convert(found["labels"], list[Label]) == [label]
    assert msgspec.convert(found["verdicts"], list[Verdict]) == [verdict]
    assert found["failure_mode"] == "generation"
    signals = found["signals"]
    assert signals["attribution"] == 0.5
    assert signals["grounding"] == 0.25
    assert signals["hit@1/label"] == 0.0
    assert signals["hit@3/label"] == 1.0
    assert signals["negative_feedback"] == 1.0
    assert not [name for name in signals if name.startswith(("failure_mode", "latency_ms"))]
    assert "low_score" not in signals  # unknown is left out
    msgspec.json.encode(found)


@pytest.mark.parametrize(
    ("feedback", "changes_", "expected"),
    [
        pytest.param(None, [], None, id="never rated"),
        pytest.param(-1.0, [], -1.0, id="as logged"),
        pytest.param(
            -1.0,
            [Feedback(query_id="a", rating=1.0, comment="now fine", timestamp=NOON)],
            {"query_id": "a", "rating": 1.0, "comment": "now fine", "timestamp": NOON},
            id="as said later",
        ),
    ],
)
def test_feedback_of_one_query(rig, feedback, changes_, expected):
    rig.commit(sent(record("a", feedback=feedback), changes=changes_))
    assert described(rig, "a")["feedback"] == expected


# ---- what an answer may cost ----------------------------------------------------------------


def failed(query_id: str, at: float, **fields: Any) -> QueryRecord:
    return record(query_id, at, **({"error": "boom"} | fields))


def test_a_read_of_many_blocks_holds_one_of_them(rig):
    text = "lorem ipsum dolor sit amet " * 110
    for block in range(40):
        names = [f"{block}-{at}" for at in range(200)]
        rig.commit(sent(failed(names[0], NOON, answer=text), *(
            record(name, answer=text) for name in names[1:]
        )))  # fmt: skip
    tracemalloc.start()
    try:
        found = newest(rig, failing=("error",))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 40
    assert peak < 8 << 20  # all blocks together have 24 MB of texts


def test_the_first_hundred_come_with_texts_and_the_others_are_named(rig):
    rig.commit(sent(*(
        failed(f"q{at}", NOON - at, query="why?", chunks=chunks("a", "b")) for at in range(130)
    )))  # fmt: skip
    found = newest(rig, limit=1_000)
    assert ids(found) == [f"q{at}" for at in range(130)]
    assert [detail.texts_omitted for detail in found] == [False] * 100 + [True] * 30
    assert [detail.record.query for detail in found] == ["why?"] * 100 + [None] * 30
    assert [chunk.id for chunk in found[129].record.chunks] == ["a", "b"]
    assert found[129].failure_mode == found[0].failure_mode


def test_texts_stop_where_they_have_four_mebibytes(rig):
    rig.commit(sent(*(failed(f"q{at}", NOON - at, answer="x" * 900_000) for at in range(12))))
    found = newest(rig)
    assert [detail.texts_omitted for detail in found] == [False] * 4 + [True] * 8
    assert len(msgspec.json.encode(found)) < 5 << 20


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"error": "e" * 1_000_000}, id="a long error"),
        pytest.param({"tags": {f"{at}" * 50: "v" * 256 for at in range(64)}}, id="long tags"),
        pytest.param({"relevant_ids": ["d" * 250 + str(at) for at in range(999)]}, id="many ids"),
    ],
)
def test_a_query_without_texts_is_small_whatever_it_holds(rig, fields):
    rig.commit(sent(failed("big", NOON, **fields)))
    bare = queries.without_texts(newest(rig)[0])
    assert bare.texts_omitted
    assert bare.record.query_id == "big"
    assert len(msgspec.json.encode(bare)) < 32 << 10


def test_amendments_too_large_to_keep_are_read_again(rig):
    rig.commit(sent(failed("a", NOON)))
    many = [f"{at}" + "d" * 250 for at in range(999)]
    rig.commit(sent(changes=[Label(query_id="a", relevant_ids=many, timestamp=NOON)]))
    assert newest(rig)[0].labels[0].relevant_ids == many


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({}, id="any query"),
        pytest.param({"same": (("user_id", "u"),)}, id="a field of the record"),
        pytest.param({"least_score": 0.5}, id="a score"),
    ],
)
def test_what_came_later_is_shown_whatever_was_asked_for(rig, asked):
    rig.commit(sent(*(record(f"q{at}", at=NOON + at, user_id="u") for at in range(3))))
    told = [Label(query_id=f"q{at}", faithful=0.9, timestamp=NOON) for at in (0, 2)]
    rig.commit(sent(changes=told))
    query_filter = QueryFilter(0.0, 2e9, "", (), 9)._replace(**asked)
    with rig.store.reader() as reader:
        listed = queries.newest(reader, PIPELINE, query_filter)
    labels = {one.record.query_id: [label.faithful for label in one.labels] for one in listed}
    labelled = {"q0": [0.9], "q2": [0.9]}
    assert labels == (labelled if "least_score" in asked else labelled | {"q1": []})


def test_a_read_can_be_given_up_between_blocks(rig):
    for block in range(3):
        rig.commit(sent(failed(f"q{block}", NOON)))
    seen = []

    def give_up() -> None:
        seen.append(1)
        if len(seen) == 2:
            raise ReadTimeoutError("too long")

    with rig.store.reader() as reader, pytest.raises(ReadTimeoutError):
        queries.newest(reader, PIPELINE, QueryFilter(0.0, 2e9, "", (), 50), give_up)
    assert len(seen) == 2
