"""False-discovery rates, against the definition and by simulation."""

import numpy as np
import pytest

from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates


def test_the_rates_are_those_of_the_textbook():
    adjusted = false_discovery_rates([0.01, 0.04, 0.03, 0.005])
    assert adjusted.tolist() == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_what_was_not_tested_counts_as_no_test():
    adjusted = false_discovery_rates([np.nan, 0.02, np.nan])
    assert np.isnan(adjusted[[0, 2]]).all()
    assert adjusted[1] == pytest.approx(0.02)
    assert false_discovery_rates([]).shape == (0,)


def test_at_most_one_in_twenty_of_what_is_named_is_named_by_chance():
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(400):
        p_values = rng.random(200)
        p_values[:20] = rng.random(20) * 1e-3  # those that differ
        named = np.flatnonzero(false_discovery_rates(p_values) <= FALSE_DISCOVERIES)
        shares.append((named >= 20).mean() if len(named) else 0.0)
    assert 0.02 < np.mean(shares) < 0.055  # 5 % of the 9 in 10 that do not differ
