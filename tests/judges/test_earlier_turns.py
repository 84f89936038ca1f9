"""Answers to follow-up questions, which rest on what was retrieved a turn before."""

import numpy as np
import pytest

from ragmon.judges import grounding
from ragmon.judges.earlier_turns import read_again
from ragmon.judges.grounding import GroundingResult
from ragmon.judges.worker import AnswerToRead, ConversationBatches, EmbeddedBatches
from ragmon.stats.roc import auroc
from tests.support.paths import DATA


def conversations():
    """(chunk of the first turn, chunk of the second, follow-up question, right and wrong answer)"""
    return [
        line.split("\t") for line in (DATA / "conversations.tsv").read_text("utf-8").splitlines()
    ]


def scores(answers, own, *, with_turns):
    """Scores of (question, answer, own chunk, chunk of the other turn)."""
    judge = ConversationBatches(EmbeddedBatches(grounding.load()))
    cases = [
        AnswerToRead(question, answer, [own], (other,) if with_turns else ())
        for question, answer, own, other in zip(*answers, *own, strict=True)
    ]
    results = judge.judge(cases)
    assert all(result.score is not None for result in results)
    return np.array([result.score for result in results])


@pytest.mark.parametrize(
    ("with_turns", "area", "right_ones", "wrong_ones"),
    [
        pytest.param(False, 0.51, 0, 0, id="alone no right answer is recognised"),
        pytest.param(True, 1.00, 10, 2, id="with the turn before all are, and two wrong ones"),
    ],
)
def test_an_answer_that_rests_on_the_turn_before(with_turns, area, right_ones, wrong_ones):
    first, second, questions, right, wrong = zip(*conversations(), strict=True)
    good = scores((questions, right), (second, first), with_turns=with_turns)
    bad = scores((questions, wrong), (second, first), with_turns=with_turns)
    measured = auroc(np.append(good, bad), np.repeat([True, False], len(good))).value
    assert measured == pytest.approx(area, abs=0.05)
    assert ((good >= 0.5).sum(), (bad >= 0.5).sum()) == (right_ones, wrong_ones)


def test_the_turn_before_supports_no_answer_that_rests_on_its_own_chunk():
    first, second, questions, right, wrong = zip(*conversations(), strict=True)
    for answers in (right, wrong):
        alone = scores((questions, answers), (first, second), with_turns=False)
        together = scores((questions, answers), (first, second), with_turns=True)
        assert np.array_equal(alone, together)


def result(score, reason=None):
    return GroundingResult(score, reason, (), (), "test")


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        pytest.param(0.2, 0.6, 0.6, id="the turn before explains it"),
        pytest.param(0.4, 0.55, 0.4, id="any passage would raise it a little"),
        pytest.param(0.5, 0.99, 0.5, id="it was not doubted"),
        pytest.param(0.2, None, 0.2, id="it cannot be read with more"),
        pytest.param(None, 0.9, None, id="it cannot be read"),
        pytest.param(0.0, 1.0, 1.0, id="both ends"),
    ],
)
def test_only_a_large_change_counts(first, second, score):
    results = read_again([result(first)], [True], lambda places: [result(second) for _ in places])
    assert results == [result(score)]


def test_only_doubted_answers_with_turns_before_them_are_read_again():
    asked = []

    def again(places):
        asked.append(list(places))
        return [result(0.9) for _ in places]

    first = [result(0.1), result(0.1), result(0.9), result(None, "refusal")]
    results = read_again(first, [False, True, True, True], again)
    assert [each.score for each in results] == [0.1, 0.9, 0.9, None]
    assert asked == [[1]]
