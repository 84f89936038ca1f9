"""Each kind on minutes made by hand; ``test_alerts_scenarios`` has them all together."""

import numpy as np
import pytest

from ragmon.detectors import DetectorState, StreamKey, budget, rules
from ragmon.detectors.baselines import from_log, from_totals
from ragmon.detectors.canary import gains
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.streams import StreamTable
from ragmon.plugins import kinds

START = 29_000_160
HIT = StreamKey("docs", "hit")


def world(*rule):
    detection = Detection([], rules.build(rule), DetectionOptions(lag_s=0.0))
    detection.begin(START * 60.0)
    return detection


def live(detection, minutes, cells):
    """Minutes of the same cells by stream; returns the last findings."""
    closed = None
    for _ in range(minutes):
        now = detection.log.frontier
        for key, cell in cells.items():
            detection.add(key, np.array([now]), np.array([cell], dtype=float))
        (closed,) = detection.advance(now + 1)
    return closed.findings


def test_every_kind_is_found():
    assert kinds("ragmon.detectors") == [
        "anomaly", "canary", "drift", "no_data", "regression", "repeats", "slo", "threshold",
    ]  # fmt: skip


def test_the_shipped_rules_have_every_kind_and_its_state_can_be_saved():
    shipped = rules.build()
    assert {rule.kind.KIND for rule in shipped} == set(kinds("ragmon.detectors"))
    states = [rule.kind.build(rule.options) for rule in shipped]
    assert [state for state in states if not isinstance(state, DetectorState)] == []
    assert [rule.name for rule in shipped if rule.kind.KIND in ("slo", "anomaly")] == ["", "0.95"]


def test_a_threshold_of_some_pipelines_waits_for_the_first_of_them():
    rule = {"kind": "threshold", "metric": "hit", "limit": 0.2, "pipelines": ["docs"]}
    detection = world({**rule, "window": 600.0})
    for minute in range(START, START + 3):
        assert [closed.findings for closed in detection.advance(minute + 1)] == [()]
    assert live(detection, 30, {HIT: (20, 10, 10)})


def test_shares_sum_to_one_and_slices_weigh_as_much_as_the_whole():
    streams = StreamTable(6)
    for key in (HIT, *(HIT._replace(dimension="tenant", value=str(at)) for at in range(4))):
        streams.row(key)
    shares = budget.weights(streams, streams.used)
    assert shares.tolist() == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125, 0.0])
    limits = budget.minutes_to_false_alarm(shares, 2.0)
    assert limits[0] == pytest.approx(43_200.0)
    assert limits[-1] == np.inf
    assert "once in 3 months" in budget.guarantee(43_200.0 * 3, 1.0)


@pytest.mark.parametrize(
    ("bad", "found"),
    [(10, {"critical", "warning"}), (2.4, {"warning"}), (0.5, set())],
)
def test_burn_rates(bad, found):
    detection = world({"kind": "slo", "metric": "hit", "objective": 0.99})
    findings = live(detection, 4_400, {HIT: (60, bad, bad)})
    assert {finding.severity for finding in findings} == found


@pytest.mark.parametrize(
    ("metric", "bad", "severity"),
    [
        pytest.param("error", 54, "critical", id="most queries get no answer"),
        pytest.param("error", 15, "warning", id="some get none"),
        pytest.param("hit", 54, "warning", id="answers are only worse"),
    ],
)
def test_an_outage_is_critical(metric, bad, severity):
    detection, stream = world({"kind": "anomaly"}), StreamKey("docs", metric)
    assert not live(detection, 1_800, {stream: (60, 1, 1)})
    (found,) = live(detection, 10, {stream: (60, bad, bad)})
    assert found.severity == severity


@pytest.mark.parametrize(
    ("n", "lost", "found"),
    [
        pytest.param(60, 30, 1, id="far above the limit"),
        pytest.param(60, 12.2, 0, id="hardly above it is not sure"),
        pytest.param(0.5, 0.5, 0, id="too few samples"),
    ],
)
def test_a_plain_limit(n, lost, found):
    detection = world({"kind": "threshold", "metric": "hit", "limit": 0.2, "window": 600.0})
    assert len(live(detection, 30, {HIT: (n, lost, lost)})) == found


def test_a_plain_limit_has_hysteresis_and_does_not_end_in_silence():
    detection = world({"kind": "threshold", "metric": "hit", "limit": 0.2, "window": 600.0})
    live(detection, 30, {HIT: (60, 30, 30)})
    assert live(detection, 12, {HIT: (60, 11.5, 11.5)})[0].status == "bad"
    assert live(detection, 12, {})[0].status == "unknown"
    assert live(detection, 12, {HIT: (60, 6, 6)}) == ()


@pytest.mark.parametrize(
    ("rate", "silence", "found"),
    [
        pytest.param(60, 2, 0, id="two minutes are no outage"),
        pytest.param(60, 4, 1, id="four minutes of a busy pipeline are"),
        pytest.param(0.1, 60, 0, id="an hour of a quiet one is not"),
        pytest.param(0.1, 400, 1, id="half a day is"),
    ],
)
def test_silence(rate, silence, found):
    detection, rng = world({"kind": "no_data"}), np.random.default_rng(1)
    traffic = StreamKey("docs", "traffic")
    for _ in range(2 * 1_440 + 20):
        n = rng.poisson(rate)
        live(detection, 1, {traffic: (n, 0, 0)} if n else {})
    live(detection, 1, {traffic: (1, 0, 0)})
    assert len(live(detection, silence, {})) == found
    assert live(detection, 1, {traffic: (1, 0, 0)}) == ()


