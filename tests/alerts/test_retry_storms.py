"""Retry storms: a client that repeats a failing question is one person, and no incident."""

import functools

import numpy as np
import pytest

from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import episodes, run
from ragmon.detectors import rules
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.windows.observations import Observations
from tests.scenarios.story import COLUMNS, START

DAYS = 1
PIPELINES = [("chat", "v1"), ("docs", "v1")]
RATE = 3.0  # queries a minute
STORMS = 8  # a day and pipeline
REPEAT, EMPTY, ERROR = (COLUMNS.index(name) for name in ("repeat", "zero_result", "error"))


def traffic(seed=5):
    """Days with 3 % empty results, and storms of some forty failing retries in a minute."""
    rng = np.random.default_rng(seed)
    parts = []
    for pipeline in range(len(PIPELINES)):
        plain = rng.poisson(RATE * DAYS * 1_440)
        stamps = START * 60.0 + rng.uniform(0.0, DAYS * 86_400.0, plain)
        parts.append(rows(pipeline, np.sort(stamps), rng.random(plain) < 0.03))
        for minute in rng.choice(DAYS * 1_440, DAYS * STORMS, replace=False).tolist():
            size = 10 + rng.geometric(1.0 / 30.0)
            stamps = 60.0 * (START + minute) + np.sort(rng.uniform(0.0, 60.0, size))
            storm = rows(pipeline, stamps, np.ones(size, dtype=bool))
            storm.values[1:, REPEAT] = np.arange(1, size)
            parts.append(storm)
    return Observations.concatenate(parts)


def rows(pipeline, stamps, empty):
    values = np.full((len(stamps), len(COLUMNS)), np.nan)
    values[:, EMPTY], values[:, ERROR] = empty, 0.0
    return Observations((), PIPELINES, np.full(len(stamps), pipeline, np.int32), stamps, values)


def judged(log):
    """The alerts of a finished log."""
    options = DetectionOptions()
    detection = functools.partial(Detection, COLUMNS, rules.build(), options)
    return episodes(run(AlertTimeline(detection, finished_log=True), log).events)


@pytest.fixture(scope="module")
def log():
    return traffic()


def test_repeats_of_one_question_raise_no_alert(log):
    assert [alert.sentence for alert in judged(log) if alert.severity != "info"] == []


def test_they_are_a_finding_of_their_own(log):
    """Of each pipeline as a whole, and it ends with the storm."""
    found = [alert for alert in judged(log) if alert.name == "RagmonRetryStorm"]
    assert len(found) >= STORMS
    assert {alert.severity for alert in found} == {"info"}
    assert {alert.key.stream[1:] for alert in found} == {("repeat", "", "")}
    assert {alert.key.stream.pipeline for alert in found} == {"chat", "docs"}
    assert "repeat rate of chat is " in found[0].sentence
    assert found[0].sentence.endswith("% (at most 5 % allowed) over the last 5 min")
    lasted = [alert.ended - alert.opened for alert in found if alert.ended is not None]
    assert max(lasted) <= 660.0


def test_without_repeats_there_is_none(log):
    everyone = log.select(np.arange(len(log)))
    everyone.values[:, REPEAT] = np.nan
    assert [alert for alert in judged(everyone) if alert.name == "RagmonRetryStorm"] == []


def test_the_same_queries_by_as_many_users_do(log):
    everyone = log.select(np.arange(len(log)))
    everyone.values[:, REPEAT] = np.nan
    assert len([alert for alert in judged(everyone) if alert.severity != "info"]) >= 3
