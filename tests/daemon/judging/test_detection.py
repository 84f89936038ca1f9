"""Faithfulness that falls is noticed by the few answers that were judged, and only then."""

import numpy as np
import pytest

from ragmon.config import load
from ragmon.daemon.alerting.build import build_detection
from ragmon.daemon.build import build_pipeline
from ragmon.pipeline import amend
from ragmon.records import Amendments, Chunk, Draw, QueryRecord, Verdict
from tests.support.examples import DAY_S, NOON

SETTINGS = load(None, {"detectors.first_days": 0}, {}).settings
PIPELINE = build_pipeline(SETTINGS)
STEP_S = 600.0
CHANCE = 0.2  # of being judged


def answers(rng, start, faithful):
    """Ten minutes of traffic: (as logged, as judged)."""
    records, known = [], []
    for number in range(60):
        query_id = f"{start:.0f}-{number}"
        at = start + STEP_S * number / 60
        records.append(
            QueryRecord(query_id=query_id, timestamp=at, answer="A.", chunks=[Chunk("a", text="A")])
        )
        drawn = bool(rng.random() < CHANCE)
        draw = Draw(query_id=query_id, probability=CHANCE, proxy=0.5, drawn=drawn)
        now, _ = amend(Amendments(), draw)
        if drawn:
            score = float(rng.random() < faithful)
            now, _ = amend(now, Verdict(query_id=query_id, judge="llm", score=score))
        known.append(now)
    return PIPELINE.observe(records), PIPELINE.observe(records, known)


def alarms(seed, *, after):
    """Alerts about faithfulness in six hours after a day of 95 %."""
    rng = np.random.default_rng(seed)
    detection = build_detection(SETTINGS, PIPELINE.columns)
    detection.begin(NOON)
    found = []
    begins = np.arange(NOON, NOON + 1.5 * DAY_S, STEP_S)
    for start in begins.tolist():
        faithful = 0.95 if start < NOON + 1.25 * DAY_S else after
        logged, judged = answers(rng, start, faithful)
        detection.fold(logged)
        detection.restate(logged, judged)
        for closed in detection.advance(detection.due(start + STEP_S)):
            found += [
                each
                for each in closed.findings
                if each.alert.stream.metric == "faithfulness" and each.status == "bad"
            ]
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fall_is_noticed(seed):
    assert alarms(seed, after=0.5)


def test_all_well_is_left_alone():
    assert alarms(3, after=0.95) == []
