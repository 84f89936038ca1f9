"""What a sampled judge says, in the windows: weighed by its draw, restated, saved and loaded."""

import numpy as np
import pytest

from ragmon.detectors.losses import INDEX, LossMap
from ragmon.records import Chunk, Draw, Label, Verdict
from ragmon.stats import judged_estimate as stats
from ragmon.windows import Merged
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.estimates import estimate, sampled_sums, shown
from ragmon.windows.observations import pack, unpack
from ragmon.windows.series import SeriesKey
from ragmon.windows.snapshot import add_saved, dump_totals, load_bucket, load_totals
from tests.support.examples import NOON, pipeline, record, windows

PIPELINE = pipeline(ks=(1, 3))
COLUMNS = PIPELINE.catalogue.columns
SHOWN = {column.key: at for at, column in enumerate(shown(COLUMNS))}
CHUNKS = [Chunk("a", text="Paris is the capital."), Chunk("b", text="Lyon is a city.")]
EMPTY = PIPELINE.observe([])


def drawn(query_id="q", probability=0.5, proxy=0.6, **fields):
    usual = {"drawn": True} | fields
    return Draw(query_id=query_id, probability=probability, proxy=proxy, **usual)


def said(query_id="q", score=0.5, **fields):
    usual = {"scores": {"answer_relevance": 0.75}, "useful": ("b",)}
    return Verdict(query_id=query_id, judge="llm", score=score, **(usual | fields))


class Stream:
    """Queries of one pipeline, and what becomes known of them."""

    def __init__(self):
        self.windows = windows(PIPELINE)
        self.records = {}
        self.known = {}

    def log(self, *ids, at=NOON):
        from ragmon.records import Amendments

        for each in ids:
            self.records[each] = record(each, at, answer="Paris.", chunks=CHUNKS)
            self.known[each] = Amendments()
        self.windows.fold(PIPELINE.observe([self.records[each] for each in ids]))

    def change(self, *changes):
        from ragmon.pipeline import amend

        for change in changes:
            query, before = self.records[change.query_id], self.known[change.query_id]
            after, _ = amend(before, change)
            old, new = (PIPELINE.observe([query], [each]) for each in (before, after))
            self.windows.restate(*(_through_bytes(each) for each in (old, new)))
            self.known[change.query_id] = after

    def merged(self, held=None) -> Merged:
        held = held or self.windows
        number = held.series.keys[SeriesKey("default")]
        whole = held.merge(3_600.0, NOON)
        return Merged(whole.rows[[number]], whole.latency[[number]], whole.judged[[number]])

    def found(self, key, held=None):
        estimates = estimate(self.merged(held), COLUMNS)
        parts = (estimates.mean, estimates.lower, estimates.upper, estimates.samples)
        return tuple(float(part[0, SHOWN[key]]) for part in parts)


def _through_bytes(observations):
    return unpack(pack(observations, PIPELINE.columns), PIPELINE.columns)


@pytest.fixture
def stream():
    return Stream()


def test_a_verdict_is_shown_by_every_score_it_gives(stream):
    stream.log("q")
    stream.change(drawn(), said())
    means = {key: stream.found(key)[0] for key in SHOWN if "judge=" in key or "=judge" in key}
    assert means == pytest.approx(
        {
            "faithfulness{judge=grounding}": np.nan,
            "faithfulness{judge=human}": np.nan,
            "faithfulness{judge=llm}": 0.5,
            "faithfulness{judge=llm_corrected}": np.nan,
            "faithfulness{judge=local}": np.nan,
            "faithfulness{judge=local_corrected}": np.nan,
            "answer_relevance{judge=llm}": 0.75,
            "completeness{judge=llm}": np.nan,
            "conciseness{judge=llm}": np.nan,
            "context_precision{judge=llm}": np.nan,
            "context_recall{judge=llm}": np.nan,
            "hit{k=1,evidence=judge}": 0.0,
            "hit{k=3,evidence=judge}": 1.0,
            "reciprocal_rank{evidence=judge}": 0.5,
        },
        nan_ok=True,
    )


