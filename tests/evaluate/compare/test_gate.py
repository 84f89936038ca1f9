"""Baseline against current: what fails, what passes, and what cannot be decided."""

import numpy as np
import pytest

from ragmon.evaluate.compare.comparison import compare
from ragmon.evaluate.compare.gate import decide
from ragmon.evaluate.compare.rules import GateRule, Policy, rules_of
from ragmon.evaluate.document import CaseLine, Evaluation, Summary, load, save
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.score.metrics import band, metric
from ragmon.evaluate.score.strata import groups, reversal
from ragmon.evaluate.testing import assert_no_regression


def evaluation(name="base", metadata=None, first=0, absent=None, **columns):
    """Columns by metric, with ``_at_`` for @."""
    scores = {key.replace("_at_", "@"): list(column) for key, column in columns.items()}
    count = len(next(iter(scores.values())))
    metadata = metadata or [{}] * count
    return Evaluation(
        name=name,
        created_at=0.0,
        metrics=[
            Summary(
                0.0, None, None, count, name=key, kind=metric(key).kind, better=metric(key).better
            )
            for key in scores
        ],
        absent=absent or {},
        cases=[CaseLine(f"c{first + at}", f"query {at}", metadata[at]) for at in range(count)],
        scores=scores,
    )


def shares(hits, count=100):
    return [1.0] * hits + [0.0] * (count - hits)


NOISY = np.random.default_rng(5).random(100).round(3)


@pytest.mark.parametrize(
    ("rule", "before", "after", "verdict"),
    [
        pytest.param({"max_drop": 0.0}, shares(90), shares(90), "pass", id="the same"),
        pytest.param({"max_drop": 0.0}, shares(80), shares(95), "pass", id="better"),
        pytest.param({"max_drop": 0.02}, shares(95), shares(75), "fail", id="much worse"),
        pytest.param({"max_drop": 0.3}, shares(95), shares(75), "pass", id="worse, but allowed"),
        pytest.param({"max_drop": 0.0}, shares(95), shares(93), "inconclusive", id="two of 100"),
        pytest.param({"min_value": 0.9}, shares(90), shares(90), "pass", id="on the limit"),
        pytest.param({"min_value": 0.9}, shares(80), shares(89), "fail", id="below the limit"),
        pytest.param({"max_value": 0.9}, shares(80), shares(91), "fail", id="above the limit"),
    ],
)
def test_rules_on_hits(rule, before, after, verdict):
    policy = Policy(rules=(GateRule(metric="hit@5", **rule),))
    decision = decide(evaluation(hit_at_5=before), evaluation(hit_at_5=after), policy)
    assert [check.verdict for check in decision.checks] == [verdict]
    assert decision.passed == (verdict != "fail")


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        pytest.param("ndcg@5", -0.05, "fail", id="every case a little worse"),
        pytest.param("ndcg@5", -0.009, "pass", id="certain, but below the smallest effect"),
        pytest.param("ndcg@5", 0.05, "pass", id="better"),
        pytest.param("latency_ms", 50.0, "fail", id="slower is worse"),
        pytest.param("latency_ms", -50.0, "pass", id="faster is not"),
    ],
)
def test_falls_of_scores(name, change, verdict):
    before, after = evaluation(**{name: NOISY}), evaluation(**{name: NOISY + change})
    decision = decide(before, after, Policy(rules=(GateRule(metric=name, max_drop=0.0),)))
    (check,) = decision.checks
    assert check.verdict == verdict
    assert check.change == pytest.approx(change)
    assert check.lower == pytest.approx(change)


def test_a_strict_gate_wants_proof():
    before, after = evaluation(hit_at_5=shares(95)), evaluation(hit_at_5=shares(93))
    rules = (GateRule(metric="hit@5", max_drop=0.0),)
    assert decide(before, after, Policy(rules=rules)).passed
    assert not decide(before, after, Policy(rules=rules, strict=True)).passed


