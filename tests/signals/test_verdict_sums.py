"""Verdicts and labels in the signals, and the mean grounding of a sample in the windows."""

import numpy as np
import pytest
from msgspec.structs import replace

from ragmon.detectors.losses import INDEX, LossMap
from ragmon.records import Amendments, Chunk, Draw, Label, QueryRecord, Verdict
from ragmon.signals import SignalOptions, verdict_sums
from ragmon.signals.catalogue import build
from ragmon.signals.failure_mode import MODES
from ragmon.stats import judged_estimate
from ragmon.windows import Merged, Windows
from ragmon.windows.estimates import estimate
from ragmon.windows.observations import Observations

CATALOGUE = build(SignalOptions())
ANSWERED = QueryRecord(
    query_id="q",
    timestamp=1_750_000_000.0,
    answer="Paris.",
    chunks=[Chunk("a", text="Paris is the capital.")],
    citations=["a"],
)


def judged(score, probability=1.0, reason=""):
    verdict = Verdict(
        query_id="q", judge="grounding", score=score, probability=probability, reason=reason
    )
    return Amendments(verdicts=(verdict,))


def said(faithful, timestamp=1.0):
    return Label(query_id="q", faithful=faithful, timestamp=timestamp)


def column(known, name, **labels):
    return CATALOGUE.observe([ANSWERED], [known])[0, CATALOGUE.index(name, **labels)]


@pytest.mark.parametrize(
    ("known", "grounding", "covered", "unfaithful", "mode"),
    [
        pytest.param(Amendments(), None, 0, None, "none", id="not read yet"),
        pytest.param(judged(0.9), 0.9, 1, 0, "none", id="supported"),
        pytest.param(judged(0.2), 0.2, 1, 1, "generation", id="not supported"),
        pytest.param(judged(None, reason="refusal"), None, 1, None, "none", id="cannot be judged"),
        pytest.param(
            Amendments(labels=(said(1.0),), verdicts=judged(0.2).verdicts),
            0.2, 1, 0, "none", id="people overrule the judge",
        ),
        pytest.param(
            Amendments(labels=(said(1.0, 1.0), Label(query_id="q", labeller="b", faithful=0.0,
                                                     timestamp=2.0))),
            None, 0, 1, "generation", id="the newest label counts",
        ),
    ],
)  # fmt: skip
def test_a_verdict_moves(known, grounding, covered, unfaithful, mode):
    def unknown_is_nan(value):
        return np.nan if value is None else value

    found = [column(known, name) for name in ("grounding", "grounding_coverage", "unfaithful")]
    expected = [unknown_is_nan(value) for value in (grounding, covered, unfaithful)]
    np.testing.assert_array_equal(found, expected)
    modes = [column(known, "failure_mode", mode=name) for name in MODES]
    assert MODES[int(np.argmax(modes))] == mode


def test_a_calibration_moves_the_level_and_nothing_that_is_watched():
    (shipped,) = judged(0.9).verdicts
    calibrated = replace(shipped, score=0.6, raw=0.9, doubted_below=0.7, version="1+1")
    before, after = Amendments(verdicts=(shipped,)), Amendments(verdicts=(calibrated,))
    assert [column(known, "grounding") for known in (before, after)] == [0.9, 0.6]
    losses = LossMap([each.key for each in CATALOGUE.columns])
    lost = losses.losses(CATALOGUE.observe([ANSWERED, ANSWERED], [before, after]))
    assert lost[:, INDEX["grounding"]] == pytest.approx([0.1, 0.1])


def test_an_answer_without_readable_context_is_not_awaited():
    bare = QueryRecord(query_id="q", timestamp=1.0, answer="Paris.", chunks=[Chunk("a")])
    values = CATALOGUE.observe([bare])[0]
    assert np.isnan(values[CATALOGUE.index("grounding_coverage")])