def test_a_night_without_traffic_is_no_outage():
    detection, traffic = world({"kind": "no_data"}), StreamKey("docs", "traffic")
    for day in range(3):
        evening = 600 - 7 * day  # a little earlier every day
        assert live(detection, evening, {traffic: (30, 0, 0)}) == ()
        night = [live(detection, 1, {}) for _ in range(1_440 - evening)]
        assert day < 1 or not any(night)


def test_the_monitors_own_absence_is_no_silence():
    detection, traffic = world({"kind": "no_data"}), StreamKey("docs", "traffic")
    live(detection, 1_600, {traffic: (30, 0, 0)})
    detection.resume((detection.log.frontier + 300) * 60.0)
    assert live(detection, 2, {}) == ()


def test_a_regression_against_a_week_of_traffic():
    detection = world({"kind": "regression"})
    live(detection, 3_000, {HIT: (20, 2, 2)})
    last = detection.log.frontier
    baseline = from_log(
        detection.log, detection.streams, "good", first=START, last=last, now=last * 60.0
    )
    assert len(baseline.streams[0].cells) == 24
    detection.use_baseline(baseline)
    assert live(detection, 60, {HIT: (20, 2, 2)}) == ()
    (found,) = live(detection, 60, {HIT: (20, 6, 6)})
    assert found.reference.mean == pytest.approx(0.1)
    assert found.reference_text == "in baseline good"


def test_a_golden_baseline_judges_no_traffic():
    detection = world({"kind": "regression"})
    detection.use_baseline(from_totals("golden", {HIT: (300.0, 3.0, 3.0)}, "run", 0.0))
    assert live(detection, 120, {HIT: (20, 10, 10)}) == ()


@pytest.mark.parametrize(("share", "level"), [(0.1, 0.07), (0.5, 0.02), (0.9, 0.4)])
def test_a_canarys_bets_are_fair_at_any_common_level(share, level):
    rng, runs = np.random.default_rng(4), 40_000
    theta = np.full(runs, level)
    for real in (0.5 * level, level, 1.5 * level):  # season moves both versions
        arms = []
        for n in (20 * share, 20 * (1 - share)):
            size = np.full(runs, round(n))
            lost = rng.binomial(size, real)
            arms.append(np.stack([size, lost, lost], axis=1).astype(float))
        worth = np.exp(gains(*arms, theta, 0.0))
        error = 4.0 * worth.std(axis=0) / runs**0.5
        assert (worth.mean(axis=0) <= 1.0 + error).all()


def test_a_canary_that_goes_away_is_not_compared_any_more():
    detection = world({"kind": "canary", "metrics": ["hit"]})
    versions = {
        StreamKey("docs", metric, "version", name): (30, lost if metric == "hit" else 0, 0)
        for name, lost in (("old", 2), ("new", 9))
        for metric in ("traffic", "hit")
    }
    old = {key: cell for key, cell in versions.items() if key.value == "old"}
    live(detection, 300, old)
    (found,) = live(detection, 60, versions)
    assert found.alert.stream.value == "new"
    assert found.reference_text == "in version old over the same minutes"
    assert live(detection, 80, old) == ()


def test_a_worse_canary_is_not_cleared_by_the_hours_in_which_little_is_lost():
    detection, found = world({"kind": "canary", "metrics": ["hit"]}), []

    def day(worse):
        for minute in range(0, 1_440, 10):
            level = 0.08 + 0.05 * np.sin(2.0 * np.pi * minute / 1_440)
            rates = {"old": (32, level), "new": (8, level + worse)}
            versions = {
                StreamKey("docs", metric, "version", name): (n, lost * (metric == "hit"), 0)
                for name, (n, rate) in rates.items()
                for metric, lost in (("traffic", 0), ("hit", n * rate))
            }
            found.append(len(live(detection, 10, versions)))

    day(0.05)
    day(0.05)
    assert found == [0] * found.count(0) + [1] * found.count(1)
    assert found.count(1) > 200
    day(0.0)
    assert found[-1] == 0


def test_the_first_days_are_the_baseline_until_one_is_saved():
    detection = Detection([], rules.build([{"kind": "regression"}]), DetectionOptions(first_days=1))
    detection.begin(START * 60.0)
    live(detection, 1_440, {HIT: (20, 2, 2)})
    assert detection.baseline is None
    live(detection, 61, {HIT: (20, 2, 2)})
    assert detection.baseline.title == "the first day"
    saved = from_totals("mine", {HIT: (300.0, 30.0, 30.0)}, "", 0.0, source="traffic")
    detection.use_baseline(saved)
    live(detection, 120, {HIT: (20, 2, 2)})
    assert detection.baseline.title == "baseline mine"


def test_a_trickle_of_ratings_does_not_end_their_silence_and_half_of_them_do():
    detection = world({"kind": "no_data"})
    traffic, ratings = HIT._replace(metric="traffic"), HIT._replace(metric="positive_feedback")
    usual = {traffic: (60, 0, 0), ratings: (12, 2, 2)}
    assert live(detection, 1_500, usual) == ()
    began = detection.log.frontier
    (silent,) = live(detection, 10, {traffic: (60, 0, 0)})
    for _ in range(4):
        trickle = live(detection, 1, usual | {ratings: (1, 0, 0)})
        again = live(detection, 4, {traffic: (60, 0, 0)})
        assert [each.alert for each in (*trickle, *again)] == [silent.alert] * 2
        assert again[0].changed_at == began * 60.0
    assert live(detection, 12, usual) == ()


def test_an_outage_of_traffic_ends_with_the_first_query():
    detection = world({"kind": "no_data"})
    traffic = HIT._replace(metric="traffic")
    live(detection, 1_500, {traffic: (60, 0, 0)})
    assert len(live(detection, 10, {})) == 1
    assert live(detection, 1, {traffic: (1, 0, 0)}) == ()
