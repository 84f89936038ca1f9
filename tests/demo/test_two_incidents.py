"""The demo's day, told as a person hears it: two incidents, and nothing else."""

import functools
from datetime import UTC, datetime
from functools import cache
from threading import Event

import pytest
from msgspec.structs import replace

from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.clock import ManualClock
from ragmon.daemon.judging.grounding_follower import grounding_case, grounding_verdict
from ragmon.demo.application import FAST, Application, build_application
from ragmon.demo.history import LoggedBatch, TrafficPlan, history, live, plan_for
from ragmon.demo.incidents import Incident, recurring
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.intake import ObservationBuffer
from ragmon.detectors.rules import build
from ragmon.judges.grounding import GroundingJudge, GroundingResult
from ragmon.judges.grounding.judge import load
from ragmon.pipeline import Pipeline, amend
from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build as build_catalogue

NOW = 1_750_000_000.0


@cache
def application():
    return build_application(ManualClock())


def heard(
    seed: int, queries: int, live_s: float = 0.0, *, every: float | None = None, rate: float = 5.0
) -> tuple[TrafficPlan, list[IncidentNotice]]:
    """Every notification of a day and of live traffic, with the demo's slices.

    Args:
        seed: of the traffic.
        queries: of the day.
        live_s: seconds of live traffic after it.
        every: seconds from one outage of live traffic to the next; None: none.
        rate: live queries a second.
    """
    plan = plan_for(application(), now=NOW + 20_000.0 * seed, seed=seed)
    if every is not None:
        plan = replace(plan, incidents=recurring(plan.incidents, plan.now, every))
    pipeline = Pipeline(build_catalogue(SignalOptions()), ("tenant", "channel", "kind"))
    records, known = {}, {}
    for batch in (*history(application(), plan, queries=queries), *lived(plan, live_s, rate)):
        for query in batch.queries:
            record = pipeline.admit(query)
            records[query.query_id], known[query.query_id] = record, read(record)
        for rating in batch.feedback:
            known[rating.query_id], _ = amend(known[rating.query_id], rating)
    buffer = ObservationBuffer(pipeline.columns)
    buffer.log(pipeline.observe(list(records.values()), list(known.values())))
    observations = buffer.take().logged
    detection = functools.partial(Detection, buffer.columns, build(), DetectionOptions())
    line = AlertTimeline(detection, finished_log=True)
    steps = replay(line, observations)
    return plan, [notice for step in steps for notice in step.incident_notices]


@cache
def judged(query: str, answer: str, chunks: tuple[str, ...]) -> GroundingResult:
    return judge().score(query, answer, chunks)


@cache
def judge() -> GroundingJudge:
    return load()


def read(record: QueryRecord) -> Amendments:
    """The verdict of the embedded judge."""
    case = grounding_case(record)
    result = judged(case.query, case.answer, tuple(case.chunks))
    return Amendments(verdicts=(grounding_verdict(record, result, 1.0, record.timestamp),))


class Remembered(Application):
    """The application with each answer written once."""

    def __init__(self, real: Application) -> None:
        self.ask = functools.cache(real.ask)
        self.without_index = lambda: Remembered(real.without_index())


def lived(plan: TrafficPlan, live_s: float, rate: float) -> list[LoggedBatch]:
    """The demo's live traffic of some time."""
    batches: list[LoggedBatch] = []
    stop = Event()

    def send(batch: LoggedBatch) -> None:
        batches.append(batch)
        if batch.queries[0].timestamp - plan.now > live_s:
            stop.set()

    if live_s:
        live(Remembered(application()), plan, send, ManualClock(plan.now), stop, rate=rate)
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


def test_outages_that_come_back_are_incidents_of_their_own():
    plan, notices = heard(1, 6_000, live_s=2_850.0, every=1_200.0, rate=2.0)
    outage = plan.incidents.outage
    opened = [notice for notice in notices if notice.change == "opened"]
    (release,) = (notice for notice in opened if notice.cause.dimension == "version")
    outages = [notice for notice in opened if notice is not release]
    begun = [outage.start + 1_200.0 * number for number in range(3)]
    assert len(outages) == len(begun)
    for start, notice in zip(begun, outages, strict=True):
        assert notice.at - start <= 180.0
        since = datetime.fromtimestamp(start, UTC).strftime("since %H:%M UTC")
        assert since in notice.headline
    assert {notice.severity for notice in outages} == {"critical"}
    news = [notice for notice in notices if notice.at > plan.now and notice not in opened]
    assert {notice.change for notice in news} <= {"grew", "resolved"}


def _minutes_into(incident: Incident, notice: IncidentNotice) -> float:
    minutes = (notice.at - incident.start) / 60.0
    assert minutes > 0.0
    return minutes
