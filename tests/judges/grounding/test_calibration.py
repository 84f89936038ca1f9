"""A pipeline's own labels bend the score no further than they are worth."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.judges.grounding.calibration import (
    LEAST_LABELS,
    LEAST_LABELS_ISOTONIC,
    Calibration,
    apply,
    calibrate,
)


def pipeline(n, *, slope=1.0, shift=0.0, trait=0.0, centre=0.5, seed=0):
    """Scores, labels and traits whose true log odds are slope * logit + shift + trait * t."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(centre, 1.5, n)
    t = rng.normal(0.0, 1.0, n)
    truth = 1.0 / (1.0 + np.exp(-(slope * odds + shift + trait * t)))
    labels = (rng.random(n) < truth).astype(float)
    return 1.0 / (1.0 + np.exp(-odds)), labels, t[:, None]


def log_loss(labels, probabilities):
    p = np.clip(probabilities, 1e-6, 1 - 1e-6)
    return -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))


def balanced_accuracy(labels, kept):
    return (kept[labels == 1].mean() + (~kept)[labels == 0].mean()) / 2


@pytest.mark.parametrize(
    ("n", "truth", "least_gain"),
    [
        pytest.param(60, {"shift": 2.0}, 0.2, id="answers are mostly right here"),
        pytest.param(60, {"shift": -2.0}, 0.2, id="answers are mostly wrong here"),
        pytest.param(100, {"slope": 0.3}, 0.02, id="the score tells little here"),
        pytest.param(100, {"slope": 1.0}, -0.02, id="nothing to learn costs next to nothing"),
        pytest.param(100, {"trait": 1.5}, 0.05, id="a trait matters here"),
    ],
)
def test_labels_improve_unseen_answers(n, truth, least_gain):
    gains = []
    for seed in range(10):
        scores, labels, traits = pipeline(n, **truth, seed=seed)
        calibration = calibrate(scores, labels, traits=traits)
        unseen, outcome, unseen_traits = pipeline(4_000, **truth, seed=seed + 100)
        read = [apply(calibration, s, t) for s, t in zip(unseen, unseen_traits, strict=True)]
        gains.append(log_loss(outcome, unseen) - log_loss(outcome, read))
    assert np.mean(gains) > least_gain


def test_the_threshold_follows_the_pipeline():
    harsh = {"centre": -2.0, "shift": 2.0}  # a domain whose answers always look unsupported
    calibration = calibrate(*pipeline(100, **harsh)[:2])
    scores, labels, _ = pipeline(4_000, **harsh, seed=1)
    read = np.array([apply(calibration, s) for s in scores])
    assert balanced_accuracy(labels, read >= calibration.threshold) > 0.68
    assert balanced_accuracy(labels, scores >= 0.5) < 0.6


@pytest.mark.parametrize(
    ("n", "truth", "kind"),
    [
        pytest.param(LEAST_LABELS - 1, {}, "shipped", id="too few labels"),
        pytest.param(80, {}, "platt", id="few labels"),
        pytest.param(150, {"trait": 2.0}, "traits", id="a strong trait"),
        pytest.param(LEAST_LABELS_ISOTONIC * 2, {}, "platt", id="isotonic must earn its place"),
    ],
)
def test_the_kind_is_the_simplest_that_serves(n, truth, kind):
    scores, labels, traits = pipeline(n, **truth)
    assert calibrate(scores, labels, traits=traits).kind == kind


def test_isotonic_when_the_score_has_a_step():
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.02, 0.98, 1_500)
    labels = (rng.random(1_500) < np.where(scores > 0.9, 0.95, 0.2)).astype(float)
    calibration = calibrate(scores, labels)
    assert calibration.kind == "isotonic"
    assert apply(calibration, 0.5) < 0.35 < 0.8 < apply(calibration, 0.97)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_kind_of_label_teaches_nothing(label):
    assert calibrate([0.2, 0.8] * 30, [label] * 60).kind == "shipped"


def test_labels_upside_down_do_not_turn_the_score_over():
    scores, labels, _ = pipeline(100)
    calibration = calibrate(scores, 1.0 - labels)
    assert apply(calibration, 0.9) > apply(calibration, 0.1)


def test_weights_stand_for_answers():
    scores, labels, _ = pipeline(120, shift=1.0)
    counts = np.random.default_rng(2).integers(1, 4, 120)
    repeated = calibrate(np.repeat(scores, counts), np.repeat(labels, counts))
    weighted = calibrate(scores, labels, counts.astype(float))
    unweighted = calibrate(scores, labels)
    distance = abs(weighted.intercept - repeated.intercept)
    assert distance < abs(unweighted.intercept - repeated.intercept)
    assert weighted.labels < 120  # uneven weights are worth fewer labels


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(
        st.tuples(
            st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]), st.floats(-1e3, 1e3, width=32)
        ),
        max_size=260,
    ),
    low=st.floats(0, 1),
    high=st.floats(0, 1),
    trait=st.floats(-1e3, 1e3),
)
def test_any_labels_give_a_monotone_reading_that_survives_json(data, low, high, trait):
    calibration = calibrate(
        [d[0] for d in data], [d[1] for d in data], traits=[[d[2]] for d in data]
    )
    assert msgspec.json.decode(msgspec.json.encode(calibration), type=Calibration) == calibration
    assert 0.0 <= calibration.threshold <= 1.0
    low, high = sorted((low, high))
    assert 0.0 <= apply(calibration, low, [trait]) <= apply(calibration, high, [trait]) <= 1.0


@pytest.mark.parametrize(
    ("scores", "labels", "weights", "traits"),
    [
        pytest.param([0.5], [1.0, 0.0], None, None, id="lengths"),
        pytest.param([0.5, 1.5], [1.0, 0.0], None, None, id="score out of range"),
        pytest.param([0.5, 0.5], [1.0, 2.0], None, None, id="label out of range"),
        pytest.param([0.5, 0.5], [1.0, 0.0], [1.0, 0.0], None, id="weight zero"),
        pytest.param([0.5, float("nan")], [1.0, 0.0], None, None, id="not a number"),
        pytest.param([0.5, 0.5], [1.0, 0.0], None, [[1.0]], id="rows of traits"),
    ],
)
def test_unusable_labels_are_refused(scores, labels, weights, traits):
    with pytest.raises(ValueError):
        calibrate(scores, labels, weights, traits=traits)


def test_a_trait_that_is_needed_must_be_given():
    scores, labels, traits = pipeline(150, trait=2.0)
    with pytest.raises(ValueError):
        apply(calibrate(scores, labels, traits=traits), 0.5)
