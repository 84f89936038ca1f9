"""Documents behind bad answers: the bad one is named, and those beside it are not."""

import numpy as np
import pytest

from ragmon.documents.blame import compare
from ragmon.documents.compared import AnswerTable
from tests.support.documents import gathered, week


def table(answers, bad, groups=None):
    """Answers, each a list of documents."""
    records = np.repeat(np.arange(len(answers)), [len(one) for one in answers])
    documents = np.array([document for one in answers for document in one], dtype=np.intp)
    codes = np.zeros(len(answers), dtype=np.intp) if groups is None else np.asarray(groups)
    return AnswerTable(records, documents, codes, np.asarray(bad, dtype=np.float64))


def named(answers, bad, groups=None):
    size = max(document for one in answers for document in one) + 1
    return [one.document for one in compare(table(answers, bad, groups), size).named]


def random_answers(rng, size, documents=30):
    return [rng.choice(documents, 4, replace=False).tolist() for _ in range(size)]


def test_the_bad_document_is_named_alone():
    rng = np.random.default_rng(1)
    answers = random_answers(rng, 4_000)
    bad = rng.random(4_000) < np.where([7 in one for one in answers], 0.4, 0.2)
    assert named(answers, bad) == [7]


def test_two_bad_documents_are_both_named():
    rng = np.random.default_rng(2)
    answers = random_answers(rng, 4_000)
    chance = [0.2 + 0.25 * (7 in one) + 0.25 * (9 in one) for one in answers]
    assert sorted(named(answers, rng.random(4_000) < chance)) == [7, 9]


def test_nothing_is_named_where_nothing_is_wrong():
    rng = np.random.default_rng(3)
    answers = random_answers(rng, 4_000)
    assert named(answers, rng.random(4_000) < 0.3) == []


def test_documents_of_a_hard_topic_are_not_blamed():
    """Half of the questions are hard whatever is retrieved for them."""
    rng = np.random.default_rng(4)
    answers, chance = [], []
    for number in range(6_000):
        first = 15 * (number % 2)
        answers.append((first + rng.choice(15, 4, replace=False)).tolist())
        chance.append(0.1 if first else 0.5)
    assert named(answers, rng.random(6_000) < chance) == []


def test_documents_of_a_bad_release_are_not_blamed():
    """Three documents are there since a release after which every second answer is bad."""
    rng = np.random.default_rng(5)
    answers, groups = [], []
    for number in range(6_000):
        is_new = number > 3_000
        answers.append(rng.choice(23 if is_new else 20, 4, replace=False).tolist())
        groups.append(int(is_new))
    bad = rng.random(6_000) < np.where(groups, 0.5, 0.1)
    assert named(answers, bad, groups) == []
    assert len(named(answers, bad)) >= 3  # which is what versions are compared apart for


def test_a_document_that_often_comes_with_the_bad_one_is_not_blamed():
    rng = np.random.default_rng(6)
    answers = []
    for _ in range(6_000):
        one = rng.choice(28, 3, replace=False).tolist()
        if rng.random() < 0.1:
            one = [*one, 28] if rng.random() < 0.4 else [*one, 28, 29]
        elif rng.random() < 0.1:
            one = [*one, 29]
        answers.append(one)
    bad = rng.random(6_000) < np.where([28 in one for one in answers], 0.5, 0.2)
    together = compare(table(answers, bad), 30)
    assert together.rates[29] < 0.05  # by itself it looks bad
    assert [one.document for one in together.named] == [28]


def test_documents_that_always_come_together_are_named_together():
    rng = np.random.default_rng(7)
    answers = random_answers(rng, 4_000)
    answers = [[30, 31, *one[:2]] if rng.random() < 0.1 else one for one in answers]
    bad = rng.random(4_000) < np.where([30 in one for one in answers], 0.5, 0.2)
    (only,) = compare(table(answers, bad), 32).named
    assert {only.document, *only.companions} == {30, 31}


def test_a_document_without_like_questions_is_not_compared():
    compared = compare(table([[0, 1]] * 50 + [[2, 3]] * 50, [1] * 50 + [0] * 50), 4)
    assert np.isnan(compared.compared.difference).all()
    assert compared.answers.tolist() == [50] * 4
    assert compared.named == []


def test_no_answers_name_nothing():
    assert compare(table([], []), 0).named == []


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_document_of_a_simulated_week_is_found_alone(seed):
    simulated = week(seed, answers=12_000, times=300, rise=3.0)
    gathering = gathered(simulated.piece)
    result = compare(gathering.compared.with_outcome("disliked"), len(gathering.names))
    assert {gathering.names[one.document][1] for one in result.named} == simulated.bad


@pytest.mark.parametrize("seed", [3, 37, 49])
def test_no_second_document_is_blamed_for_what_is_left_of_the_first(seed):
    """Weeks of 20,000 answers in which a harmless document was named beside the bad one."""
    simulated = week(seed, answers=20_000)
    gathering = gathered(simulated.piece)
    comparisons = compare(gathering.compared.with_outcome("disliked"), len(gathering.names))
    assert {gathering.names[one.document][1] for one in comparisons.named} == simulated.bad
