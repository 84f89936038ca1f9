"""Observations of commits: joined without loss, with verdicts as weighted losses."""

import numpy as np
import pytest

from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline
from ragmon.detectors.intake import ObservationBuffer, no_later
from ragmon.detectors.losses import INDEX, LossMap
from ragmon.pipeline import amend
from ragmon.records import Amendments, Draw, Verdict
from tests.support.examples import NOON, chunks, record

PIPELINE = build_pipeline(Settings())


def observed(known: list[Amendments], first: int = 0):
    records = [
        record(f"q{at}", NOON + at, pipeline="docs", chunks=chunks("a"), answer="yes")
        for at in range(first, first + len(known))
    ]
    return PIPELINE.observe(records, known)


def known_of(share: float, probability: float, score: float | None = None) -> Amendments:
    found = Amendments(
        draw=Draw(
            query_id="q", probability=probability, proxy=0.5, share=share, drawn=score is not None
        )
    )
    if score is None:
        return found
    return amend(found, Verdict(query_id="q", judge="llm", score=score, probability=probability))[0]


def losses(buffer: ObservationBuffer, observations) -> np.ndarray:
    return LossMap(buffer.columns).losses(observations.values)


def test_batches_are_joined_in_their_order_with_their_own_dims():
    buffer = ObservationBuffer(PIPELINE.columns)
    one = observed([Amendments()] * 2)
    other = PIPELINE.observe([record("z", NOON + 9, pipeline="shop", version="v2")])
    for each in (one, other, one):
        buffer.log(each)
    assert buffer.records == 5
    joined = buffer.take().logged
    assert [joined.dims[at][0] for at in joined.dim_index] == [
        "docs",
        "docs",
        "shop",
        "docs",
        "docs",
    ]
    assert joined.timestamps.tolist() == [NOON, NOON + 1, NOON + 9, NOON, NOON + 1]
    assert buffer.records == 0
    assert buffer.take().span is None


def test_blocks_are_ten_minutes_each_with_what_was_restated():
    buffer = ObservationBuffer(PIPELINE.columns)
    buffer.log(PIPELINE.observe([record(str(at), NOON + at) for at in (1_200.0, 0.0, 599.0)]))
    old = PIPELINE.observe([record("r", NOON + 601.0)])
    buffer.restate(old, old)
    blocks = list(buffer.take().blocks())
    assert [each.span for each in blocks] == [
        (NOON, NOON + 599.0),
        (NOON + 601.0, NOON + 601.0),
        (NOON + 1_200.0, NOON + 1_200.0),
    ]


@pytest.mark.parametrize("pipelines", [2, 40], ids=["few dims", "more dims than records"])
def test_blocks_hold_their_records_whether_they_share_their_dims_or_not(pipelines):
    buffer = ObservationBuffer(PIPELINE.columns)
    for first in range(0, 40, 20):
        numbers = range(first, first + 20)
        buffer.log(
            PIPELINE.observe(
                [record(str(at), NOON + 61.0 * at, pipeline=f"p{at % pipelines}") for at in numbers]
            )
        )
    blocks = [block.logged for block in buffer.take().blocks()]
    shared = {id(block.dims) for block in blocks}
    assert (len(shared) == 1) == (pipelines == 2)
    found = [
        (block.dims[place][0], at)
        for block in blocks
        for place, at in zip(block.dim_index.tolist(), block.timestamps.tolist(), strict=True)
    ]
    assert found == [(f"p{at % pipelines}", NOON + 61.0 * at) for at in range(40)]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(Amendments(), None, id="an answer that could not be drawn"),
        pytest.param(known_of(1.0, 0.1), 0.0, id="one that was not drawn"),
        pytest.param(known_of(1.0, 0.1, 0.7), 0.3 / 0.1, id="a verdict counts for ten"),
        pytest.param(known_of(0.5, 0.1, 0.7), 0.3 / 0.2, id="of those that were looked at"),
        pytest.param(known_of(1.0, 0.1, 1.0), 0.0, id="a good verdict"),
    ],
)
def test_faithfulness_is_a_weighted_loss(known, expected):
    buffer = ObservationBuffer(PIPELINE.columns)
    buffer.restate(observed([Amendments()]), observed([known]))
    batch = buffer.take()
    found = losses(buffer, batch.after)[0, INDEX["faithfulness"]]
    assert np.isnan(losses(buffer, batch.before)[0, INDEX["faithfulness"]])
    assert (None if np.isnan(found) else pytest.approx(found)) == expected


def test_a_judge_that_read_an_answer_is_counted_unless_that_is_history():
    read = amend(Amendments(), Verdict(query_id="q", judge="grounding", score=0.9))[0]
    buffer = ObservationBuffer(PIPELINE.columns)
    buffer.log(observed([read, Amendments()]))
    batch = buffer.take()
    judged = [
        losses(buffer, each.logged)[:, INDEX["judged"]]
        for each in (batch, batch.unread(buffer.columns))
    ]
    assert [np.isnan(each).tolist() for each in judged] == [[False, True], [True, True]]
    grounding = losses(buffer, batch.unread(buffer.columns).logged)[0, INDEX["grounding"]]
    assert grounding == pytest.approx(0.1)


def test_nothing_is_counted_further_ahead_than_allowed():
    observations = observed([Amendments()] * 3)
    assert no_later(observations, NOON + 2.0) is observations
    assert no_later(observations, NOON + 1.0).timestamps.tolist() == [NOON, NOON + 1, NOON + 1]
