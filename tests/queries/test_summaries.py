"""Summaries of blocks: which blocks stay closed, and what deletes a summary."""

from typing import Any

import msgspec
import pytest

from ragmon import queries
from ragmon.daemon.erasure.blocks import ErasureCounts, owned, rewrite
from ragmon.privacy.erasure import Subject
from ragmon.queries import key_filter
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.key_filter import digest_of
from ragmon.queries.summaries import layout_of, summarize
from ragmon.queries.words import WordSearch, keys_of
from ragmon.records import Label, Verdict
from ragmon.stores.compression import unzip
from ragmon.stores.sealing import seal, unseal
from ragmon.stores.sqlite import maintenance
from ragmon.stores.sqlite.summaries import TABLES
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, rated, sent

PIPELINE = pipeline(slices=("tenant",))
BLOCKS = 8


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    for at in range(BLOCKS):
        rig.commit(
            sent(
                *(
                    record(
                        f"q{at}-{each}",
                        at=NOON + at,
                        query=f"common question number{at}",
                        answer="Ja" if at % 2 else "Nein",
                        session_id=f"session-{at}",
                        user_id=f"user-{at}",
                        version=f"v{at}",
                        tags={"tenant": f"t{at}", "region": f"region-{at}"},
                        feedback=-1.0 if at == 3 else None,
                        error="boom" if at == 4 else None,
                        latency_ms=100.0 * at,
                    )
                    for each in range(3)
                )
            )
        )
    yield rig
    rig.store.close()


def make(rig: Rig) -> list[int]:
    """Make the summaries that are missing; the blocks that had none."""
    summaries = rig.store.shard.summaries()
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout_of(rig.pipeline), rig.store.shard.next_sequence, 100)
        summaries.begin(due)
        summaries.put([
            summarize(reader, rig.pipeline, each.first_sequence, with_keys=each.needs_keys)
            for each in due
        ])  # fmt: skip
    return sorted(each.first_sequence for each in due)


def opened(rig: Rig, **asked: Any) -> tuple[list[int], list[str]]:
    """Blocks that a search opens, and the ids of what it lists."""
    blocks: set[int] = set()
    words = asked.pop("words", None)
    query_filter = QueryFilter(
        **({"since": 0.0, "until": 2e9, "pipeline": "", "failing": (), "limit": 100} | asked),
        words=None if words is None else WordSearch.of(words),
    )
    with rig.store.reader() as reader:
        block, contents = reader.block, reader.contents
        reader.block = lambda first, **how: blocks.add(first) or block(first, **how)
        reader.contents = lambda first: blocks.add(first) or contents(first)
        listed = queries.newest(reader, rig.pipeline, query_filter)
    return sorted(blocks), [each.record.query_id for each in listed]


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        pytest.param({"words": "NUMBER5"}, 5, id="a word"),
        pytest.param({"same": (("session_id", "session-2"),)}, 2, id="a session"),
        pytest.param({"same": (("user_id", "user-6"),)}, 6, id="a user"),
        pytest.param({"version": "v1"}, 1, id="a version"),
        pytest.param({"tags": (("tenant", "t7"),)}, 7, id="a slice"),
        pytest.param({"tags": (("region", "region-7"),)}, 7, id="a tag that is no slice"),
        pytest.param({"failing": ("error",)}, 4, id="a failure"),
        pytest.param({"feedback": "negative"}, 3, id="feedback"),
        pytest.param({"slowest": True, "limit": 2}, 7, id="the slowest"),
    ],
)
def test_only_the_block_that_holds_it_is_opened(rig, asked, at):
    before = opened(rig, **asked)
    assert len(before[0]) == BLOCKS if "version" not in asked else before[0]
    assert make(rig) == [3 * each for each in range(BLOCKS)]
    blocks, listed = opened(rig, **asked)
    assert (blocks, listed) == ([3 * at], before[1])
    assert listed


def test_a_late_change_is_found_at_once_and_summed_up_again(rig):
    make(rig)
    assert opened(rig, feedback="positive") == ([], [])
    rig.commit(sent(changes=[rated("q2-1", 1.0)]))
    assert opened(rig, feedback="positive") == ([6], ["q2-1"])
    assert make(rig) == [6]
    rig.commit(sent(changes=[rated("q2-1", -1.0, at=NOON + 1)]))
    assert opened(rig, feedback="positive", limit=1) == ([6], [])
    assert make(rig) == [6]
    assert opened(rig, feedback="positive") == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(rated("q2-1", 1.0), id="feedback"),
        pytest.param(Label(query_id="q2-1", faithful=0.0, timestamp=NOON), id="a label"),
        pytest.param(
            Verdict(query_id="q2-1", judge="grounding", score=0.5, timestamp=NOON), id="a verdict"
        ),
    ],
)
def test_a_change_while_a_summary_is_made_outdates_it(rig, change):
    summaries, layout = rig.store.shard.summaries(), layout_of(PIPELINE)
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout, rig.store.shard.next_sequence, 100)
        summaries.begin(due)
        rows = [summarize(reader, PIPELINE, each.first_sequence) for each in due]
        rig.commit(sent(changes=[change]))
        assert summaries.put(rows) == BLOCKS - 1
    assert make(rig) == [6]


