"""Documents of stored queries, with what became known of them later."""

import sqlite3

import pytest

from ragmon.documents.findings import ReportBounds, report_of
from ragmon.documents.gathering import Gathering, Scope
from ragmon.errors import ReadTimeoutError
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.documents import gather
from ragmon.records import Label, Verdict
from ragmon.stores.sqlite.store import FILE
from tests.support.examples import NOON, chunks, pipeline, record
from tests.support.rig import Rig, rated, sent


@pytest.fixture
def rig(tmp_path):
    found = Rig(tmp_path, pipeline())
    yield found
    found.store.close()


def report(rig, scope=None, on_block=lambda: None, **asked):
    defaults = {"since": 0.0, "until": 2e9, "pipeline": "", "failing": (), "limit": 0}
    gathering = Gathering(scope or Scope(k=1))
    with rig.store.reader() as reader:
        gather(reader, rig.pipeline, QueryFilter(**(defaults | asked)), gathering, on_block)
    made = report_of(gathering, ReportBounds(0.0, 2e9, 50))
    return made, {row.id: row for row in made.rows}


def query(query_id, *ids, **fields):
    return record(query_id, chunks=chunks(*ids), answer="An answer.", **fields)


def test_feedback_and_verdicts_that_came_later_count(rig):
    rig.commit(sent(query("q1", "a", "b", feedback=1.0), query("q2", "a"), query("q3", "b")))
    rig.commit(
        sent(
            changes=[
                rated("q1", -1.0),
                rated("q2", 1.0),
                Verdict(query_id="q3", judge="llm", score=0.1),
            ]
        )
    )
    made, rows = report(rig)
    assert (made.queries, made.rated, made.judged) == (3, 2, 1)
    assert (rows["a"].disliked.answers, rows["a"].disliked.bad) == (2, 1)
    assert (rows["b"].disliked.bad, rows["b"].unfaithful.bad) == (1, 1)
    assert rows["a"].unfaithful is None


def test_labels_of_the_log_and_of_people_count_and_the_newest_holds(rig):
    rig.commit(
        sent(
            query("q1", "a", "b", relevant_ids=["b"]),
            query("q2", "a", relevant_ids=["a"]),
            query("q3", "a", "c", grades={"c": 2.0, "a": 0.0}),
        )
    )
    rig.commit(
        sent(
            changes=[
                Label(query_id="q2", relevant_ids=["z"], timestamp=NOON),
                Label(query_id="q2", relevant_ids=["b"], labeller="late", timestamp=NOON + 9),
                Label(query_id="q1", faithful=1.0, timestamp=NOON),
            ]
        )
    )
    _, rows = report(rig)
    assert (rows["b"].relevant, rows["b"].below_k, rows["b"].missed) == (2, 1, 1)
    assert (rows["c"].relevant, rows["c"].below_k) == (1, 1)
    assert rows["a"].relevant == 0
    assert "z" not in rows


def test_time_and_pipelines_limit_what_is_read(rig):
    rig.commit(
        sent(
            query("q1", "a", at=NOON - 100),
            query("q2", "b", at=NOON, pipeline="faq"),
            query("q3", "c", at=NOON),
            query("q4", "d", at=NOON + 100),
        )
    )
    assert set(report(rig, since=NOON, until=NOON + 100)[1]) == {"b", "c"}
    assert set(report(rig, pipeline="faq")[1]) == {"b"}
    assert set(report(rig, readable=lambda name: name == "default")[1]) == {"a", "c", "d"}


def test_records_of_several_blocks_and_citations_in_answers_count(rig):
    for number in range(5):
        cited = record(f"q{number}", chunks=chunks("a", "b"), answer="As [2] says.")
        rig.commit(sent(cited))
    _, rows = report(rig)
    assert (rows["a"].retrieved, rows["a"].cited.estimate) == (5, 0.0)
    assert (rows["b"].retrieved, rows["b"].cited.estimate, rows["b"].below_k) == (5, 1.0, 5)


def test_a_read_that_takes_too_long_is_given_up(rig):
    rig.commit(sent(query("q1", "a")))

    def late():
        raise ReadTimeoutError("too long")

    with pytest.raises(ReadTimeoutError):
        report(rig, on_block=late)


def test_a_damaged_block_is_passed_over(rig, tmp_path):
    rig.commit(sent(query("q1", "a")))
    rig.commit(sent(query("q2", "b")))
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute(
            "UPDATE blocks SET body = x'00'"
            " WHERE first_sequence = (SELECT min(first_sequence) FROM blocks)"
        )
    db.close()
    made, rows = report(rig)
    assert (made.queries, set(rows)) == (1, {"b"})