def test_a_failed_judgement_is_no_score(stream):
    stream.log("q", "r")
    stream.change(drawn("q"), drawn("r"), said("q", 1.0), said("r", None, reason="timeout"))
    assert stream.found("faithfulness{judge=llm}")[3] == 1
    shared, scored = sampled_sums(stream.merged(), COLUMNS)
    got = stats.estimate(shared, scored)
    assert got.failure_share[0, 0] == pytest.approx(0.5)


def test_the_sums_are_those_of_the_formulas(stream):
    """One stretch of answers by the rows of ``stats.judged``, and through the windows."""
    rng = np.random.default_rng(3)
    proxy, probability = rng.random(200), rng.uniform(0.2, 1.0, 200)
    share = np.where(np.arange(200) < 100, 1.0, 0.5)
    total = probability * share
    score = np.where(rng.random(200) < total, (rng.random(200) < proxy) * 1.0, np.nan)
    ids = [f"q{number}" for number in range(200)]
    stream.log(*ids)
    for at, each in enumerate(ids):
        draw = drawn(each, float(total[at]), float(proxy[at]), share=float(share[at]))
        stream.change(draw)
        if not np.isnan(score[at]):
            stream.change(said(each, float(score[at]), scores={}, useful=None))
    shared, scored = sampled_sums(stream.merged(), COLUMNS)
    expected = stats.shared_rows(proxy, total, ~np.isnan(score))
    expected[:, :2] /= share[:, None]
    np.testing.assert_allclose(shared[0, 0], expected.sum(axis=0))
    rows = stats.scored_rows(proxy, total, score).sum(axis=0)
    np.testing.assert_allclose(scored[0, 0], rows)
    mean = stats.estimate(expected.sum(axis=0), rows).mean
    assert stream.found("faithfulness{judge=llm}")[0] == pytest.approx(float(mean))


def test_a_newer_verdict_takes_the_place_of_the_old(stream):
    stream.log("q")
    stream.change(drawn(), said(score=0.0, timestamp=1.0), said(score=1.0, timestamp=2.0))
    assert stream.found("faithfulness{judge=llm}")[::3] == (1.0, 1.0)


def test_a_later_round_of_drawing_changes_the_weight(stream):
    stream.log("q", "r")
    stream.change(drawn("q", 0.1), said("q", 0.0), drawn("r", 1.0), said("r", 1.0))
    assert stream.found("faithfulness{judge=llm}")[0] == pytest.approx(1 / 11)
    stream.change(drawn("q", 1.0, round=1))
    assert stream.found("faithfulness{judge=llm}")[0] == pytest.approx(0.5)


def test_an_answer_that_nobody_drew_is_not_counted(stream):
    stream.log("q")
    stream.change(said())
    assert stream.found("faithfulness{judge=llm}")[3] == 0


