"""Numbers that follow the windows are those of windows that are added up anew."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from ragmon.exposition import window_figures
from ragmon.exposition.figures import numbers
from ragmon.exposition.window_figures import WindowFigures
from ragmon.pipeline import amend
from ragmon.records import Amendments, Label, Latency, Verdict
from ragmon.windows import Merged
from ragmon.windows.copies import WindowCopier
from ragmon.windows.estimates import estimate
from tests.support.examples import DAY_S, NOON, chunks, pipeline, record, windows

LENGTHS = {"5m": 300.0, "1h": 3_600.0, "7d": 7 * DAY_S}
PIPELINE = pipeline(slices=("tenant",))


def some(rng: random.Random, count: int, now: float, pipelines: int) -> list:
    """Queries of a few pipelines, a third of them late."""
    return [
        record(
            f"{now}-{at}",
            now - rng.choice((0.0, 3.0, 50.0, 900.0, 2 * DAY_S)) * rng.random(),
            pipeline=f"p{rng.randrange(pipelines)}",
            tags={"tenant": f"t{rng.randrange(4)}"},
            answer="The fee is due.",
            chunks=chunks("a", "b", scores=(rng.random(), rng.random())),
            citations=["a"],
            relevant_ids=[rng.choice("abc")],
            latency_ms=Latency(total=rng.lognormvariate(6, 1), retrieval=rng.choice((None, 9.5))),
        )
        for at in range(count)
    ]


def judge(held, queries: list, now: float) -> None:
    """Have people and the embedded judge read some answers."""
    for query in queries:
        known, _ = amend(Amendments(), Label(query_id=query.query_id, faithful=1.0, timestamp=now))
        known, _ = amend(
            known, Verdict(query_id=query.query_id, judge="grounding", score=0.4, timestamp=now)
        )
        held.restate(PIPELINE.observe([query]), PIPELINE.observe([query], [known]))


def map_again(held, queries: list) -> None:
    """Have traces come to an end later, which changes their latencies."""
    for query in queries:
        longer = replace(query, latency_ms=Latency(total=70_000.0, retrieval=9.5))
        known, _ = PIPELINE.revise(query, Amendments(), longer)
        held.restate(PIPELINE.observe([query]), PIPELINE.observe([query], [known]))


def members(held, of_slices: bool) -> list:
    keys = [each for each in held.series.keys.items() if held.totals.queries[each[1]]]
    return [each for each in keys if bool(each[0].dimension) == of_slices]


def followed(held, figures: WindowFigures, now: float, of_slices: bool) -> list:
    series = members(held, of_slices)
    places = np.array([number for _, number in series], dtype=np.intp)
    copier = WindowCopier(held, now)
    return figures.update(series, [copier.copy(length, places) for length in LENGTHS.values()])


def added_up(held, now: float, of_slices: bool) -> list:
    """The same of the windows themselves, as a report reads them."""
    stages = slice(1 if of_slices else None)
    places = [number for _, number in members(held, of_slices)]
    expected = []
    for length in LENGTHS.values():
        whole = held.merge(length, now)
        merged = Merged(whole.rows[places], whole.latency[places, stages], whole.judged[places])
        estimates = estimate(merged, held.columns, with_intervals=not of_slices)
        expected.append(numbers(estimates))
    return expected


@pytest.mark.parametrize("of_slices", [False, True])
def test_whatever_happens_they_are_those_of_the_windows_added_up_anew(of_slices):
    rng, held, now = random.Random(3), windows(PIPELINE, longest_s=8 * DAY_S), NOON
    figures = WindowFigures(
        PIPELINE.catalogue.columns,
        list(LENGTHS),
        stages=1 if of_slices else 3,
        with_intervals=not of_slices,
    )
    held.fold(PIPELINE.observe(some(rng, 9, now, pipelines=2)))
    compared = 0
    for turn in range(24):
        queries = some(rng, rng.choice((0, 1, 30)), now, pipelines=2 + turn // 6)
        if queries:
            held.fold(PIPELINE.observe(queries))
            judge(held, queries[: len(queries) // 3], now)
            map_again(held, queries[-1:])
        if turn % 6 == 5:
            held.forget(now)  # so that numbers of series are used again
        parts = followed(held, figures, now, of_slices)
        for part, expected in zip(parts, added_up(held, now, of_slices), strict=True):
            assert len(part.keys) == len(expected)
            np.testing.assert_array_equal(part.numbers, expected)
            compared += np.isfinite(expected).sum()
        now += rng.choice((0.0, 5.0, 11.0, 70.0, 4_000.0, DAY_S))
    assert compared > 2_000


def test_only_series_whose_sums_changed_are_estimated(monkeypatch):
    held, sizes = windows(PIPELINE), []
    figures = WindowFigures(
        PIPELINE.catalogue.columns, list(LENGTHS), stages=3, with_intervals=True
    )

    def counted(merged, columns, *, with_intervals):
        sizes.append(len(merged.rows))
        return estimate(merged, columns, with_intervals=with_intervals)

    monkeypatch.setattr(window_figures, "estimate", counted)
    held.fold(PIPELINE.observe(some(random.Random(1), 60, NOON, pipelines=5)))
    followed(held, figures, NOON, of_slices=False)
    followed(held, figures, NOON, of_slices=False)
    held.fold(PIPELINE.observe([record("one", NOON, pipeline="p3")]))
    followed(held, figures, NOON, of_slices=False)
    assert sizes == [5 * len(LENGTHS), len(LENGTHS)]
