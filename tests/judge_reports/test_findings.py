"""The report card on planted judges: one that agrees, one that flatters, one that guesses."""

import numpy as np
import pytest

from ragmon.judge_reports.advice import marks_sentence
from ragmon.judge_reports.findings import JudgeFacts, ReportScope, cost_of, report_of
from ragmon.judge_reports.gathering import AnswerPlace, JudgedAnswers
from ragmon.records import Amendments, Label, Verdict

GOOD, BIASED, USELESS = "grounding", "llm", "local"
JUDGES = (JudgeFacts(BIASED, "llm"), JudgeFacts(USELESS, "local"), JudgeFacts(GOOD, "embedded"))
SCOPE = ReportScope(0.0, 1e9)


def planted(
    labels: int, *, judges=(GOOD, BIASED, USELESS), seed=2, shift=0.0, of="docs", **more
) -> JudgedAnswers:
    """Answers whose chance of being good the good judge knows, as the others do not.

    Args:
        labels: number of answers.
        judges: that score them.
        seed: of chance.
        shift: added to the good judge's scores of the newer half.
        of: their pipeline.
        more: of ``JudgedAnswers``.
    """
    rng, answers = np.random.default_rng(seed), JudgedAnswers(**more)
    for at in range(labels):
        chance, guess = rng.random(2)
        scores = {
            GOOD: min(chance + shift * (at < labels / 2), 1.0),
            BIASED: 0.4 + 0.6 * chance,
            USELESS: guess,
        }
        verdicts = tuple(
            Verdict(query_id=f"q{at}", judge=judge, score=float(scores[judge]), version="1+2")
            for judge in judges
        )
        label = Label(query_id=f"q{at}", faithful=float(rng.random() < chance), timestamp=1.0)
        version = "v2" if at < 12 else "v1"
        place = AnswerPlace(of, version, (("lang", "de"),) if at % 2 else (), float(labels - at))
        answers.add(place, Amendments(labels=(label,), verdicts=verdicts))
    return answers


def figures(answers: JudgedAnswers) -> dict:
    report = report_of(answers, JUDGES, SCOPE)
    return {judge.judge: judge for judge in report.judges} | {"trust": report.trust}


def test_each_planted_judge_is_called_what_it_is():
    judges = figures(planted(400))
    assert judges[GOOD].assessment == "good"
    assert judges[GOOD].roc.auroc.lower > 0.7
    assert judges[GOOD].calibration.expected_error < 2.0 * judges[GOOD].calibration.by_chance
    assert judges[BIASED].assessment == "biased"
    assert judges[BIASED].bias.estimate == pytest.approx(0.2, abs=0.05)
    assert "but scores them 21 points too high" in judges[BIASED].text
    assert judges[BIASED].calibration.expected_error > 0.15
    assert judges[USELESS].assessment == "no_better_than_chance"
    assert judges[USELESS].roc.auroc.lower < 0.5 < judges[USELESS].roc.auroc.upper


def test_the_sentence_trusts_the_good_one_and_names_the_useless_one():
    trust = figures(planted(400))["trust"]
    assert trust.startswith("Trust the ")
    assert "trust the embedded judge for the mean" in trust
    assert "do not trust the local model for anything" in trust
    assert "no judge has enough labels for version=v2" in trust


def test_a_biased_judge_alone_is_trusted_as_corrected():
    trust = figures(planted(400, judges=(BIASED,)))["trust"]
    assert "the language model for which answers to read first" in trust
    assert "and for the mean only as corrected by labels" in trust


def test_a_useless_judge_alone_is_not_trusted():
    trust = figures(planted(400, judges=(USELESS,)))["trust"]
    assert trust.startswith("Trust no judge: the local model")


@pytest.mark.parametrize("labels", [0, 12])
def test_few_labels_say_nothing(labels):
    judges = figures(planted(labels))
    assert {judges[name].assessment for name in (GOOD, BIASED, USELESS)} == {"few_labels"}
    assert judges["trust"].startswith("No judge has enough labels")
    assert judges[GOOD].drift is None
    assert (judges[GOOD].calibration is None) is (labels == 0)


