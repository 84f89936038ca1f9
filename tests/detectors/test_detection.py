"""The whole of detection: live, restarted and replayed it says the same."""

import numpy as np
import pytest
from msgspec.structs import replace

from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.detectors import StreamKey, rules
from ragmon.detectors.baselines import from_totals
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.losses import INDEX, LOSSES, REPEAT
from ragmon.detectors.minutes import SavedMinute
from ragmon.detectors.streams import NO_SERIES, REFUSED, StreamTable
from ragmon.errors import SettingsError
from ragmon.windows.observations import Observations
from tests.scenarios.story import COLUMNS, START, STORIES, load, queries

RULES = (*rules.DEFAULT_RULES, {"kind": "slo", "metric": "hit", "objective": 0.8})


def fresh(configured=RULES):
    return Detection(COLUMNS, rules.build(configured), DetectionOptions())


@pytest.fixture(scope="module")
def story():
    return load(STORIES / "zero_results.yaml")


@pytest.fixture(scope="module")
def batches(story):
    return [(minute, batch) for minute, batch in queries(story) if batch is not None]


def closed(log, configured):
    """The minutes of a finished log."""
    timeline = AlertTimeline(lambda: fresh(configured), finished_log=True)
    return [step.closed for step in replay(timeline, log) if step.closed is not None]


def run(detection, batches):
    minutes = []
    for minute, batch in batches:
        detection.fold(batch)
        minutes += detection.advance(detection.due((minute + 1) * 60.0))
    return minutes


@pytest.fixture(scope="module")
def live(batches):
    detection = fresh()
    detection.begin(START * 60.0)
    return run(detection, batches)


def test_something_is_found(live):
    assert any(each.findings for each in live)


def test_a_replay_agrees_bit_for_bit(live, batches):
    whole = Observations.concatenate([batch for _, batch in batches])
    shuffled = np.random.default_rng(1).permutation(len(whole))
    mixed = Observations(
        whole.slices,
        whole.dims,
        whole.dim_index[shuffled],
        whole.timestamps[shuffled],
        whole.values[shuffled],
    )
    replayed = closed(mixed, RULES)
    assert replayed[: len(live)] == live


def test_a_restart_is_invisible(live, batches, story):
    first, half = fresh(), story.history + 63  # in the middle of the incident
    first.begin(START * 60.0)
    minutes = run(first, batches[:half])
    buckets = {(each.tier, each.bucket): each for each in first.log.dump_dirty()}
    state = first.dump()
    second = fresh()
    second.load(state, [SavedMinute(*each) for each in buckets.values()])
    assert minutes + run(second, batches[half:]) == live


MORE = {"kind": "threshold", "metric": "error", "limit": 0.5, "window": 600.0}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param([MORE, *RULES], id="one more"),
        pytest.param(RULES[::-1], id="in another order"),
        pytest.param(RULES[1:], id="one less"),
        pytest.param([*RULES[:-1], {**RULES[-1], "objective": 0.7}], id="one changed"),
        pytest.param(RULES[:2], id="few"),
    ],
)
def test_a_restart_may_change_the_rules(live, batches, story, changed):
    # Rules that are new met streams they had no row for, and the others forgot what was open.
    first, half = fresh(), story.history + 63
    first.begin(START * 60.0)
    run(first, batches[:half])
    second = fresh(changed)
    second.load(first.dump(), list(first.log.dump_dirty()))
    minutes = run(second, batches[half:])
    kept = {rule["kind"] for rule in changed} & {"anomaly", "canary", "no_data"}
    for ours, theirs in zip(minutes, live[-len(minutes) :], strict=True):
        assert [f.alert for f in ours.findings if f.alert.kind in kept] == [
            f.alert for f in theirs.findings if f.alert.kind in kept
        ]


