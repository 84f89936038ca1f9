"""Short, hard outages are heard on the whole pipeline, as critical, within minutes."""

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from ragmon.alerts import AlertEvent
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import run
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.intake import ObservationBatch
from ragmon.detectors.rules import build
from ragmon.windows.observations import Observations

COLUMNS = (
    "error", "zero_result", "hit{k=5,evidence=citation}", "latency_ms{stage=total}", "slow",
    "uncited", "positive_feedback", "grounding_uncalibrated",
)  # fmt: skip
START = 29_000_160 * 60.0  # unix seconds, midnight
HISTORY_S = 4 * 3_600.0
CHANNELS = ("chat", "search", "api")
USUAL, DOWN = 0.02, 0.8


def traffic(
    outages: list[tuple[float, float]], lasts_s: float, rate: float, seed: int
) -> Observations:
    """Queries of one pipeline whose index goes away for a while, after some normal hours.

    Args:
        outages: (beginning, end) of each, in seconds after the history.
        lasts_s: length of all after the history.
        rate: queries a second.
        seed: of the chance.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.poisson(rate * (HISTORY_S + lasts_s)))
    at = np.sort(rng.uniform(0.0, HISTORY_S + lasts_s, n))
    down = np.zeros(n, dtype=np.bool_)
    for begins, ends in outages:
        down |= (at >= HISTORY_S + begins) & (at < HISTORY_S + ends)
    empty = rng.random(n) < np.where(down, DOWN, USUAL)
    latency = rng.lognormal(6.8, 0.5, n)
    values = np.full((n, len(COLUMNS)), np.nan)
    values[:, 0] = rng.random(n) < 0.004
    values[:, 1] = empty
    values[:, 2] = ~empty & (rng.random(n) < 0.9)
    values[:, 3] = latency
    values[:, 4] = latency > 5_000.0
    values[:, 5] = rng.random(n) < 0.05
    values[:, 6] = np.where(rng.random(n) < 0.1, rng.random(n) < 0.8, np.nan)
    values[:, 7] = rng.beta(18.0, 2.0, n)
    dims = [("docs", "v1", channel) for channel in CHANNELS]
    which = rng.choice(len(dims), n, p=[0.5, 0.3, 0.2]).astype(np.int32)
    return Observations(("channel",), dims, which, START + at, values)


def timeline(*, finished_log: bool = False) -> AlertTimeline:
    """What ships, without any past."""
    detection = functools.partial(Detection, COLUMNS, build(), DetectionOptions())
    return AlertTimeline(detection, finished_log=finished_log)


def lived(log: Observations) -> Iterator[tuple[float, AlertEvent]]:
    """Every transition with the moment at which a daemon makes it, to five seconds."""
    line = timeline()
    end = float(log.timestamps[-1])
    turns = [
        *np.arange(START, START + HISTORY_S, 60.0).tolist(),
        *np.arange(START + HISTORY_S, end, 5.0).tolist(),
    ]
    edges = np.searchsorted(log.timestamps, turns).tolist()
    for begins, ends, now in zip(edges, edges[1:], turns[1:], strict=False):
        rows = np.arange(begins, ends)
        batch = ObservationBatch(logged=log.select(rows) if len(rows) else None)
        for step in line.advance(batch, now):
            for event in step.events:
                yield now, event


def is_grave(event: AlertEvent) -> bool:
    """True for empty results of the whole pipeline, found as critical."""
    stream, alert = event.alert.key.stream, event.alert
    whole = stream.metric == "zero_result" and not stream.dimension
    return whole and alert.severity == "critical" and alert.state == "firing"


@pytest.mark.parametrize(
    ("rate", "second", "within_s"),
    [
        pytest.param(5.0, 0.0, 120.0, id="five a second, from the beginning of a minute"),
        pytest.param(5.0, 25.0, 120.0, id="five a second, from its middle"),
        pytest.param(5.0, 55.0, 120.0, id="five a second, from its end"),
        pytest.param(1 / 3, 15.0, 300.0, id="20 a minute"),
    ],
)
def test_five_minutes_without_index_are_heard_while_they_last(rate, second, within_s):
    begins = 300.0 + second
    log = traffic([(begins, begins + 300.0)], 900.0, rate, seed=int(second))
    transitions = list(lived(log))
    heard = [now - START - HISTORY_S - begins for now, event in transitions if is_grave(event)]
    assert 0.0 < min(heard) <= within_s
    calm = [event for now, event in transitions if now < START + HISTORY_S + begins]
    assert not calm
    after = [event.id for event in run(timeline(finished_log=True), log).events]
    assert after[: len(transitions)] == [event.id for _, event in transitions]


def test_one_more_soon_after_is_heard_as_soon():
    outages = [(begins, begins + 300.0) for begins in (310.0, 2_110.0)]
    events = [event for _, event in lived(traffic(outages, 2_700.0, 5.0, seed=1))]
    fired = {event.alert.fired_at for event in events if is_grave(event)}
    since = [at - START - HISTORY_S for at in sorted(fired)]
    assert [60.0 < at - begins <= 120.0 for at, (begins, _) in zip(since, outages, strict=True)]