def test_holm_over_all_rules():
    lost = {"hit_at_5": shares(95), "recall_at_5": shares(95)}
    same = {f"precision@{k}": shares(50) for k in range(1, 20)}
    now = {"hit_at_5": shares(89), "recall_at_5": shares(95)}
    few = Policy(rules=(GateRule(metric="hit@5", max_drop=0.0),))
    many = Policy(rules=(GateRule(metric="*", max_drop=0.0),))
    before, after = evaluation(**lost, **same), evaluation(**now, **same)
    (alone,) = decide(before, after, few).checks
    among = next(c for c in decide(before, after, many).checks if c.metric == "hit@5")
    assert (alone.verdict, among.verdict) == ("fail", "inconclusive")
    assert among.p_adjusted == pytest.approx(21 * alone.p_adjusted)


def test_a_rule_for_each_stratum():
    kinds = [{"kind": "howto"}] * 50 + [{"kind": "error"}] * 50
    before = evaluation(metadata=kinds, hit_at_5=[1.0] * 100)
    after = evaluation(metadata=kinds, hit_at_5=[1.0] * 50 + shares(30, 50))
    policy = Policy(rules=(GateRule(metric="hit@5", max_drop=0.0, stratum="kind"),))
    found = {check.stratum: check.verdict for check in decide(before, after, policy).checks}
    assert found == {"kind=error": "fail", "kind=howto": "pass"}
    one = Policy(rules=(GateRule(metric="hit@5", max_drop=0.0, stratum="kind=howto"),))
    assert decide(before, after, one).passed


@pytest.mark.parametrize(
    ("stratum", "checked"),
    [
        pytest.param("kind", ["kind=howto"], id="left out where all strata are looked at"),
        pytest.param("kind=offtopic", ["kind=offtopic"], id="looked at when it is asked for"),
    ],
)
@pytest.mark.parametrize("limit", [{"max_drop": 0.0}, {"min_value": 0.5}])
def test_a_stratum_that_never_had_a_score(stratum, checked, limit):
    kinds = [{"kind": "howto"}] * 50 + [{"kind": "offtopic"}] * 50
    known = evaluation(metadata=kinds, hit_at_5=[1.0] * 50 + [None] * 50)
    policy = Policy(rules=(GateRule(metric="hit@5", stratum=stratum, **limit),))
    found = {check.stratum: check.verdict for check in decide(known, known, policy).checks}
    verdict = "pass" if checked == ["kind=howto"] else "inconclusive"
    assert found == dict.fromkeys(checked, verdict)


@pytest.mark.parametrize("limit", [{"max_drop": 0.0}, {"min_value": 0.5}])
def test_a_stratum_that_lost_its_scores_is_not_left_out(limit):
    kinds = [{"kind": "howto"}] * 50 + [{"kind": "error"}] * 50
    before = evaluation(metadata=kinds, hit_at_5=[1.0] * 100)
    after = evaluation(metadata=kinds, hit_at_5=[1.0] * 50 + [None] * 50)
    policy = Policy(rules=(GateRule(metric="hit@5", stratum="kind", **limit),))
    found = {check.stratum: check.verdict for check in decide(before, after, policy).checks}
    assert found == {"kind=error": "inconclusive", "kind=howto": "pass"}


def test_a_rule_that_asks_nothing_is_refused():
    with pytest.raises(ValueError, match="max_drop, min_value or max_value"):
        GateRule(metric="hit@5")


def test_a_gate_that_checks_nothing_is_no_pass():
    kinds = [{"kind": "howto"}] * 50 + [{}] * 50
    known = evaluation(metadata=kinds, hit_at_5=[None] * 50 + [1.0] * 50)
    policy = Policy(rules=(GateRule(metric="hit@5", stratum="kind", max_drop=0.0),))
    with pytest.raises(DataError, match="nothing to check"):
        decide(known, known, policy)


def test_without_rules_the_headlines_count():
    before = evaluation(hit_at_5=shares(95), precision_at_5=shares(95), error=shares(0))
    worse = evaluation(hit_at_5=shares(95), precision_at_5=shares(10), error=shares(20))
    found = {check.metric: check.verdict for check in decide(before, worse, Policy()).checks}
    assert found == {"hit@5": "pass", "error": "fail"}


HITS = evaluation(hit_at_5=shares(95))