def test_a_summary_of_other_signals_is_not_believed(rig, tmp_path):
    make(rig)
    rig.store.close()
    again = Rig(tmp_path, pipeline(slices=("tenant", "region"), slow_ms=50.0))
    blocks, listed = opened(again, failing=("error",))
    assert (len(blocks), len(listed)) == (BLOCKS, 3)
    assert len(make(again)) == BLOCKS
    assert opened(again, failing=("error",))[0] == [12]


def rows(rig: Rig) -> list[int]:
    """First sequence numbers of all rows of summaries."""
    return sorted(
        row[0]
        for table in TABLES
        for row in rig.store._db.rows(f"SELECT first_sequence FROM {table}")
    )


def test_summaries_go_with_their_blocks(rig):
    make(rig)
    assert len(rows(rig)) == 2 * BLOCKS
    maintenance.expire(rig.store._db, NOON + 2, None, rig.store.shard.next_sequence)
    assert rows(rig) == sorted(2 * [3 * each for each in range(2, BLOCKS)])
    maintenance.compact(rig.store._db, 0, rig.store.shard.next_sequence)
    assert rows(rig) == []
    assert make(rig) == [6]
    assert opened(rig, words="number5")[1] == ["q5-2", "q5-1", "q5-0"]


def test_no_word_of_an_erased_user_can_be_asked_of_a_filter(rig):
    make(rig)
    with rig.store.reader() as reader:
        assert key_filter.may_hold(reader.keys([6])[6], digest_of("number2"))
        block = reader.stored_block(6)
    choose = owned(Subject(kind="user", id="user-2"))
    erasure = rig.store.shard.erasure()
    rewritten = rewrite(block, choose(block), ErasureCounts(), erasure.pack)
    assert erasure.swap(rewritten.block, None)
    rig.store.shard.let_go()
    with rig.store.reader() as reader:
        assert reader.keys([6]) == {}
    assert make(rig) == [6]
    with rig.store.reader() as reader:
        assert not key_filter.may_hold(reader.keys([6])[6], digest_of("number2"))
        assert not key_filter.may_hold(reader.keys([6])[6], digest_of("user_id=user-2"))


def test_an_erasure_while_a_summary_is_made_outdates_it(rig):
    summaries = rig.store.shard.summaries()
    with rig.store.reader() as reader:
        due = reader.due_summaries(layout_of(PIPELINE), rig.store.shard.next_sequence, 100)
        summaries.begin(due)
        rows_ = [summarize(reader, PIPELINE, each.first_sequence) for each in due]
    rig.store.shard.let_go()
    assert summaries.put(rows_) == 0
    assert rows(rig) == []


def test_a_damaged_summary_is_noted_and_its_block_opened(rig):
    make(rig)
    with rig.store._db.transaction() as db:
        db.execute("UPDATE block_facts SET body = x'c1ff' WHERE first_sequence = 12")
        db.execute("UPDATE block_keys SET body = x'c1ff' WHERE first_sequence = 12")
    blocks, listed = opened(rig, failing=("error",))
    assert (blocks, len(listed)) == ([12], 3)
    assert opened(rig, words="number5")[0] == [12, 15]
    assert {(row.what, row.name) for row in rig.store.damage.rows()} == {
        ("block_facts", "12"), ("block_keys", "12"),
    }  # fmt: skip


def test_the_filter_takes_a_small_part_of_the_block(rig):
    rig.commit(
        sent(
            *(
                record(f"long-{at}", answer=" ".join(f"w{at}x{word}" for word in range(200)))
                for at in range(200)
            )
        )
    )
    make(rig)
    first = 3 * BLOCKS
    with rig.store.reader() as reader:
        stored = reader.stored_bytes(first)
        assert len(reader.keys([first])[first]) <= 0.025 * stored
    assert opened(rig, words="w7x150")[1] == ["long-7"]


