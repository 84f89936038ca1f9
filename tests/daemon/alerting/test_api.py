"""What the API asks of alerts that are over."""

import asyncio

from msgspec.structs import replace

from ragmon.alerts import Alert, event
from ragmon.alerts.message import Links
from ragmon.daemon.alerting.api import AlertApi
from ragmon.detectors import AlertKey, Finding, StreamKey
from ragmon.records import Position
from ragmon.stores.protocols import Turn
from tests.support.examples import NOON
from tests.support.vigil import Vigil


def over(pipeline: str, at: float):
    """The end of an alert of a pipeline."""
    key = AlertKey("threshold", StreamKey(pipeline, "error"))
    alert = Alert(
        key=key,
        name="RagmonErrors",
        state="resolved",
        severity="warning",
        began_at=at - 60.0,
        fired_at=at - 60.0,
        bad_at=at - 60.0,
        ended_at=at,
        finding=Finding(alert=key, status="bad"),
    )
    return event("resolved", alert, at)


def test_alerts_of_one_pipeline_are_found_behind_newer_ones_of_another(tmp_path):
    vigil = Vigil(tmp_path, NOON)
    ends = [over("quiet", NOON - 500.0), *(over("busy", NOON - at) for at in (300.0, 200.0, 100.0))]
    turn = Turn(
        state=b"", buckets=(), oldest=(0, 0), book=b"", catching_up=False,
        positions={0: Position()},
        events=ends,
    )  # fmt: skip
    engine = vigil.engine
    engine.thread.submit(lambda: engine.state.alert_log().save(turn)).result()
    board = AlertApi(vigil.alerting, engine, vigil.clock, Links("http://ragmon", "http://runbooks"))

    def asked(pipeline: str, limit: int) -> list[tuple[str, float]]:
        found = asyncio.run(board.alerts("resolved", pipeline, 0.0, limit))
        return [(alert.pipeline, alert.ended_at) for alert in found]

    assert asked("quiet", 2) == [("quiet", NOON - 500.0)]
    assert asked("busy", 2) == [("busy", NOON - 100.0), ("busy", NOON - 200.0)]
    assert asked("", 3) == [("busy", NOON - at) for at in (100.0, 200.0, 300.0)]
    vigil.end()


def test_incidents_are_found_after_they_ended(tmp_path):
    vigil = Vigil(tmp_path, NOON)
    ends = [
        replace(made, alert=replace(made.alert, incident_id=name))
        for made, name in (
            (over("docs", NOON - 9_000.0), "a"),
            (over("docs", NOON - 500.0), "a"),
            (over("docs", NOON - 9_500.0), "b"),
            (over("shop", NOON - 100.0), "c"),
        )
    ]
    turn = Turn(
        state=b"", buckets=(), oldest=(0, 0), book=b"", catching_up=False,
        positions={0: Position()},
        events=ends,
    )  # fmt: skip
    engine = vigil.engine
    engine.thread.submit(lambda: engine.state.alert_log().save(turn)).result()
    board = AlertApi(vigil.alerting, engine, vigil.clock, Links("http://ragmon", "http://runbooks"))

    def asked(state="all", pipeline="", since=0.0, limit=9, readable=None):
        shown = asyncio.run(board.incidents(state, pipeline, since, limit, readable))
        return [(one.id, len(one.alerts)) for one in shown]

    assert asked() == [("c", 1), ("a", 2), ("b", 1)]
    assert asked(limit=1) == [("c", 1)]
    assert asked(pipeline="docs") == [("a", 2), ("b", 1)]
    assert asked(since=NOON - 1_000.0) == [("c", 1), ("a", 2)], "with alerts that ended before"
    assert asked(readable=lambda pipeline: pipeline == "shop") == [("c", 1)]
    assert asked("open") == []
    vigil.end()