@pytest.mark.parametrize(
    ("current", "policy", "message"),
    [
        pytest.param(evaluation(first=500, hit_at_5=[1.0]), {}, "share no case", id="other cases"),
        pytest.param(evaluation(hit_at_5=shares(50, 50)), {}, "50 of 100 cases", id="half missing"),
        pytest.param(
            HITS,
            {"rules": (GateRule(metric="hit@7", max_drop=0.0),)},
            "Did you mean hit@5",
            id="unknown metric",
        ),
        pytest.param(
            HITS,
            {"rules": (GateRule(metric="hit@5", max_drop=0.0, stratum="kind=x"),)},
            "no case has 'kind=x'",
            id="unknown stratum",
        ),
        pytest.param(
            evaluation(absent={"completeness": "no judge"}, hit_at_5=shares(1)),
            {"rules": (GateRule(metric="completeness", max_drop=0.0),)},
            "completeness: is absent: no judge",
            id="absent metric",
        ),
        pytest.param(
            evaluation(hit_at_5=shares(1), token_f1=shares(1)),
            {"rules": (GateRule(metric="token_f1", max_drop=0.0),)},
            "not in the baseline",
            id="new metric",
        ),
        pytest.param(evaluation(foo=shares(1)), {}, "no headline metric", id="nothing to look at"),
    ],
)
def test_what_cannot_be_decided(current, policy, message):
    with pytest.raises(DataError, match=message):
        decide(HITS, current, Policy(**policy))


def test_a_metric_known_for_no_shared_case_is_not_a_pass():
    unknown = evaluation(hit_at_5=[None] * 100)
    decision = decide(HITS, unknown, Policy(rules=(GateRule(metric="hit@5", max_drop=0.0),)))
    assert [check.verdict for check in decision.checks] == ["inconclusive"]


def test_scores_that_went_missing_are_not_a_pass():
    some = evaluation(hit_at_5=[1.0] * 60 + [None] * 40)
    policy = Policy(rules=(GateRule(metric="hit@5", max_drop=0.0),))
    (check,) = decide(evaluation(hit_at_5=[1.0] * 100), some, policy).checks
    assert check.verdict == "inconclusive"
    assert (
        check.reason
        == "no worse, but only 60 of the 100 cases scored in the baseline have a score now"
    )


def test_rules_from_flags():
    assert rules_of(["ndcg@5=0.02"], ["hit@5:kind=howto=0.9", "hit@5:kind=0.8"], ["error=0"]) == [
        GateRule(metric="ndcg@5", max_drop=0.02),
        GateRule(metric="hit@5", stratum="kind=howto", min_value=0.9),
        GateRule(metric="hit@5", stratum="kind", min_value=0.8),
        GateRule(metric="error", max_value=0.0),
    ]


@pytest.mark.parametrize("flag", ["hit@5", "hit@5=much", "hit@5=nan", "hit@5=-0.1", "=0.5"])
def test_flags_that_are_no_rules(flag):
    with pytest.raises(DataError, match=f"^--max-drop: '{flag}'"):
        rules_of([flag], [], [])


def test_comparison_counts_and_lists_what_moved():
    before = evaluation("old", hit_at_5=[1.0, 0.0, 1.0, 1.0], latency_ms=[1.0, 2.0, 3.0, 4.0])
    after = evaluation("new", hit_at_5=[1.0, 1.0, 0.0, 0.0], latency_ms=[2.0, 3.0, 4.0, 5.0])
    found = compare(before, after)
    hits, latency = found.contrasts
    assert (hits.wins, hits.losses, hits.ties) == (1, 2, 1)
    assert (hits.first, hits.second, hits.change) == (0.75, 0.5, -0.25)
    assert (latency.wins, latency.losses) == (0, 4)
    assert [(move.case_id, move.first, move.second) for move in found.moves] == [
        ("c1", 0.0, 1.0),
        ("c2", 1.0, 0.0),
        ("c3", 1.0, 0.0),
    ]


def test_comparison_says_better_only_when_proven():
    before, after = evaluation(ndcg_at_5=NOISY), evaluation(ndcg_at_5=NOISY + 0.01)
    assert compare(before, after).contrasts[0].verdict == "better"
    assert compare(after, before).contrasts[0].verdict == "worse"
    assert compare(before, before).contrasts[0].verdict == ""


