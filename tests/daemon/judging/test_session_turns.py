"""Conversations: what was retrieved a turn before is remembered, and bounded."""

import pytest

from ragmon.daemon.judging.session_turns import LONGEST_PAUSE_S, SessionTurns
from ragmon.daemon.judging.verdicts import case_of, question_of
from ragmon.records import Chunk, QueryRecord


def turn(number, text="", *, session="s", at=None, pipeline="docs", **fields):
    text = text or f"What turn {number} found."
    return QueryRecord(
        query_id=f"{session}{number}",
        timestamp=60.0 * number if at is None else at,
        pipeline=pipeline,
        session_id=session,
        answer="So it is.",
        chunks=[Chunk(f"c{number}", text=text)],
        **fields,
    )


def texts(turns, record):
    return [text for _, text in turns.earlier(record)]


@pytest.mark.parametrize(
    ("others", "found"),
    [
        pytest.param([turn(1)], ["What turn 1 found."], id="the turn before"),
        pytest.param(
            [turn(1), turn(2), turn(3)],
            ["What turn 3 found.", "What turn 2 found."],
            id="no more than two, the newest first",
        ),
        pytest.param([turn(1, session="other")], [], id="another conversation"),
        pytest.param([turn(1, pipeline="shop")], [], id="another pipeline with that id"),
        pytest.param([turn(5)], [], id="a later turn"),
        pytest.param([turn(1, at=240.0 - LONGEST_PAUSE_S - 1.0)], [], id="long ago"),
        pytest.param([turn(1, "What turn 4 found.")], [], id="a passage that was found again"),
        pytest.param([turn(1), turn(1)], ["What turn 1 found."], id="one that was read twice"),
        pytest.param(
            [turn(2), turn(1)],
            ["What turn 2 found.", "What turn 1 found."],
            id="logged in another order than asked",
        ),
    ],
)
def test_the_turns_before_are_those_of_the_conversation(others, found):
    turns = SessionTurns(2)
    turns.remember([*others, turn(4)])
    assert texts(turns, turn(4)) == found


def test_without_a_session_or_switched_off_every_answer_stands_alone():
    turns, off = SessionTurns(2), SessionTurns(0)
    turns.remember([turn(1, session="")])
    off.remember([turn(1)])
    assert turns.earlier(turn(2, session="")) == ()
    assert off.earlier(turn(2)) == ()
    assert (turns.characters, off.characters) == (0, 0)


def test_memory_is_bounded_and_the_silent_conversation_goes_first():
    turns = SessionTurns(2, most_characters=10_000)
    for number in range(1, 400):
        turns.remember([turn(number, "x" * 900, session=f"s{number % 20}")])
        turns.remember([turn(number, "y" * 90, session="talks")])
        assert turns.characters <= 10_000
    assert texts(turns, turn(400, session="talks")) == ["y" * 90]
    assert turns.earlier(turn(400, session="s5")) == ()
    turns.clear()
    assert (turns.characters, turns.earlier(turn(400, session="talks"))) == (0, ())


def test_a_long_turn_keeps_its_best_chunks():
    turns = SessionTurns(1)
    chunks = [Chunk(str(at), text=f"{at} " + "z" * 7_000) for at in range(5)]
    turns.remember([QueryRecord(query_id="a", session_id="s", timestamp=1.0, chunks=chunks)])
    later = QueryRecord(query_id="b", session_id="s", timestamp=2.0)
    assert [name for name, _ in turns.earlier(later)] == ["0", "1"]


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        pytest.param({"query": "and in May?"}, "and in May?", id="as asked"),
        pytest.param(
            {"query": "and in May?", "retrieval_query": "opening hours in May"},
            "and in May?\nopening hours in May",
            id="a follow-up as it was resolved",
        ),
        pytest.param(
            {"query": "and in May?", "retrieval_query": "It opens at nine. " * 50},
            "and in May?",
            id="a draft of the answer is no question",
        ),
        pytest.param(
            {"query": "hours?", "retrieval_query": "hours in May", "session": ""},
            "hours?",
            id="outside of a conversation",
        ),
    ],
)
def test_a_follow_up_is_asked_as_it_was_resolved(fields, question):
    assert question_of(turn(2, **fields)) == question
    assert case_of(turn(2, **fields), (("c1", "x"),)).earlier == (("c1", "x"),)