def test_labels_of_one_kind_say_nothing_either():
    answers = JudgedAnswers()
    for at in range(60):
        known = Amendments(
            labels=(Label(query_id=f"q{at}", faithful=1.0, timestamp=1.0),),
            verdicts=(Verdict(query_id=f"q{at}", judge=GOOD, score=0.9),),
        )
        answers.add(AnswerPlace("docs", "", (), float(at)), known)
    judges = figures(answers)
    assert judges[GOOD].assessment == "few_labels"
    assert "60 labels, 60 good and 0 bad" in judges[GOOD].text
    assert judges[GOOD].roc.auroc.estimate is None


def graded(good_marked: int, bad_marked: int) -> JudgedAnswers:
    """Good answers above, bad ones below, all those above 0.5 marked but for the bad ones named."""
    answers = JudgedAnswers()
    for at in range(100):
        is_good = at < 60
        is_marked = at < good_marked or 60 <= at < 60 + bad_marked
        verdict = Verdict(
            query_id=f"q{at}",
            judge=GOOD,
            score=0.9 - at / 200,
            marked_grounded=is_marked,
        )
        label = Label(query_id=f"q{at}", faithful=float(is_good), timestamp=1.0)
        place = AnswerPlace("docs", "", (), float(at))
        answers.add(place, Amendments(labels=(label,), verdicts=(verdict,)))
    return answers


def test_the_promise_on_marked_answers_is_proven_and_checked():
    marks = figures(graded(40, 2))[GOOD].marks
    assert (marks.promised, marks.confidence) == (0.9, 0.95)
    assert marks.provable_from == pytest.approx(0.9 - 55 / 200)  # 29, 36, 45, 56: 70 is too many
    assert marks.provable == 56
    assert marks.marked == 42
    assert marks.good.estimate == pytest.approx(40 / 42)
    assert marks_sentence(marks) == (
        "From a score of 0.62 on at least 90 % are good, with 95 % confidence. "
        "Of 42 answers marked grounded before the label came 95 % (83 to 99) are good."
    )


def test_without_labels_nothing_is_promised():
    marks = figures(planted(0))[GOOD].marks
    assert (marks.provable_from, marks.provable, marks.marked) == (None, 0, 0)
    assert marks_sentence(marks) == ""


def test_agreement_is_told_by_slice():
    judge = figures(planted(400))[GOOD]
    found = {(one.dimension, one.value): one.agreement.labels for one in judge.slices}
    assert found == {
        ("", ""): 400, ("version", "v1"): 388, ("lang", "de"): 200, ("version", "v2"): 12,
    }  # fmt: skip
    assert judge.slices[0].agreement.balanced_accuracy.lower > 0.6


def test_a_judge_that_became_kinder_drifts():
    still, moved = figures(planted(400))[GOOD].drift, figures(planted(400, shift=0.3))[GOOD].drift
    assert not still.is_more_than_chance
    assert moved.is_more_than_chance
    assert moved.change.estimate > 0.1
    assert moved.before.estimate < moved.after.estimate


def test_the_answers_at_odds_are_those_with_the_largest_distance():
    report = report_of(planted(400), JUDGES, SCOPE._replace(limit=5))
    distances = [one.distance for one in report.disagreements]
    assert len(distances) == 5
    assert distances == sorted(distances, reverse=True)
    first = report.disagreements[0]
    assert max(first.scores.values()) - min(first.scores.values()) == pytest.approx(distances[0])
    assert first.label in (0.0, 1.0)
    pairs = {(pair.one, pair.other): pair for pair in report.pairs}
    assert (
        pairs["llm", "grounding"].disagree.estimate < pairs["local", "grounding"].disagree.estimate
    )
    assert pairs["llm", "local"].answers == 400


def test_versions_are_those_of_the_judge_without_its_calibration():
    assert figures(planted(40))[GOOD].versions == ["1"]


def test_what_does_not_fit_is_counted_as_left_out():
    report = report_of(planted(50, most_labelled=40), JUDGES, SCOPE)
    assert (report.labelled, report.left_out) == (40, 10)


def test_costs_are_those_of_a_thousand_answers():
    cost = cost_of(200, dollars=0.5, tokens={"prompt": 1e5, "completion": 2e4}, cpu_s=None)
    assert (cost.dollars, cost.prompt_tokens, cost.completion_tokens) == (2.5, 5e5, 1e5)
    assert cost.cpu_seconds is None
    assert cost_of(0, dollars=None, tokens={}, cpu_s=1.0) is None
