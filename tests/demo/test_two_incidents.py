"""The demo's day, told as a person hears it: two incidents, and nothing else."""

import functools
from functools import cache
from threading import Event

import pytest

from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.clock import ManualClock
from ragmon.demo.application import FAST, Application, build_application
from ragmon.demo.history import LoggedBatch, TrafficPlan, history, live, plan_for
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


def heard(seed: int, queries: int, live_s: float = 0.0) -> tuple[TrafficPlan, list[IncidentNotice]]:
    """Every notification of a day and of live traffic, with the demo's slices.

    Args:
        seed: of the traffic.
        queries: of the day.
        live_s: seconds of live traffic after it.
    """
    plan = plan_for(application(), now=NOW + 20_000.0 * seed, seed=seed)
    pipeline = Pipeline(build_catalogue(SignalOptions()), ("tenant", "channel", "kind"))
    records, known = {}, {}
    for batch in (*history(application(), plan, queries=queries), *lived(plan, live_s)):
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


class Remembered(Application):
    """The application with each answer written once."""

    def __init__(self, real: Application) -> None:
        self.ask = functools.cache(real.ask)
        self.without_index = lambda: Remembered(real.without_index())


def lived(plan: TrafficPlan, live_s: float) -> list[LoggedBatch]:
    """The demo's live traffic of some time."""
    batches: list[LoggedBatch] = []
    stop = Event()

    def send(batch: LoggedBatch) -> None:
        batches.append(batch)
        if batch.queries[0].timestamp - plan.now > live_s:
            stop.set()

    if live_s:
        live(Remembered(application()), plan, send, ManualClock(plan.now), stop)
    return batches


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


@pytest.mark.parametrize("seed", [1, 3])
def test_live_traffic_of_the_bad_release_is_no_other_incident(seed):
    """The version is eighteen times as busy then, and its own past is as bad."""
    plan, notices = heard(seed, 12_000, live_s=1.5 * 3_600.0)
    opened = [notice for notice in notices if notice.change == "opened"]
    assert len(opened) == 2
    told = [notice for notice in notices if notice.incident_id == opened[1].incident_id]
    assert {(notice.cause.dimension, notice.cause.value) for notice in told} == {("version", FAST)}
    assert sum(notice.at > plan.now for notice in told) <= 1
    assert "resolved" not in {notice.change for notice in told}
    assert plan.incidents.rollout.end is None


def _minutes_into(incident: Incident, notice: IncidentNotice) -> float:
    minutes = (notice.at - incident.start) / 60.0
    assert minutes > 0.0
    return minutes
