"""What is expected of a stream, and how far it is trusted."""

import numpy as np
import pytest

from ragmon.detectors import core
from ragmon.detectors.arrays import pack
from ragmon.detectors.expected_levels import same_time_of_day
from ragmon.detectors.minutes import MinuteLog
from ragmon.detectors.references import (
    ReferenceOptions,
    References,
    dispersion,
    overdispersion,
)

START = 29_000_160
RUNS = 60


def lived(level, days, rate=60.0, storm=0.0, seed=1):
    """A log and the references of RUNS streams, after some days of a level by minute."""
    rng, log, references = np.random.default_rng(seed), MinuteLog(), References()
    log.grow(RUNS)
    references.grow(RUNS)
    log.begin(START)
    quiet = np.zeros(RUNS, dtype=bool)
    for minute in range(START, START + int(days * 1_440)):
        n = rng.poisson(rate, RUNS)
        lost = rng.binomial(n, level(minute - START))
        burst = (rng.random(RUNS) < storm) * 30
        cells = np.stack([n + burst, lost + burst, lost + burst], axis=1).astype(float)
        log.add(np.full(RUNS, minute), np.arange(RUNS), cells, np.ones(RUNS, bool))
        references.observe(log.take())
        if minute % 10 == 0:
            references.refresh(log, minute, ~quiet, quiet, ReferenceOptions())
        if minute % 60 == 0 and minute > START:
            references.close_hour(log, minute // 60 - 1, quiet)
    return log, references


@pytest.fixture(scope="module")
def steady():
    return lived(lambda _: 0.1, 1.3)


def test_nothing_is_expected_before_there_is_enough():
    _, references = lived(lambda _: 0.1, 0.02)
    assert not references.ready.any()


def test_a_steady_stream_is_known(steady):
    _, references = steady
    assert references.ready.all()
    assert references.days.tolist() == [1.0] * RUNS
    assert references.mean.mean() == pytest.approx(0.1, abs=0.002)
    assert (references.tolerated > references.mean + 0.0099).all()
    assert references.phi.mean() == pytest.approx(1.05, abs=0.08)


@pytest.mark.parametrize(
    ("days", "storm", "cap"),
    [
        pytest.param(1.3, 0.0, core.CAP, id="who is young may have bursts"),
        pytest.param(3.3, 0.0, core.CALM_CAP, id="three days without are calm"),
        pytest.param(3.3, 3 / 1_440, core.CAP, id="one burst is enough for a week"),
    ],
)
def test_bursts_are_capped(days, storm, cap):
    _, references = lived(lambda _: 0.1, days, storm=storm)
    assert (references.caps == cap).mean() > 0.9


def test_the_expectation_follows_the_time_of_day():
    def level(at):
        return 0.1 + 0.05 * np.sin(2 * np.pi * at / 1_440)

    _, references = lived(level, 2.25)  # six o'clock: the worst hour
    assert references.mean.mean() == pytest.approx(0.15, abs=0.005)


def test_the_best_and_the_worst_day_are_dropped():
    log, _ = lived(lambda at: 0.9 if 3 <= at / 1_440 < 4 else 0.1, 6.05, rate=20.0)
    found = same_time_of_day(log, log.frontier // 10)
    assert found.mean.mean() == pytest.approx(0.1, abs=0.01)
    assert found.days.tolist() == [4.0] * RUNS


def test_correlated_losses_are_overdispersed():
    rng = np.random.default_rng(2)
    n = np.full((60, RUNS), 60.0)
    independent = rng.binomial(60, 0.1, (60, RUNS)).astype(float)
    bursts = np.repeat(rng.binomial(12, 0.1, (12, RUNS)) * 5.0, 5, axis=0)
    for lost, low, high in ((independent, 0.8, 1.2), (bursts, 3.0, 40.0)):
        found = dispersion(np.stack([n, lost, lost], axis=2))
        assert low < np.nanmean(found) < high
        assert overdispersion(found).min() >= 1.0


def test_an_hour_with_few_losses_says_nothing():
    cells = np.zeros((60, 1, 3))
    cells[:, :, 0] = 10.0
    cells[0, 0, 1:] = 2.0
    assert np.isnan(dispersion(cells)).all()


def test_hours_that_a_release_before_kept_are_taken_over():
    hours = np.full((2, 26, 3), np.nan)
    hours[0, :10] = [1.0, 2.0, 3.0]
    references = References()
    references.load(pack({"scatter": hours, "mean": np.array([0.1, 0.2])}))
    assert references.mean_scatter.tolist() == [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]
    assert references.scatter_hours[0].max() > 9.0
    assert references.scatter_hours[1].max() == 0.0
