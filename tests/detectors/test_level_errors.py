"""Errors of the expected level: what is learned of them, and the room they are given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.detectors import StreamKey
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.level_errors import LevelError, room
from ragmon.detectors.rules import build

RUNS = 200
NOISE = np.full(RUNS, 0.09)
FIRST = 29_000_160


def lived(hours, between=0.0, n=3_600.0, wrong=()):
    """Levels of some streams whose days differ, hour by hour; in ``wrong`` hours all fails."""
    rng = np.random.default_rng(3)
    learned = LevelError(*np.zeros((3, RUNS)))
    day = np.zeros(RUNS)
    for hour in range(hours):
        if hour % 24 == 0:
            day = rng.normal(0.0, np.sqrt(1.2) * between, RUNS)
        error = day + rng.normal(0.0, np.sqrt(1.17 * 0.09 / n), RUNS)
        learned = learned.learn(np.full(RUNS, n), error + 0.8 * (hour in wrong), NOISE)
    return learned


def test_alike_days_are_known_to_be_alike():
    learned = lived(9 * 24)
    by_days = np.full(RUNS, 0.003**2)
    assert learned.hours == pytest.approx(np.full(RUNS, 159.0), abs=10.0)
    assert np.sqrt(learned.between(by_days, np.full(RUNS, 5.0)).mean()) < 0.0022


@pytest.mark.parametrize("between", [0.005, 0.01, 0.03])
def test_days_that_differ_are_given_their_variance(between):
    learned = lived(14 * 24, between)
    assert np.sqrt(learned.variance.mean()) == pytest.approx(between, rel=0.15)


def test_an_outage_does_not_make_days_differ():
    learned = lived(14 * 24, 0.005, wrong=range(200, 212))
    assert np.sqrt(learned.variance.mean()) < 0.012


def test_little_traffic_teaches_little():
    learned = lived(9 * 24, n=40.0)
    assert np.median(learned.worth) < 0.5
    by_days = np.full(RUNS, 0.004**2)
    between = learned.between(by_days, np.full(RUNS, 5.0))
    assert np.median(between) == pytest.approx(by_days[0], rel=0.15)


@given(st.sampled_from([(3_600.0, np.nan), (29.0, 0.5)]))
def test_what_is_not_known_teaches_nothing(hour):
    learned = lived(48)
    n, error = (np.full(RUNS, value) for value in hour)
    again = learned.learn(n, error, NOISE)
    for name in ("variance", "worth", "hours"):
        assert np.array_equal(getattr(again, name), getattr(learned, name))


def test_the_room_shrinks_where_an_error_could_not_raise_an_alarm():
    error, noise = np.full(2, 0.005), np.full(2, 0.09)
    slow, fast = room(error, noise, np.array([60.0, 6_000.0]), z=3.0, least=0.002)
    assert slow == pytest.approx(0.015 - np.sqrt(2 * 0.09 * np.log(43_200) / 86_400))
    assert 0.0138 < fast < 0.015
    assert room(error[:1], noise[:1], np.array([1.0]), z=3.0, least=0.002) == [0.002]


@pytest.mark.parametrize(("delta", "told"), [(0.05, False), (0.01, True)])
def test_a_change_smaller_than_delta_is_not_told(delta, told):
    rng = np.random.default_rng(4)
    options = DetectionOptions(lag_s=0.0, delta=delta, false_alarms_per_month=10.0)
    detection = Detection([], build([{"kind": "anomaly"}]), options)
    rows = np.array([detection.streams.row(StreamKey("docs", "hit"))])
    detection.log.begin(FIRST)
    opened = []
    for minute in range(FIRST, FIRST + 4 * 1_440):
        lost = float(rng.binomial(6_000, 0.13 if minute >= FIRST + 3 * 1_440 else 0.1))
        detection.add_cells(np.array([minute]), rows, np.array([[6_000.0, lost, lost]]))
        (closed,) = detection.advance(minute + 1)
        opened.extend(finding.alert.stream for finding in closed.findings)
    assert bool(opened) == told