def test_a_filter_forgets_nothing_and_seldom_errs():
    keys = {f"word{at}" for at in range(5_000)}
    packed = key_filter.build(keys, 1 << 20)
    assert all(key_filter.may_hold(packed, digest_of(key)) for key in keys)
    wrong = sum(key_filter.may_hold(packed, digest_of(f"other{at}")) for at in range(10_000))
    assert wrong < 20
    assert key_filter.build(set(), 10)
    for damaged in (b"", b"\x05", b"\xff" + packed[1:]):
        with pytest.raises(ValueError, match="damaged"):
            key_filter.may_hold(damaged, digest_of("word1"))


@pytest.mark.parametrize(
    ("asked", "text", "fits"),
    [
        pytest.param("refund", "My REFUND, please", True, id="in any case"),
        pytest.param("fund", "My refund", False, id="whole words"),
        pytest.param("policy refund", "refund policy", True, id="in any order"),
        pytest.param("refund missing", "refund policy", False, id="all of them"),
        pytest.param("STRASSE", "Große Straße", True, id="as a reader folds them"),
        pytest.param("cafe\u0301", "un café", True, id="composed or not"),
        pytest.param("退款", "如何申请退款？", True, id="without spaces between words"),
        pytest.param("款退", "如何申请退款？", False, id="in the order of the script"),
        pytest.param("退", "如何申请退款？", True, id="one character"),
        pytest.param("gpt4模型", "用gpt4模型", True, id="mixed"),
    ],
)
def test_words(asked, text, fits):
    search = WordSearch.of(asked)
    assert search.fits(text, None) == fits
    assert search.fits(None, text) == fits
    if fits:
        assert {*search.keys} <= keys_of(text)


@pytest.mark.parametrize("asked", ["", " ?! ", " ".join(f"w{at}" for at in range(21))])
def test_a_search_without_words_or_with_too_many_is_refused(asked):
    with pytest.raises(ValueError, match="words: "):
        WordSearch.of(asked)


def test_a_word_of_a_megabyte_is_found():
    word = "x" * 1_000_000
    assert WordSearch.of(word).fits(f"a {word} b")
    assert {*WordSearch.of(word).keys} <= keys_of(word)


def latencies(rig: Rig, pipelines: list[str]) -> None:
    """A block each time, in which every pipeline but the first gets faster from block to block."""
    for at in range(4):
        latency = {name: 1_000.0 * (at if name == pipelines[0] else 4 - at) for name in pipelines}
        rig.commit(
            sent(
                *(
                    record(f"{name}{at}", pipeline=name, latency_ms=latency[name])
                    for name in pipelines
                )
            )
        )
    make(rig)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"pipeline": "a"}, ([28, 30], ["a3"])),
        ({"pipeline": "b"}, ([24, 26], ["b0"])),
        ({"readable": "b".__eq__}, ([24, 26], ["b0"])),
        ({"pipeline": "b", "readable": "a".__eq__}, ([], [])),
    ],
)
def test_other_pipelines_do_not_open_a_block(rig, asked, expected):
    """Two are opened: a page looks one hit ahead."""
    latencies(rig, ["a", "b"])
    assert opened(rig, slowest=True, limit=1, **asked) == expected


def test_of_blocks_that_tie_the_older_stay_closed(rig):
    """The newer query comes first: a page of worst answers often ends in a hundred zeros."""
    for at in range(5):
        rig.commit(sent(record(f"tie{at}", pipeline="ties", latency_ms=700.0)))
    make(rig)
    blocks, listed = opened(rig, slowest=True, limit=2, pipeline="ties")
    assert (len(blocks), listed) == (3, ["tie4", "tie3"])


def test_the_ranges_of_many_pipelines_are_not_kept_apart(rig):
    latencies(rig, [f"p{at}" for at in range(65)])
    blocks, listed = opened(rig, slowest=True, limit=1, pipeline="p1")
    assert (len(blocks), listed) == (3, ["p10"])


def test_facts_that_were_written_without_ranges_are_believed(rig):
    latencies(rig, ["a", "b"])
    with rig.store._db.transaction() as db:
        rows = db.execute("SELECT first_sequence, body FROM block_facts").fetchall()
        for first, stored in rows:
            facts = msgspec.msgpack.decode(unzip(unseal(stored, "block_facts", first)))
            older = seal(
                rig.store._db.zip(msgspec.msgpack.encode(facts[:-1])), "block_facts", first
            )
            db.execute("UPDATE block_facts SET body = ? WHERE first_sequence = ?", (older, first))
    blocks, listed = opened(rig, slowest=True, limit=1, pipeline="b")
    assert listed == ["b0"]
    assert 24 in blocks
    assert not rig.store.damage.rows()