def test_a_comparison_finds_what_a_gate_finds_among_many_columns():
    headlines = {"hit_at_5": shares(95), "recall_at_5": NOISY}
    others = {f"precision@{k}": NOISY for k in range(1, 40)}
    before = evaluation(**headlines, **others)
    now = {name: column - 0.01 * (NOISY > 0.93) for name, column in others.items()}
    after = evaluation(**headlines | {"recall_at_5": NOISY - 0.1 * (NOISY > 0.93)}, **now)
    assert not decide(before, after, Policy(min_effect=0.0)).passed
    found = {each.name: each for each in compare(before, after).contrasts}
    assert found["recall@5"].verdict == "worse"
    assert found["recall@5"].p_adjusted == pytest.approx(2 * found["recall@5"].p)
    assert found["precision@7"].verdict == ""  # one of 39
    assert found["precision@7"].p_adjusted == pytest.approx(39 * found["precision@7"].p)


def test_simpsons_paradox_is_pointed_out():
    kinds = [{"kind": "easy"}] * 80 + [{"kind": "hard"}] * 20
    before = evaluation(metadata=kinds, hit_at_5=shares(64, 80) + shares(6, 20))
    mixed = [{"kind": "easy"}] * 20 + [{"kind": "hard"}] * 80
    after = evaluation(metadata=mixed, hit_at_5=shares(18, 20) + shares(32, 80))
    assert "every stratum rose while the whole fell" in compare(before, after).reversals["hit@5"]


@pytest.mark.parametrize(
    ("after", "labels"),
    [
        pytest.param([0.9] * 5 + [0.4] * 5, ["a"] * 5 + ["b"] * 5, id="all move alike"),
        pytest.param([0.9] * 10, ["a"] * 10, id="one stratum in common"),
        pytest.param([0.1] * 2 + [0.0] * 8, ["a"] * 2 + ["b"] * 8, id="too few to count"),
    ],
)
def test_no_paradox(after, labels):
    before = (np.array([0.8] * 5 + [0.3] * 5), ["a"] * 5 + ["b"] * 5)
    assert reversal("kind", before, (np.array(after), labels)) is None


def test_strata_of_keys_with_few_values():
    metadata = [{"kind": "x", "id": at, "only": 1} for at in range(30)] + [{"kind": "y"}] * 10
    found = groups(
        metadata, ["short"] * 30 + ["a much longer question than eight words it is"] * 10
    )
    assert [(group.key, group.value, len(group.rows), group.small) for group in found] == [
        ("kind", "x", 30, False),
        ("kind", "y", 10, True),
        ("query_length", "long", 10, True),
        ("query_length", "short", 30, False),
    ]
    assert len(groups(metadata, ["q"] * 40, ["only"])) == 1


def test_saved_and_loaded(tmp_path):
    save(HITS, tmp_path / "deep" / "base.json")
    assert load(tmp_path / "deep" / "base.json") == HITS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{oops", "is not an evaluation", id="no JSON"),
        pytest.param('{"name": "x"}', "is not an evaluation", id="something else"),
        pytest.param(
            '{"schema":"ragmon/evaluation/9","name":"x","created_at":0,"metrics":[],"cases":[],"scores":{}}',
            "has schema 'ragmon/evaluation/9'",
            id="of another time",
        ),
        pytest.param(
            '{"name":"x","created_at":0,"metrics":[],"cases":[],"scores":{"hit@5":[1.0]}}',
            "a different number of scores",
            id="torn",
        ),
    ],
)  # fmt: skip
def test_files_that_are_no_evaluation(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load(path)


def test_inside_a_test_suite(tmp_path):
    worse = evaluation("now", hit_at_5=shares(60))
    save(HITS, tmp_path / "base.json")
    assert assert_no_regression(HITS, tmp_path / "base.json").passed
    with pytest.raises(AssertionError, match=r"worse than base:\nhit@5: worse by 35.0 points"):
        assert_no_regression(worse, HITS)
    with pytest.raises(AssertionError, match=r"60.0 % is below 90 %"):
        assert_no_regression(worse, HITS, min_value={"hit@5": 0.9})
    assert assert_no_regression(worse, HITS, max_drop={"hit@5": 0.4}).passed


@pytest.mark.parametrize(
    ("name", "mean", "expected"),
    [
        ("recall@5", 0.95, "good"),
        ("recall@5", 0.75, "fair"),
        ("recall@5", 0.1, "poor"),
        ("zero_result", 0.0, "good"),
        ("zero_result", 0.5, "poor"),
        ("latency_ms/total", 3.0, ""),
        ("something_new", 0.5, ""),
    ],
)
def test_bands(name, mean, expected):
    assert band(metric(name), mean) == expected
