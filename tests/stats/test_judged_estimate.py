"""The estimate from few judgements: additive, unbiased, and covered as often as it says."""

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.stats import judged_estimate
from ragmon.stats.agreement import CONFUSION, agreement, confusion_rows
from ragmon.stats.judged_estimate import SCORED, SHARED, estimate, scored_rows, shared_rows
from tests.support.paths import BENCHMARKS

_FILE = BENCHMARKS / "bench_judged.py"
_SPEC = importlib.util.spec_from_file_location("bench_judged", _FILE)
bench = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bench)

UNIT = st.floats(0.0, 1.0)
ANSWER = st.tuples(UNIT, st.floats(0.01, 1.0), st.one_of(st.none(), st.just("failed"), UNIT))


def rows(answers):
    """Both kinds of rows of (proxy, probability, verdict) triples; None is not judged."""
    f, p, verdict = ([answer[part] for answer in answers] for part in range(3))
    y = [each if isinstance(each, float) else math.nan for each in verdict]
    failed = [each == "failed" for each in verdict]
    return shared_rows(f, p, ~np.isnan(y), failed), scored_rows(f, p, y)


def sums(answers):
    shared, scored = rows(answers)
    return shared.sum(axis=0), scored.sum(axis=0)


@settings(max_examples=50, deadline=None)
@given(st.lists(ANSWER, min_size=1, max_size=60), st.integers(0, 60))
def test_buckets_merge_in_any_order(answers, cut):
    one, other, whole = sums(answers[cut:]), sums(answers[:cut]), sums(answers)
    merged = estimate(one[0] + other[0], one[1] + other[1])
    for got, expected in zip(merged, estimate(*whole), strict=True):
        assert got == pytest.approx(expected, nan_ok=True, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(ANSWER, min_size=1, max_size=60), ANSWER, UNIT)
def test_a_restated_verdict_replaces_the_old_one(answers, before, score):
    after = (before[0], before[1], score)
    shared, scored = sums([*answers, before])
    old, new = rows([before]), rows([after])
    restated = estimate(shared - old[0][0] + new[0][0], scored - old[1][0] + new[1][0])
    for got, expected in zip(restated, estimate(*sums([*answers, after])), strict=True):
        assert got == pytest.approx(expected, nan_ok=True, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANSWER, min_size=1, max_size=80), UNIT)
def test_bounds_enclose_the_mean_and_stay_in_range(answers, rho):
    got = estimate(*sums(answers), rho=rho)
    if not any(isinstance(each[2], float) for each in answers):
        assert math.isnan(got.mean)
        return
    assert 0.0 <= got.lower <= got.mean + 1e-12
    assert got.mean <= got.upper + 1e-12 <= 1.0 + 1e-9
    assert got.samples == sum(isinstance(each[2], float) for each in answers)


TINY = 1e-6


@pytest.mark.parametrize(
    ("answers", "mean", "least_width"),
    [
        pytest.param([(0.5, 1.0, 1.0)], 1.0, 0.99, id="one answer, judged"),
        pytest.param([(0.5, 0.001, 0.0)], 0.0, 0.99, id="one verdict"),
        pytest.param([(0.5, 1.0, 0.5)], 0.5, 0.99, id="one answer in between"),
        pytest.param([(0.5, 1.0, 1.0)] * 2, 1.0, 0.9, id="two that agree"),
        pytest.param([(0.5, 0.5, 1.0)] * 30, 1.0, 0.1, id="thirty that agree"),
        pytest.param([(0.9, 1.0, 1.0)] * 80, 1.0, 0.04, id="every answer judged, all good"),
        pytest.param(
            [(0.5, TINY, 0.0)] + [(0.5, 0.9, 1.0)] * 40, 0.0, 0.9, id="one speaks for a million"
        ),
        pytest.param([(0.5, TINY, 0.0), (0.5, TINY, 1.0)], 0.5, 0.9, id="two unlikely ones"),
    ],
)
def test_few_verdicts_never_look_certain(answers, mean, least_width):
    got = estimate(*sums(answers))
    assert got.mean == pytest.approx(mean, abs=1e-3)
    assert 0.0 <= got.lower <= got.mean <= got.upper <= 1.0
    assert got.upper - got.lower >= least_width