@pytest.mark.parametrize(
    ("below", "counts"),
    [
        pytest.param(None, [1, 0, 0, 0], id="at one half"),
        pytest.param(0.9, [0, 0, 1, 0], id="at the calibrated threshold"),
    ],
)
def test_agreement_of_the_embedded_judge_with_people(stream, below, counts):
    stream.log("q", "r")
    stream.change(
        Verdict(query_id="q", judge="grounding", score=0.8, doubted_below=below),
        Label(query_id="q", faithful=1.0, timestamp=1.0),
        Label(query_id="r", faithful=1.0, timestamp=1.0),
    )
    confusion = estimate(stream.merged(), COLUMNS).confusion
    assert confusion[0].tolist() == [counts, [0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_restart_keeps_what_was_judged(stream):
    stream.log("q", "r")
    stream.change(drawn("q"), said("q"), drawn("r", 0.2), said("r", 1.0))
    stream.change(Label(query_id="q", faithful=0.0, timestamp=1.0))
    restored = windows(PIPELINE)
    totals, saved = dump_totals(stream.windows), list(ChangedBuckets(stream.windows).dump())
    load_totals(restored, totals)
    for bucket in saved:
        load_bucket(restored, bucket)
    np.testing.assert_allclose(stream.merged(restored).judged, stream.merged().judged)
    stream.windows = restored
    stream.change(said("q", 1.0, timestamp=5.0))
    assert stream.found("faithfulness{judge=llm}")[0] == 1.0


def test_saved_buckets_lengthen_what_was_judged(stream):
    stream.log("q")
    stream.change(drawn(), said())
    coarsest = len(stream.windows.tiers) - 1
    bodies = [each.body for each in ChangedBuckets(stream.windows).dump() if each.tier == coarsest]
    merged, keys = add_saved(stream.merged(), {SeriesKey("default"): 0}, bodies, COLUMNS)
    held = merged.judged[keys[SeriesKey("default")]]
    np.testing.assert_allclose(held, 2 * stream.merged().judged[0])


def test_another_choice_of_k_keeps_the_other_scores(stream):
    stream.log("q")
    stream.change(drawn(), said())
    other = pipeline(ks=(1, 5))
    restored = windows(other)
    totals, saved = dump_totals(stream.windows), list(ChangedBuckets(stream.windows).dump())
    load_totals(restored, totals)
    for bucket in saved:
        load_bucket(restored, bucket)
    estimates = estimate(stream.merged(restored), other.catalogue.columns)
    names = [column.key for column in shown(other.catalogue.columns)]
    means = dict(zip(names, estimates.mean[0].tolist(), strict=True))
    assert means["faithfulness{judge=llm}"] == 0.5
    assert means["hit{k=1,evidence=judge}"] == 0.0
    assert np.isnan(means["hit{k=5,evidence=judge}"])


def test_series_that_are_forgotten_leave_nothing(stream):
    stream.log("q")
    stream.change(drawn(), said())
    stream.windows.forget(NOON + 400 * 86_400)
    assert not stream.windows.merge(3_600.0, NOON).judged.any()


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        pytest.param([], np.nan, id="not looked at"),
        pytest.param([drawn(drawn=False)], 0.0, id="not drawn"),
        pytest.param([drawn(), said(score=None, reason="timeout")], 0.0, id="not judged"),
        pytest.param([drawn(probability=0.1), said(score=0.25)], 7.5, id="judged"),
        pytest.param(
            [drawn(probability=0.1, share=0.5), said(score=0.25)], 3.75, id="of those looked at"
        ),
        pytest.param([said(score=0.25)], np.nan, id="by hand"),
    ],
)
def test_what_detectors_watch_is_weighed_to_stand_for_all(stream, changes, loss):
    stream.log("q")
    stream.change(*changes)
    row = PIPELINE.observe([stream.records["q"]], [stream.known["q"]]).values[0]
    np.testing.assert_allclose(row[PIPELINE.catalogue.index("judged_loss")], loss)
    losses = LossMap(PIPELINE.columns).losses(row[None, :])
    np.testing.assert_allclose(losses[0, INDEX["faithfulness"]], loss)


def test_labels_move_the_judge_to_what_people_would_say():
    """A judge that is too mild by 0.3 on all, seen by people on a part."""
    rng = np.random.default_rng(1)
    stream, ids = Stream(), [f"q{number}" for number in range(300)]
    stream.log(*ids)
    truth = np.where(rng.random(300) < 0.6, 0.7, 0.1)
    for each, people in zip(ids, truth.tolist(), strict=True):
        stream.change(drawn(each, 1.0), said(each, people + 0.3))
    assert stream.found("faithfulness{judge=llm_corrected}")[3] == 0
    chosen = np.flatnonzero(rng.random(300) < np.where(truth > 0.5, 0.1, 0.6))  # mostly bad ones
    for number in chosen.tolist():
        stream.change(Label(query_id=ids[number], faithful=float(truth[number]), timestamp=1.0))
    mean, lower, upper, samples = stream.found("faithfulness{judge=llm_corrected}")
    assert samples == len(chosen) > 50
    assert mean == pytest.approx(truth.mean(), abs=0.01)
    assert lower < truth.mean() < upper
    assert stream.found("faithfulness{judge=llm}")[0] == pytest.approx(truth.mean() + 0.3)
    assert abs(truth[chosen].mean() - truth.mean()) > 0.1  # what the plain mean would say
