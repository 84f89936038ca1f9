"""The demo's day, told as a person hears it: two incidents, and nothing else."""

import functools
from functools import cache

import pytest

from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.clock import ManualClock
from ragmon.demo.application import FAST, build_application
from ragmon.demo.history import TrafficPlan, history, plan_for
from ragmon.demo.incidents import Incident
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.intake import ObservationBuffer
from ragmon.detectors.rules import build
from ragmon.pipeline import Pipeline, amend
from ragmon.records import Amendments
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build as build_catalogue

NOW = 1_750_000_000.0


@cache
def application():
    return build_application(ManualClock())


def heard(seed: int, queries: int) -> tuple[TrafficPlan, list[IncidentNotice]]:
    """Every notification of a day, by what ships and with the demo's slices."""
    plan = plan_for(application(), now=NOW + 20_000.0 * seed, seed=seed)
    pipeline = Pipeline(build_catalogue(SignalOptions()), ("tenant", "channel", "kind"))
    records, known = {}, {}
    for batch in history(application(), plan, queries=queries):
        for query in batch.queries:
            records[query.query_id], known[query.query_id] = pipeline.admit(query), Amendments()
        for rating in batch.feedback:
            known[rating.query_id], _ = amend(known[rating.query_id], rating)
    buffer = ObservationBuffer(pipeline.columns)
    buffer.log(pipeline.observe(list(records.values()), list(known.values())))
    observations = buffer.take().logged
    detection = functools.partial(Detection, buffer.columns, build(), DetectionOptions())
    line = AlertTimeline(detection, finished_log=True)
    steps = replay(line, observations)
    return plan, [notice for step in steps for notice in step.incident_notices]


@pytest.mark.parametrize(("seed", "queries"), [(1, 6_000), (2, 12_000)], ids=["quiet", "busier"])
def test_the_demo_tells_of_two_incidents(seed, queries):
    plan, notices = heard(seed, queries)
    opened = [notice for notice in notices if notice.change == "opened"]
    outage, rollout = opened
    assert _minutes_into(plan.incidents.outage, outage) <= 10.0
    assert outage.severity == "critical"
    (over,) = (notice for notice in notices if notice.change == "resolved")
    assert over.incident_id == outage.incident_id
    assert "zero-result rate" in " ".join(over.symptoms)
    assert not over.cause.dimension
    assert plan.incidents.outage.end is not None
    assert 0.0 < over.at - plan.incidents.outage.end < 3 * 3_600.0
    assert _minutes_into(plan.incidents.rollout, rollout) <= 60.0
    assert (rollout.cause.dimension, rollout.cause.value) == ("version", FAST)


def _minutes_into(incident: Incident, notice: IncidentNotice) -> float:
    minutes = (notice.at - incident.start) / 60.0
    assert minutes > 0.0
    return minutes
