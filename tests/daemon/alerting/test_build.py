"""From settings to detectors and times: what is given counts, what is wrong is named."""

import pytest

from ragmon.config import load
from ragmon.daemon.alerting.build import build_detection, build_maintenance, build_timing
from ragmon.detectors.rules import DEFAULT_RULES
from ragmon.errors import SettingsError


def settings(tmp_path, text: str):
    path = tmp_path / "given.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, {}, {}).settings


def rules(detection) -> list[tuple[str, str]]:
    return [(rule.kind.KIND, rule.metric) for rule in detection.rules]


@pytest.mark.parametrize(
    ("text", "extra", "missing"),
    [
        pytest.param("", [], [], id="the shipped rules"),
        pytest.param(
            "detectors: {rules: [{kind: slo, metric: slow, objective: 0.9}]}",
            [("slo", "slow")],
            [],
            id="one more",
        ),
        pytest.param(
            "detectors: {rules: [{kind: threshold, metric: slow, limit: 0.5}]}",
            [("threshold", "slow")],
            [("threshold", "slow")],
            id="one in the place of a shipped one",
        ),
    ],
)
def test_rules(tmp_path, text, extra, missing):
    shipped = [(rule["kind"], rule.get("metric", "")) for rule in DEFAULT_RULES]
    assert ("anomaly", "") in shipped
    kept = [rule for rule in shipped if rule not in missing]
    assert rules(build_detection(settings(tmp_path, text), [])) == [*extra, *kept]


def test_without_the_shipped_rules(tmp_path):
    text = "detectors: {defaults: false, rules: [{kind: anomaly, slices: false}]}"
    assert rules(build_detection(settings(tmp_path, text), [])) == [("anomaly", "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "detectors: {rules: [{kind: anomalie}]}",
            "detectors.rules.0: unknown kind 'anomalie'; did you mean `anomaly`?",
            id="an unknown kind",
        ),
        pytest.param(
            "detectors: {rules: [{kind: slo, metric: slow}]}",
            "detectors.rules.0.objective: Field required",
            id="an option is missing",
        ),
        pytest.param(
            "alerts: {wait: {slos: 1m}}",
            "alerts.wait: unknown kind 'slos'; did you mean `slo`?",
            id="wait",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, said):
    given = settings(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        build_detection(given, []), build_timing(given)
    assert said in str(caught.value)


def test_times_by_kind_beside_the_shipped_ones(tmp_path):
    timing = build_timing(settings(tmp_path, "alerts: {wait: {anomaly: 5m}, renotify: 1h}"))
    assert timing.wait == {"threshold": 120.0, "anomaly": 300.0}
    assert timing.keep == {"threshold": 300.0, "slo": 300.0, "repeats": 300.0}
    assert timing.renotify == 3_600.0


@pytest.mark.parametrize("start", ["02:30", "22:30"])
def test_maintenance_windows(tmp_path, start):
    text = f"alerts: {{maintenance: [{{name: x, days: [sun], start: {start}, duration: 2h}}]}}"
    (window,) = build_maintenance(settings(tmp_path, text))
    sunday = 3 * 86_400.0 + window.start_s  # 1 January 1970 was a Thursday
    assert window.start_s == int(start[:2]) * 3_600 + 1_800
    assert window.active(sunday)
    assert window.active(sunday + 7_199)
    assert not window.active(sunday + 7_200)
    assert not window.active(sunday + 86_400)