def test_everything_judged_is_known_exactly_of_the_window_and_not_of_the_process():
    answers = [(0.5, 1.0, float(i % 4 > 0)) for i in range(80)]
    window, process = (estimate(*sums(answers), rho=rho) for rho in (0.0, 1.0))
    assert (window.mean, window.lower, window.upper) == pytest.approx((0.75, 0.75, 0.75), abs=1e-4)
    assert process.lower < 0.66
    assert process.upper > 0.83


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(0.5, 0.5, 1.0), (0.5, 0.1, 0.0)], 2 / 12, id="weights are 1/probability"),
        pytest.param([(0.9, 0.5, 1.0)] * 29 + [(0.1, 0.5, None)] * 29, 1.0, id="29 use no proxy"),
        pytest.param(
            [(1.0, 0.5, 1.0)] * 20 + [(0.0, 0.5, 0.0)] * 20 + [(0.0, 0.5, None)] * 40,
            0.25,
            id="a perfect proxy speaks for the unjudged",
        ),
        pytest.param(
            [(0.0, 0.5, 1.0)] * 20 + [(1.0, 0.5, 0.0)] * 20 + [(0.0, 0.5, None)] * 40,
            0.5,
            id="a proxy that is upside down is not used",
        ),
        pytest.param([(0.9, 0.2, "failed"), (0.9, 0.2, 0.5)], 0.5, id="a failure is not a score"),
    ],
)
def test_means(answers, expected):
    assert estimate(*sums(answers)).mean == pytest.approx(expected)


def test_a_verdict_without_a_score_is_out_of_the_target_and_its_proxy_too():
    """Answers with claims: half judged, y = f. Those without: f = 0, and no score."""
    claims = [(1.0, 0.5, 1.0)] * 30 + [(0.6, 0.5, 0.6)] * 30 + [(1.0, 0.5, None)] * 60
    none = 60
    shared, scored = sums(claims)
    shared += none * shared_rows([0.0], [0.5], [True])[0]
    shared += none * shared_rows([0.0], [0.5], [False])[0]
    # Judged in proportion, so the proxy's mean over judged and all differ only among claims.
    got = estimate(shared, scored)
    assert got.samples == 60
    assert 0.8 < got.mean < 0.9  # the unjudged 60 are like the better half


def test_failures_widen_the_interval():
    answers = [(0.5, 0.5, float(i % 3 > 0)) for i in range(60)]
    without = estimate(*sums([*answers, *[(0.5, 0.5, None)] * 20]))
    with_some = estimate(*sums([*answers, *[(0.5, 0.5, "failed")] * 20]))
    assert with_some.failure_share == pytest.approx(0.25)
    assert with_some.upper - with_some.lower > (without.upper - without.lower) * 1.1


def test_many_series_at_once_equal_one_by_one():
    rng = np.random.default_rng(3)
    f, p = rng.random((4, 2, 50)), rng.uniform(0.2, 1.0, (4, 2, 50))
    y = np.where(rng.random(f.shape) < p, (rng.random(f.shape) < f) * 1.0, np.nan)
    y[0, 0] = np.nan
    shared = shared_rows(f, p, ~np.isnan(y)).sum(axis=2)
    scored = scored_rows(f, p, y).sum(axis=2)
    assert shared.shape == (4, 2, len(SHARED))
    assert scored.shape == (4, 2, len(SCORED))
    together = estimate(shared, scored)
    for i in range(4):
        for j in range(2):
            alone = estimate(shared[i, j], scored[i, j])
            for many, single in zip(together, alone, strict=True):
                assert many[i, j] == pytest.approx(float(single), nan_ok=True)
    assert np.isnan(together.mean[0, 0])


@pytest.mark.parametrize(
    ("f", "p", "y", "complaint"),
    [
        pytest.param(0.5, 0.0, 0.5, "probabilities", id="cannot have been drawn"),
        pytest.param(0.5, 1.5, 0.5, "probabilities", id="more than certain"),
        pytest.param(math.nan, 0.5, 0.5, "proxies", id="an unknown proxy"),
        pytest.param(0.5, 0.5, 1.2, "scores", id="a score out of range"),
    ],
)
def test_nonsense_is_refused(f, p, y, complaint):
    with pytest.raises(ValueError, match=complaint):
        scored_rows([f], [p], [y])


@pytest.mark.parametrize(
    ("world", "least"),
    [
        pytest.param(bench.World(0.85), 1.15, id="imperfect proxy"),
        pytest.param(bench.World(0.94), 1.35, id="rare failures"),
        pytest.param(bench.World(0.85, proxy="useless"), 0.9, id="useless proxy"),
        pytest.param(bench.World(0.85, proxy="biased"), 1.1, id="biased proxy"),
    ],
)
def test_simulated_windows(world, least):
    """Few runs, so with room for chance; the benchmark holds the real goals."""
    got = bench.simulate(world, 150, runs=300, answers=1_000)
    assert 0.915 <= got.coverage <= 0.985
    assert got.multiplier >= least
    assert abs(got.bias) <= 3.5 * got.bias_error + 0.001


def test_the_simulation_sees_a_biased_estimate_and_a_bad_interval():
    rng = np.random.default_rng(0)
    mean = rng.normal(0.80, 0.03, 500)
    few = judged_estimate.Estimate(
        mean, mean - 0.01, mean + 0.01, *(np.full(500, 100.0) for _ in range(4))
    )
    got = bench.summary(few, mean, 0.85)
    assert got.coverage < 0.3
    assert abs(got.bias) > 10 * got.bias_error


