"""The band of ordinary losses over time, and that it is the one alerts are judged by."""

import numpy as np
import pytest

from ragmon.detectors.expected_band import Scatter, expected_band
from ragmon.detectors.level_errors import LevelError
from ragmon.detectors.minutes import MinuteLog
from ragmon.detectors.references import ReferenceOptions, References

START_TEN = 2_900_016 // 144 * 144  # midnight
COIN = Scatter(spread=1.0, phi=1.0, level_error=LevelError(*np.zeros((3, 1))))
OPTIONS = ReferenceOptions()


def lived(days: int, level_at) -> MinuteLog:
    """A log of two streams, the second without losses, a cell each ten minutes."""
    log = MinuteLog()
    log.grow(2)
    log.begin(START_TEN * 10)
    for ten in range(START_TEN, START_TEN + days * 144):
        minute = ten * 10
        lost = level_at((ten - START_TEN) / 144) * 100.0
        cells = np.array([[100.0, lost, lost], [100.0, 0.0, 0.0]])
        log.add(np.full(2, minute), np.arange(2), cells, np.ones(2, bool))
        while log.frontier < minute + 10:
            log.take()
    return log


@pytest.fixture(scope="module")
def night_and_day() -> MinuteLog:
    return lived(8, lambda day: 0.3 if day % 1 >= 0.5 else 0.1)


def test_it_follows_the_time_of_day(night_and_day):
    tens = START_TEN + 7 * 144 + np.array([36, 108])
    lower, upper = expected_band(night_and_day, 0, tens, COIN, OPTIONS)
    assert lower[0] < 0.1 < upper[0] < 0.2 < lower[1] < 0.3 < upper[1]
    lower, upper = expected_band(night_and_day, 1, tens, COIN, OPTIONS)
    assert lower.tolist() == [0.0, 0.0]
    assert upper.max() < 0.05


def test_it_is_not_known_before_there_is_enough(night_and_day):
    tens = START_TEN + np.array([0, 13, 200])
    lower, upper = expected_band(night_and_day, 0, tens, COIN, OPTIONS)
    assert np.isnan(lower).tolist() == np.isnan(upper).tolist() == [True, False, False]


def test_what_alerts_tolerate_is_within_it(night_and_day):
    references = References()
    references.grow(2)
    quiet = np.zeros(2, dtype=bool)
    for ten in (START_TEN + 7 * 144 + 40, START_TEN + 7 * 144 + 130):
        references.refresh(night_and_day, ten * 10, ~quiet, quiet, OPTIONS)
        for stream in (0, 1):
            scatter = Scatter(
                references.spread[stream],
                references.phi[stream],
                references.level_error(slice(stream, stream + 1)),
            )
            band = expected_band(night_and_day, stream, np.array([ten]), scatter, OPTIONS)
            middle = (band.lower[0] + band.upper[0]) / 2.0
            assert references.mean[stream] < references.tolerated[stream] <= band.upper[0]
            assert stream or middle == pytest.approx(references.mean[stream])


def test_an_incident_that_is_left_out_does_not_widen_it():
    def level_at(day):
        return 0.9 if 5.4 <= day < 5.6 else 0.1

    log = lived(7, level_at)
    tens = START_TEN + 6 * 144 + np.array([72])
    with_it = expected_band(log, 0, tens, COIN, OPTIONS).upper[0]
    first = (START_TEN + int(5.3 * 144)) * 10
    log.exclude(np.array([0]), first, first + int(0.4 * 1_440))
    assert expected_band(log, 0, tens, COIN, OPTIONS).upper[0] <= with_it
    assert expected_band(log, 0, tens, COIN, OPTIONS).upper[0] < 0.15
