"""Repeats are numbered by their minute, and what is remembered is bounded."""

from collections import Counter

import numpy as np
import pytest

from ragmon.records import QueryRecord
from ragmon.repeats import RepeatTable

NOON = 1_700_000_040.0  # the first second of a minute


def asked(query="How?", user="ann", at=0.0, **more):
    return QueryRecord(query=query, user_id=user, timestamp=NOON + at, **more)


def numbers(*records, table=None):
    (table or RepeatTable()).number(records)
    return [record.repeat for record in records]


def test_the_same_question_by_the_same_user_is_numbered_within_a_minute():
    assert numbers(asked(), asked(at=20.0), asked(at=59.9), asked(at=60.0)) == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(asked(user="bob"), id="another user"),
        pytest.param(asked(query="how?"), id="another text"),
        pytest.param(asked(pipeline="other"), id="another pipeline"),
        pytest.param(asked(user=None, session_id="s1"), id="a session of an unknown user"),
        pytest.param(asked(user=None), id="nobody known"),
    ],
)
def test_what_differs_is_no_repeat(other):
    assert numbers(asked(), other) == [0, 0]


def test_a_user_counts_across_sessions_and_a_session_where_the_user_is_unknown():
    assert numbers(asked(session_id="s1"), asked(session_id="s2")) == [0, 1]
    sessions = [asked(user=None, session_id=name) for name in ("s1", "s2", "s1")]
    assert numbers(*sessions) == [0, 0, 1]


def test_where_nobody_is_known_the_text_alone_counts_and_no_text_is_no_repeat():
    assert numbers(asked(user=None), asked(user=None)) == [0, 1]
    assert (
        numbers(asked(query=None), asked(query=None), asked(query=""), asked(query="")) == [0] * 4
    )


def test_a_number_that_the_sender_gave_does_not_count():
    assert numbers(asked(repeat=7), asked(query=None, repeat=3)) == [0, 0]


def test_batches_of_any_size_give_the_same_numbers_as_one():
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 40, (500, 2)).tolist()

    def records():
        return [asked(f"q{question}", at=second * 7.0) for question, second in drawn]

    whole = numbers(*records())
    table, parts = RepeatTable(), records()
    for at in range(0, len(parts), 7):
        table.number(parts[at : at + 7])
    assert [record.repeat for record in parts] == whole
    assert max(whole) > 3
    assert len(table) == len(Counter((q, s * 7 // 60) for q, s in drawn))


def test_late_records_find_their_own_minute():
    assert numbers(asked(), asked(at=3_000.0), asked(at=30.0)) == [0, 0, 1]


def test_records_that_were_not_stored_are_forgotten():
    table, first, failed = RepeatTable(), asked(), [asked(at=1.0), asked("Why?")]
    table.number([first])
    table.number(failed)
    table.take_back(failed)
    assert numbers(asked(at=2.0), asked("Why?", at=2.0), table=table) == [1, 0]
    assert len(table) == 2


def test_what_is_remembered_is_bounded_and_what_is_not_is_counted():
    table = RepeatTable(most_questions=10, most_minutes=3)
    table.number([asked(f"q{at}") for at in range(14)])
    assert (len(table), table.untracked) == (10, 4)
    assert numbers(asked("q3", at=1.0), asked("q13", at=1.0), table=table) == [1, 0]
    table.number([asked("later", at=60.0)])  # the minute before makes room
    assert len(table) == 1
    table.number([asked("last", at=60.0 * minute) for minute in range(2, 9)])
    assert len(table) == 3
