import numpy as np
import pytest
from scipy import stats

from ragmon.stats.paired import (
    bca_intervals,
    compare_outcomes,
    holm,
    mcnemar,
    paired_permutation,
    provable_drop,
)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("n", [5, 12, 40, 300])
@pytest.mark.parametrize("shift", [0.0, -0.2, 0.3])
def test_permutation_against_scipy(n, shift):
    differences = rng(n).normal(shift, 1.0, n).round(1)
    ours = paired_permutation(differences[:, None], rng())
    for tail, alternative in ((ours.lower, "less"), (ours.upper, "greater")):
        theirs = stats.permutation_test(
            (differences,),
            np.mean,
            permutation_type="samples",
            alternative=alternative,
            n_resamples=10_000,
            rng=rng(1),
        )
        assert tail[0] == pytest.approx(theirs.pvalue, abs=1e-12 if n < 13 else 0.015)


def test_permutation_ignores_what_one_side_does_not_know():
    known = rng(3).normal(0.1, 1, 20)
    table = np.column_stack([np.r_[known, np.full(5, np.nan)], np.r_[known, np.zeros(5)]])
    lower, upper = paired_permutation(table, rng())
    assert lower[0] == lower[1]
    assert upper[0] == upper[1]


def test_equal_systems_differ_by_chance_as_often_as_promised():
    generator = rng(11)
    null = generator.normal(0.0, 1.0, (30, 4000))
    p = paired_permutation(null, generator, resamples=999).lower
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.012)


def test_nothing_moved():
    tails = paired_permutation(np.zeros((10, 2)), rng())
    assert tails.two_sided.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (5, 0), (9, 2), (3, 3), (900, 1000), (700, 600)])
def test_mcnemar_against_scipy(lost, won):
    n = lost + won
    expected = stats.binom.sf(lost - 1, n, 0.5), stats.binom.sf(won - 1, n, 0.5)
    assert mcnemar(lost, won) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "within"),
    [
        pytest.param(rng(1).random(60), 0.004, id="uniform"),
        pytest.param(rng(2).random(40) ** 6, 0.006, id="skewed"),
        pytest.param(rng(4).random(12) ** 8, 0.001, id="few and very skewed"),
        pytest.param(
            (rng(3).random(80) < 0.9).astype(float), 2 / 80, id="hits, in steps of a case"
        ),
    ],
)
def test_bca_against_scipy(values, within):
    ours = bca_intervals(values[:, None], rng(), resamples=100_000)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=100_000, method="BCa", rng=rng(1)
    ).confidence_interval
    assert ours.mean[0] == pytest.approx(values.mean())
    assert (ours.lower[0], ours.upper[0]) == pytest.approx(tuple(theirs), abs=within)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda generator: generator.beta(4, 1, (40, 1)), id="scores"),
        pytest.param(lambda generator: 1.0 * (generator.random((40, 1)) < 0.8), id="hits"),
    ],
)
def test_intervals_cover(draw):
    generator = rng(17)
    covered = 0
    for _ in range(300):
        sample = draw(generator)
        interval = bca_intervals(sample, generator, resamples=500)
        covered += interval.lower[0] <= 0.8 <= interval.upper[0]
    assert 0.90 <= covered / 300 <= 0.99


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param([1.0] * 20, "0.80 1.00", id="all alike still may be wrong"),
        pytest.param([0.5], "0.00 1.00", id="one case says next to nothing"),
        pytest.param([np.nan, np.nan], "nan nan", id="unknown"),
        pytest.param([np.nan, 0.5, 0.7, np.nan], "0.50 0.70", id="two cases"),
    ],
)
def test_intervals_at_the_edge(column, expected):
    interval = bca_intervals(np.array(column)[:, None], rng())
    assert f"{interval.lower[0]:.2f} {interval.upper[0]:.2f}" == expected


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.9, 0.8], [1.0, 1.0]),
    ],
)
def test_holm(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


def test_a_drop_of_the_provable_size_is_found_four_times_in_five():
    generator = rng(23)
    drop = provable_drop(0.3 * stats.zscore(generator.normal(size=100)))
    found = paired_permutation(generator.normal(-drop, 0.3, (100, 2000)), generator, 999).lower
    assert (found <= 0.05).mean() == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(
    ("worse", "better", "p_value", "provable"),
    [(0, 0, 1.0, 0.05), (5, 0, 1 / 32, 0.05), (6, 2, 37 / 256, 0.07)],
)
def test_pass_or_fail_is_compared_case_by_case(worse, better, p_value, provable):
    same = 100 - worse - better
    before = [True] * (same + worse) + [False] * better
    after = [True] * same + [False] * worse + [True] * better
    outcomes = compare_outcomes(before, after)
    assert (outcomes.worse, outcomes.better) == (worse, better)
    assert outcomes.p_value == pytest.approx(p_value)
    assert outcomes.provable == pytest.approx(provable)


def test_other_cases_cannot_be_paired():
    with pytest.raises(ValueError, match="same cases"):
        compare_outcomes([True], [True, False])