def test_human_labels_correct_a_judge_that_flatters():
    """The judge calls 10 % more answers good than humans do; both figures are right."""
    rng = np.random.default_rng(5)
    proxy = rng.beta(3.0, 0.5, 4_000)
    human = rng.random(4_000) < proxy
    judge = human | (rng.random(4_000) < 0.6)
    drawn, labelled = rng.random(4_000) < 0.2, rng.random(4_000) < 0.3
    p = np.full(4_000, 0.2)
    said = estimate(
        shared_rows(proxy, p, drawn).sum(axis=0),
        scored_rows(proxy, p, np.where(drawn, judge, np.nan)).sum(axis=0),
    )
    both = drawn & labelled
    by_hand = np.full(int(both.sum()), judged_estimate.CHOSEN_BY_HAND)
    truth = estimate(
        shared_rows(judge[both], by_hand, True).sum(axis=0),
        scored_rows(judge[both], by_hand, human[both] * 1.0).sum(axis=0),
        population=said,
    )
    assert said.lower <= judge.mean() <= said.upper
    assert truth.lower <= human.mean() <= truth.upper
    assert truth.upper < said.mean
    assert truth.variance > truth.proxy_weight**2 * said.variance > 0


@pytest.mark.parametrize(
    ("f", "y", "slope"),
    [
        pytest.param([0.0, 1.0] * 200, [0.0, 1.0] * 200, 0.89, id="all but believed when perfect"),
        pytest.param([0.0, 1.0] * 200, [1.0, 0.0] * 200, 0.0, id="never upside down"),
        pytest.param([0.0, 1.0] * 10, [0.0, 1.0] * 10, 0.0, id="not on twenty verdicts"),
        pytest.param([0.5] * 100, [0.0, 1.0] * 50, 0.0, id="constant"),
    ],
)
def test_relation_of_judge_and_proxy(f, y, slope):
    p = np.full(len(f), judged_estimate.CHOSEN_BY_HAND)
    known = judged_estimate.relation(
        shared_rows(f, p, True).sum(axis=0), scored_rows(f, p, y).sum(axis=0)
    )
    assert known.slope == pytest.approx(slope, abs=0.01)
    doubts = judged_estimate.doubt([0.0, 0.5, 1.0], known)
    assert np.all(np.diff(doubts) <= 0)
    assert np.all((doubts >= 0.01) & (doubts <= 0.99))


@pytest.mark.parametrize(
    ("counts", "accuracy", "kappa"),
    [
        pytest.param((45, 5, 10, 40), (45 / 55 + 40 / 45) / 2, 0.70, id="agree"),
        pytest.param((25, 25, 25, 25), 0.5, 0.0, id="chance"),
        pytest.param((50, 0, 0, 50), 1.0, 1.0, id="perfect"),
        pytest.param((0, 50, 50, 0), 0.0, -1.0, id="contrary"),
        pytest.param((50, 0, 0, 0), None, None, id="labels of one kind say nothing"),
        pytest.param((45, 5, 0, 0), 0.5, 0.0, id="a judge that always says good"),
        pytest.param((0, 0, 3, 17), 0.5, 0.0, id="a judge that never says good"),
        pytest.param((1, 1, 0, 0), 0.5, 0.0, id="two labels"),
        pytest.param((45, 0, 5, 0), None, None, id="no bad answer to recognise"),
        pytest.param((0, 0, 0, 0), None, None, id="no labels"),
    ],
)
def test_agreement(counts, accuracy, kappa):
    got = agreement(counts)
    assert got.labels == sum(counts)
    for figure, expected in ((got.balanced_accuracy, accuracy), (got.kappa, kappa)):
        if expected is None:
            assert math.isnan(figure.value)
        else:
            assert figure.value == pytest.approx(expected, abs=1e-9)
            assert figure.lower <= figure.value <= figure.upper
            assert figure.upper - figure.lower > 0.01


@pytest.mark.parametrize("truth", [(0.45, 0.05, 0.1, 0.4), (0.8, 0.03, 0.05, 0.12)])
def test_agreement_intervals_cover(truth):
    rng = np.random.default_rng(1)
    exact = agreement(np.array(truth) * 1e6)
    hits = np.zeros(2)
    for counts in rng.multinomial(120, truth, size=600):
        got = agreement(counts)
        for at, (figure, real) in enumerate(zip(got[1:], exact[1:], strict=True)):
            hits[at] += figure.lower <= real.value <= figure.upper
    assert np.all(hits / 600 > 0.92)


def test_confusion_counts_ignore_what_is_unknown():
    counts = confusion_rows([0.9, 0.9, 0.1, 0.1, np.nan, 0.5], [1, 0, 1, 0, 1, np.nan]).sum(axis=0)
    assert dict(zip(CONFUSION, counts, strict=True)) == {
        "both_good": 1,
        "judge_only": 1,
        "label_only": 1,
        "both_bad": 1,
    }
