"""The promises in small: the simulations of ``make bench``, short and with room for chance."""

import importlib
import sys

import numpy as np
import pytest

from tests.support.paths import BENCHMARKS


@pytest.fixture(scope="module")
def simulation():
    """The benchmark module of a name."""
    sys.path.append(str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))


def test_a_steady_stream_is_quiet_and_watched_almost_as_well_as_possible(simulation):
    cells = list(
        simulation("detection_stationary").cells(60, 5.0, 300, rates=(1.0,), levels=(0.1,))
    )
    assert len(cells) == 3
    for cell in cells:
        assert cell.alarms <= 2.0
        assert 0.8 < cell.ratio < 1.6
        assert cell.naive_alarms[1] > 20.0  # the simulation can tell a bad rule


def test_season_weekend_noise_and_storms_are_no_news(simulation):
    live, worlds = simulation("detection_live"), simulation("detection_worlds")
    rates = np.full(30, 1.0)
    opened, *naive = live.false_alarms(worlds.STORMY, rates, 2, len(rates), seed=1, warm_days=2)
    assert opened.sum() <= 6.0  # two stream-months
    assert min(each.sum() for each in naive) > 30.0  # the simulation can tell a bad rule


def test_an_outage_opens_once_within_minutes_and_resolves_within_minutes(simulation):
    live, worlds = simulation("detection_live"), simulation("detection_worlds")
    rates = np.full(30, 1.0)
    seen = live.incidents(worlds.STEADY, rates, 0.5, 60, 30, len(rates), seed=2, warm_days=1)
    assert (seen["openings"] == 1.0).all()
    assert np.median(seen["opened"]) <= 5.0
    assert np.median(seen["resolved"]) <= 5.0
    assert np.isnan(seen["naive_resolved"]).all()  # an hour's window goes on for longer


def test_a_baseline_of_few_cases_raises_nothing_by_its_own_bad_luck(simulation):
    baselines = simulation("detection_baselines")
    null = baselines.small((50, 1_000), 30, 0.5)
    assert [share for share, _, _ in null.values()] == pytest.approx([0.0, 0.0], abs=0.07)
    fall = baselines.small((1_000,), 30, 0.5, shift=0.1)
    assert fall[1_000][0] > 0.9


def test_a_canary_is_called_worse_only_when_it_is(simulation):
    canary, worlds = simulation("detection_canary"), simulation("detection_worlds")
    world = worlds.World(level=0.07, season=0.025, day_effect=0.004)
    called, naive = canary.watch(world, 40, 0.5, 0.5)
    assert np.isnan(called).sum() >= 39
    assert np.isnan(naive).sum() < 39  # a test each minute without correction
    queries, _ = canary.watch(world, 40, 0.5, 1.0, shift=0.04)
    assert np.nanmean(queries) < 2.2 * canary.wald(0.5, 0.07, 0.04)
