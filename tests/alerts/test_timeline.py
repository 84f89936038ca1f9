"""One timeline: live, caught up and as a finished log, the same records give the same alerts."""

import functools

import pytest

from ragmon.alerts.timeline import HISTORY, AlertTimeline
from ragmon.backtest.run import replay, run
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.rules import build
from tests.scenarios.story import (
    COLUMNS,
    START,
    STORIES,
    Story,
    caught_up,
    live,
    load,
    timeline,
    whole,
)

NOTIFICATIONS = ("notified",)  # without a transition


def transitions(events):
    """Time, change and evidence of each alert, whoever was notified."""
    return [
        (event.at, event.change, event.alert.key, event.alert.evidence)
        for event in events
        if event.change not in NOTIFICATIONS
    ]


@pytest.fixture(scope="module", params=["latency_step", "outage"])
def story(request):
    return load(STORIES / f"{request.param}.yaml")


@pytest.fixture(scope="module")
def lived(story):
    events = live(story, turn_s=20.0)
    assert [event for event in events if event.is_named]
    return events


def test_how_long_a_turn_is_changes_nothing(story, lived):
    assert live(story) == lived


@pytest.mark.parametrize("records", [700, 20_000])
def test_a_backfill_gives_the_transitions_of_live_and_notifies_nothing(story, lived, records):
    events = caught_up(story, records)
    assert transitions(events) == transitions(lived)
    over = [event.alert for event in events if event.change == "resolved"]
    ongoing = {event.alert.episode for event in events} - {alert.episode for alert in over}
    notified = {event.alert.episode for event in events if event.is_named}
    assert notified <= ongoing
    assert any(event.alert.silenced_by == HISTORY.name for event in events)


def test_a_finished_log_gives_the_events_of_live(story, lived):
    detection = functools.partial(Detection, COLUMNS, build(story.rules))
    history = run(AlertTimeline(detection, finished_log=True), whole(story))
    assert list(history.events) == lived


@pytest.mark.parametrize("lag_s", [0.0, 60.0, 1_800.0])
def test_a_log_of_minutes_is_judged_to_its_end_whatever_the_lag(lag_s):
    short = Story(title="ten minutes", history=0, lasts=10, loss={"error": 0.5})
    detection = functools.partial(Detection, [], build(short.rules), DetectionOptions(lag_s=lag_s))
    steps = replay(AlertTimeline(detection, finished_log=True), whole(short))
    minutes = [step.closed.minute for step in steps if step.closed is not None]
    assert minutes == list(range(START, START + 10))


def test_what_an_operator_should_know_of_comes_as_notices():
    story = Story(title="an hour, long ago", history=0, lasts=60, loss={"error": 0.0})
    line, buffer = timeline(story)
    buffer.log(whole(story))
    now = 60.0 * (START + 600)
    notices = [
        notice.event
        for at in (now, now + 31.0)  # history ends half a minute after its last record
        for step in line.advance(buffer.take(), at)
        for notice in step.notices
    ]
    assert notices == ["backfill_started", "backfill_finished", "downtime_not_judged"]
    broken, _ = timeline(story)
    notice = broken.load(b"no state", line.book.dump(), iter(()), catching_up=False)
    assert notice is not None
    assert (notice.event, notice.warning) == ("detection_state_unreadable", True)
    assert (line.begun_anew, broken.begun_anew) == (False, True)