def test_later_feedback_counts_once():
    detection = fresh()
    detection.begin(START * 60.0)
    at = COLUMNS.index("positive_feedback")
    unrated = np.full((1, len(COLUMNS)), np.nan)
    unrated[0, COLUMNS.index("error")] = 0.0
    rated = unrated.copy()
    rated[0, at] = 0.0

    def batch(values):
        stamp = np.array([START * 60.0 + 5.0])
        return Observations((), [("docs", "v1")], np.zeros(1, np.int32), stamp, values)

    detection.fold(batch(unrated))
    list(detection.advance(START + 5))
    detection.restate(batch(unrated), batch(rated))
    row = detection.streams.rows[StreamKey("docs", "positive_feedback")]
    traffic = detection.streams.rows[StreamKey("docs", "traffic")]
    taken = detection.log.take()
    assert taken[row].tolist() == [1.0, 1.0, 1.0]
    assert taken[traffic, 0] == 0.0


def test_streams_are_bounded():
    detection = Detection(COLUMNS, [], DetectionOptions(max_streams=20))
    values = np.zeros((100, len(COLUMNS)))
    dims = [(f"p{at}", "v1") for at in range(100)]
    stamps = np.full(100, START * 60.0)
    detection.fold(Observations((), dims, np.arange(100, dtype=np.int32), stamps, values))
    assert len(detection.streams) == 20
    dropped = detection.streams.dropped
    assert dropped > 0
    detection.fold(Observations((), dims, np.arange(100, dtype=np.int32), stamps, values))
    assert detection.streams.dropped == 2 * dropped


def test_a_stream_that_was_refused_begins_once_others_are_forgotten():
    streams = StreamTable(len(LOSSES))
    seen, slices = np.ones((1, len(LOSSES)), dtype=bool), ("tenant",)
    old, new = [("docs", "", "a")], [("docs", "", "b")]
    first = streams.members(old, slices, np.zeros(1, np.int64), seen)
    streams.seen(first[0, 0], np.full(len(LOSSES), 5))
    assert (first[0, 0] >= 0).all()  # the pipeline
    whole = np.arange(len(LOSSES)) == INDEX[REPEAT]
    assert (first[0, 1, ~whole] == REFUSED).all()  # its tenant
    assert (first[0, 1, whole] == NO_SERIES).all()
    assert (first[0, 2] == NO_SERIES).all()  # it has no version
    streams.forget(6)
    second = streams.members(new, slices, np.zeros(1, np.int64), seen)
    assert (second[0, 0] >= 0).all()
    assert streams.dropped == 2 * int(np.count_nonzero(~whole))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"kind": "anomoly"}, "did you mean `anomaly`"),
        (
            {"kind": "anomaly", "severty": "info"},
            r"rules\.0\.severty: unknown option; did you mean `severity`",
        ),
        ({"kind": "threshold", "metric": "slow"}, "exactly one of limit and drop"),
        ({"kind": "slo", "metric": "speed", "objective": 0.9}, r"rules\.0\.metric"),
    ],
)
def test_a_wrong_rule_is_named(rule, says):
    with pytest.raises(SettingsError, match=says):
        rules.build([rule])


def test_a_stream_may_begin_while_a_baseline_is_in_force():
    detection = Detection([], rules.build([{"kind": "regression"}]), DetectionOptions(lag_s=0.0))
    detection.begin(START * 60.0)
    saved = {StreamKey("docs", "hit"): (1_000.0, 100.0, 100.0)}
    detection.use_baseline(from_totals("saved", saved, "", 0.0, source="traffic"))
    for minute in range(START, START + 30):
        names = ["docs", *(f"new{at}" for at in range(minute - START))]
        for name in names:
            detection.add(StreamKey(name, "hit"), np.array([minute]), np.array([[60.0, 6.0, 6.0]]))
        (closed,) = detection.advance(minute + 1)
        assert closed.findings == ()
    assert len(detection.streams) > 30


def test_a_stray_timestamp_does_not_make_a_replay_live_through_decades():
    batches = [
        batch for _, batch in queries(load(STORIES / "low_traffic.yaml")) if batch is not None
    ]
    stray = replace(batches[0], timestamps=batches[0].timestamps * 0.0 + 86_400.0)
    whole = Observations.concatenate([*batches[:30], stray])
    minutes = [minute.minute for minute in closed(whole, rules.DEFAULT_RULES)]
    assert minutes[0] == 1_440
    assert minutes[-1] == int(whole.timestamps.max() // 60)
    assert minutes == sorted(set(minutes))
    assert len(minutes) < 9 * 1_440
