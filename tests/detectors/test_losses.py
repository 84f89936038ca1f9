"""What observations lose, exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.detectors.losses import INDEX, LossMap, cells, known_metric, loss_of
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build

COLUMNS = tuple(column.key for column in build(SignalOptions()).columns)
NAN = float("nan")


def lost(metric, edges=None, **observed):
    values = np.full((1, len(COLUMNS)), NAN)
    for name, value in observed.items():
        values[
            0,
            COLUMNS.index(
                name.replace("__", "{")
                .replace("_is_", "=")
                .replace("_and_", ",")
                .replace("_end", "}")
            ),
        ] = value
    found = LossMap(COLUMNS).losses(values, None if edges is None else np.array([edges]))
    return found[0, INDEX[metric]]


@pytest.mark.parametrize(
    ("metric", "observed", "expected"),
    [
        ("traffic", {}, 0.0),
        ("error", {"error": 1.0}, 1.0),
        ("zero_result", {"zero_result": 1.0}, 1.0),
        ("attribution", {"attribution": 0.25}, 0.75),
        ("grounding", {"grounding": 0.5, "grounding_uncalibrated": 0.75}, 0.25),
        ("positive_feedback", {"positive_feedback": 1.0}, 0.0),
        ("positive_feedback", {}, NAN),
        ("slow", {"slow": 1.0}, 1.0),
        ("hit", {"hit__k_is_5_and_evidence_is_citation_end": 1.0}, 0.0),
        ("hit", {"hit__k_is_1_and_evidence_is_citation_end": 1.0}, NAN),
        (
            "hit",
            {
                "hit__k_is_5_and_evidence_is_label_end": 0.0,
                "hit__k_is_5_and_evidence_is_citation_end": 1.0,
            },
            1.0,
        ),
        ("refusal", {"refusal": 1.0}, 1.0),
        ("refusal", {"refusal": 1.0, "repeat": 1.0}, NAN),
        ("false_refusal", {"false_refusal__evidence_is_score_end": 1.0}, 1.0),
        (
            "false_refusal",
            {
                "false_refusal__evidence_is_label_end": 0.0,
                "false_refusal__evidence_is_score_end": 1.0,
            },
            0.0,
        ),
        ("mode_generation", {"failure_mode__mode_is_generation_end": 1.0}, 1.0),
        ("traffic", {"repeat": 1.0}, 0.0),
        ("error", {"error": 1.0, "repeat": 1.0}, NAN),
        ("hit", {"hit__k_is_5_and_evidence_is_label_end": 0.0, "repeat": 3.0}, NAN),
        ("positive_feedback", {"positive_feedback": 0.0, "repeat": 1.0}, 1.0),
    ],
)
def test_losses(metric, observed, expected):
    assert lost(metric, **observed) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("edges", "median", "p95"),
    [((100.0, 900.0), 1.0, 0.0), ((100.0, 400.0), 1.0, 1.0), ((NAN, NAN), NAN, NAN)],
)
def test_latency_is_lost_above_the_usual(edges, median, p95):
    observed = {"latency_ms__stage_is_total_end": 500.0}
    assert lost("latency_p50", edges, **observed) == pytest.approx(median, nan_ok=True)
    assert lost("latency", edges, **observed) == pytest.approx(p95, nan_ok=True)


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("hot", "did you mean hit"),
        ("hit/5", "no metric 'hit/5'"),
        ("custom_score/", "no metric 'custom_score/'"),
        ("", "known are traffic"),
    ],
)
def test_a_rule_on_a_metric_that_does_not_exist_names_the_nearest(metric, why):
    with pytest.raises(ValueError, match=why):
        known_metric(metric)


@pytest.mark.parametrize("metric", ["hit", "custom_score", "custom_score/tone"])
def test_a_rule_may_watch_any_metric_and_one_custom_judge(metric):
    assert known_metric(metric) == metric


def test_the_loss_of_a_custom_judge_speaks_of_its_name():
    assert (loss_of("custom_score/tone").good, loss_of("hit").good) == ("tone score", "hit rate")


@given(st.lists(st.floats(0.0, 300.0), min_size=2, max_size=40), st.randoms())
@settings(max_examples=50, deadline=None)
def test_sums_are_the_same_in_any_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = (cells(np.array(each)) for each in (values, shuffled))
    assert one.sum(axis=0).tolist() == np.add.accumulate(other, axis=0)[-1].tolist()