def merged(scores, probabilities) -> Merged:
    windows = Windows(CATALOGUE.columns, slices=(), longest_s=3_600.0, limit=10)
    known = [judged(*each) for each in zip(scores, probabilities, strict=True)]
    records = [ANSWERED] * len(known)
    values = CATALOGUE.observe(records, known)
    timestamps = np.full(len(known), ANSWERED.timestamp)
    dims = [("docs", "")]
    index = np.zeros(len(known), dtype=np.int32)
    windows.fold(Observations((), dims, index, timestamps, values))
    number = windows.series.keys[("docs", "", "")]
    whole = windows.merge(3_600.0, ANSWERED.timestamp)
    return Merged(whole.rows[[number]], whole.latency[[number]])


def test_a_drawn_answer_counts_for_those_not_drawn():
    # Ten read when all were, two read when one in ten was: they stand for twenty.
    found = estimate(merged([0.9] * 10 + [0.3] * 2, [1.0] * 10 + [0.1] * 2), CATALOGUE.columns)
    at = CATALOGUE.index("grounding")
    assert found.mean[0, at] == pytest.approx((10 * 0.9 + 20 * 0.3) / 30)
    assert found.samples[0, at] == 12
    assert 0.0 < found.lower[0, at] < found.mean[0, at] < found.upper[0, at] < 1.0


def test_reading_all_gives_the_plain_mean_and_interval():
    scores = np.linspace(0.2, 1.0, 40)
    found = estimate(merged(scores, [1.0] * 40), CATALOGUE.columns)
    plain = CATALOGUE.index("faithfulness", judge="grounding")
    assert found.mean[0, plain] == pytest.approx(scores.mean())
    human = CATALOGUE.index("faithfulness", judge="human")
    assert np.isnan(found.mean[0, human])


def test_a_drawn_sample_is_wider_than_a_full_reading():
    scores = np.tile(np.linspace(0.2, 1.0, 20), 2)
    at = CATALOGUE.index("grounding")
    widths = []
    for probabilities in ([1.0] * 40, [1.0] * 20 + [0.1] * 20):
        found = estimate(merged(scores, probabilities), CATALOGUE.columns)
        widths.append(found.upper[0, at] - found.lower[0, at])
    assert widths[1] > 1.2 * widths[0]


def drawn_twice(rng, is_good: bool) -> Amendments:
    """An answer of which few like it were drawn at first, and half of all by `ragmon judge`."""
    first, again = (0.05 if is_good else 0.5), 0.5
    both = 1.0 - (1.0 - first) * (1.0 - again)
    was_drawn, is_drawn = rng.random() < first, rng.random() < again
    verdicts = ()
    if was_drawn or is_drawn:
        chance = first if was_drawn else both  # as it was when the judge was asked
        fields = {"query_id": "q", "score": float(is_good)}
        verdicts = (
            Verdict(judge="tone", probability=chance, **fields),
            Verdict(judge="own", **fields),  # it reads every answer
        )
    draw = Draw(query_id="q", probability=both, proxy=0.5, drawn=bool(verdicts))
    return Amendments(verdicts=verdicts, draw=draw)


def test_answers_that_were_drawn_in_two_rounds_stand_for_the_same_ones():
    """Four in five are good; by the chances of the first round 85 % were, with 95 % confidence."""
    rng = np.random.default_rng(0)
    kept = verdict_sums.layout((1,), ("tone", "own"))
    known = [drawn_twice(rng, bool(at % 5)) for at in range(4_000)]
    rows = verdict_sums.observe([ANSWERED] * len(known), known, kept, ("tone",)).rows.sum(axis=0)
    shared, scored = (part[None] for part in kept.by_custom(rows, "tone"))
    estimate_ = judged_estimate.estimate(shared, scored)
    assert estimate_.mean[0] == pytest.approx(0.8, abs=0.03)
    assert estimate_.lower[0] < 0.8 < estimate_.upper[0]
    shared, scored = (part[None] for part in kept.by_custom(rows, "own"))
    seen = [verdict.score for each in known for verdict in each.verdicts if verdict.judge == "own"]
    assert judged_estimate.estimate(shared, scored).mean[0] == pytest.approx(np.mean(seen))
