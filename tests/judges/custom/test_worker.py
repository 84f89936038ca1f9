"""A Python function as judge: scores, and every way in which it can fail."""

import time

import pytest

from ragmon.judges.custom.options import Options
from ragmon.judges.custom.worker import FunctionBatches
from ragmon.judges.worker import AnswerToRead

CASE = AnswerToRead("When?", "At nine.", ["It opens at nine."])


def results(function, *cases, **more):
    options = Options(name="own", kind="python", entry="m:f", timeout_s=0.2, **more)
    return FunctionBatches(function, options, "m:f 1").judge(cases or (CASE,))


def test_a_function_gets_question_answer_and_chunks():
    seen = []
    (result,) = results(lambda *case: seen.append(case) or 0.5)
    assert seen == [("When?", "At nine.", ["It opens at nine."])]
    assert (result.score, result.reason_none, result.version) == (0.5, None, "m:f 1")


def spins(*_):
    while True:
        try:
            time.monotonic()
        except Exception:  # noqa: BLE001 - a function that holds on to everything
            continue


def swallows(*_):
    try:
        while True:
            time.monotonic()
    except BaseException:  # noqa: BLE001 - also what ends it
        return 0.0


def raises(*_):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("function", "reason", "note"),
    [
        pytest.param(raises, "raised", "KeyError: 'lost'", id="it raises"),
        pytest.param(spins, "timeout", "took longer than 0.2 s", id="it does not end"),
        pytest.param(swallows, "timeout", "took longer than 0.2 s", id="it returns all the same"),
        pytest.param(lambda *_: 7, "off_scale", "returned 7", id="off the scale"),
        pytest.param(lambda *_: "good", "off_scale", "returned str", id="no number"),
        pytest.param(lambda *_: None, "not_applicable", "", id="it has nothing to say"),
    ],
)
def test_a_failure_has_a_reason_and_no_score_and_the_next_answer_is_graded(function, reason, note):
    turns = iter([function, lambda *_: 1.0])

    def in_turn(*case):
        return next(turns)(*case)

    failed, good = results(in_turn, CASE, CASE)
    assert (failed.score, failed.reason_none) == (None, reason)
    assert failed.note.startswith(note)
    assert good.score == 1.0
