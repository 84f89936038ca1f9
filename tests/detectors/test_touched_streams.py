"""Streams without data cost nothing: the steps equal, bit for bit, those over all streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.detectors import canary
from ragmon.detectors.canary import Minute, compare
from ragmon.detectors.core import CAP, SHIFTS, Charts, coefficients, gains, mixture
from ragmon.detectors.references import References

FULL = 1e30


class AllCharts(Charts):
    """The e-detector, stepped over every stream in each minute."""

    def watch(self, minute, cells, weights, limits, caps):
        active = (cells[:, 0] > 0.0) & ~self.open & (limits < np.inf)
        every = np.arange(len(self))
        before = self.pressing.copy(), self.pressed.copy()
        gain = self._counted(minute, every, cells, weights, caps, gain=gains(cells, weights))
        gain[~active] = 0.0
        for name, values in zip(("pressing", "pressed"), before, strict=True):
            np.copyto(getattr(self, name), values, where=~active)
        self._follow_volume(cells[:, 0])
        restarts = (self.cusum <= 0.0) & active[:, None]
        np.copyto(self.start, minute, where=restarts)
        self.cusum = np.where(restarts, gain, self.cusum + gain)
        np.minimum((active[:, None] + self.evidence) * np.exp(gain), FULL, out=self.evidence)
        fired = np.flatnonzero(active & (mixture(self.evidence) >= limits))
        if len(fired):
            self._open(fired, minute)
        return fired


def compare_all(tests, a, b, number, phi, caps):
    """``compare`` over every pair."""
    both = (a[:, 0] > 0.0) & (b[:, 0] > 0.0) & ~np.isnan(tests.theta) & ~tests.open
    if not both.any():
        return
    gain = np.zeros((len(a), len(SHIFTS)))
    gain[both] = canary.gains(a[both], b[both], tests.theta[both], 0.0)
    tests.evidence += np.minimum(gain / phi[:, None], caps[:, None])
    lower = both[:, None] & ((tests.evidence < tests.best) | (tests.since == 0))
    np.copyto(tests.best, tests.evidence, where=lower)
    np.copyto(tests.since, number + 1, where=lower)
    tests.seen[both, 0] += a[both]
    tests.seen[both, 1] += b[both]


def cells_of(rng, streams, quiet):
    """Losses of 0 or 1 of a minute, of which a share of streams has none."""
    n = rng.integers(1, 30, streams) * (rng.random(streams) >= quiet)
    lost = rng.binomial(n, 0.3)
    return np.stack([n, lost, lost], axis=1).astype(float)


@given(seed=st.integers(0, 2**32 - 1), quiet=st.sampled_from([0.0, 0.4, 0.9, 1.0]))
@settings(max_examples=25, deadline=None)
def test_evidence_is_that_of_a_step_over_all_streams(seed, quiet):
    rng, streams = np.random.default_rng(seed), 9
    some, every = Charts(), AllCharts()
    some.grow(streams)
    every.grow(streams)
    one = np.ones(streams)
    limits = np.where(rng.random(streams) < 0.2, np.inf, 200.0)
    weights = coefficients(0.2 * one, 0.1 * one, rng.random(streams) < 0.7, 1.2 * one)
    for minute in range(40):
        cells = cells_of(rng, streams, quiet)
        fired = [chart.watch(minute, cells, weights, limits, CAP * one) for chart in (some, every)]
        assert fired[0].tolist() == fired[1].tolist()
        for name in Charts._FIELDS:
            np.testing.assert_array_equal(getattr(some, name), getattr(every, name), name)


@given(seed=st.integers(0, 2**32 - 1), quiet=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=25, deadline=None)
def test_versions_are_compared_as_by_a_step_over_all_pairs(seed, quiet):
    rng, pairs = np.random.default_rng(seed), 7
    some, every = canary.Tests(), canary.Tests()
    for tests in (some, every):
        tests.grow(pairs)
    theta = np.where(np.arange(pairs) < 2, np.nan, 0.3)
    is_open = np.arange(pairs) == 3
    for tests in (some, every):
        tests.theta, tests.open = theta.copy(), is_open.copy()
    phi, caps = 1.0 + rng.random(pairs), np.full(pairs, CAP)
    for number in range(30):
        a, b = cells_of(rng, pairs, quiet), cells_of(rng, pairs, quiet)
        rows = np.flatnonzero((a[:, 0] > 0.0) & (b[:, 0] > 0.0))
        compare(some, Minute(number, rows, a[rows], b[rows], phi[rows], caps[rows]), 0.0)
        compare_all(every, a, b, number, phi, caps)
        for name in canary.Tests._FIELDS:
            np.testing.assert_array_equal(getattr(some, name), getattr(every, name), name)


@pytest.mark.parametrize("quiet", [0.0, 0.5, 1.0])
def test_the_worth_of_a_minute_is_that_of_a_step_over_all_streams(quiet):
    rng, streams = np.random.default_rng(3), 11
    references = References()
    references.grow(streams)
    references.ready = rng.random(streams) < 0.6
    one = np.ones(streams)
    references.weights = coefficients(0.1 * one, one, np.ones(streams, dtype=bool), one)
    worth = references.worth.copy()
    for _ in range(5):
        cells = cells_of(rng, streams, quiet)
        most = gains(cells, references.weights).max(axis=1)
        most[~references.ready | (cells[:, 0] <= 0.0)] = np.nan
        worth = np.fmax(worth, most)
        references.observe(cells)
        np.testing.assert_array_equal(references.worth, worth)
