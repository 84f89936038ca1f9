"""Something stopped: traffic, ratings, judgements or a source. Nothing is not zero.

Silence is measured in observations that were expected meanwhile, so that a night or a quiet
pipeline is no outage: the expected rate is that of the same hour a week ago, or the least of
the same hour of the days that are known. It must exceed twice the longest silence that ended by
itself, because traffic comes in bursts.
"""

from typing import ClassVar

import numpy as np
from pydantic import BaseModel, Field

from ragmon.detectors import MINUTE_S, AlertKey, Finding, Measured, Severity, Tick
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints
from ragmon.detectors.core import MONTH_MINUTES
from ragmon.detectors.episodes import chosen
from ragmon.detectors.expected_levels import DAY_TENS, DAYS
from ragmon.detectors.minutes import TEN, MinuteLog

KIND = "no_data"

WATCHED = ("traffic", "judged", "positive_feedback")
_FADES = 0.9  # a day, of the longest silence
_DAY = 1_440
_FIRST_DAY = 0.25  # of the rate of the last two hours, while no day is known
_LONGER = 2.0
_LEAST_DUE = 4.0  # observations expected, before what depends on traffic may be back
_MOST_DUE = 12.0
_SHARE_BACK = 0.5  # of them that must have come
_HALVES = 2
_HALF_HOUR = 3  # ten-minutes


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metrics: tuple[str, ...] = WATCHED
    """Data that must keep coming: traffic, judged, positive_feedback (ratings of any kind), or any
    other metric."""
    min_gap: float = Field(default=180.0, ge=60.0)
    """Shortest time without data, in seconds, after which an alert fires."""
    severity: Severity = "critical"
    """Severity of the alerts for traffic; the others are warnings."""


class NoDataState(Arrays):
    """The present silence of every stream."""

    silent: Ints  # minutes without an observation
    expected: Floats  # observations expected in them
    longest: Floats  # the most that were expected in a silence that ended by itself
    rate: Floats  # observations expected a minute, or a query for what depends on traffic
    open: Bools
    since: Ints  # minute in which the silence of an open alert began
    back: Floats  # observations since it ended
    due: Floats  # observations expected since then
    _FIELDS: ClassVar[Fields] = {
        "silent": ((), "i8", 0),
        "expected": ((), "f8", 0),
        "longest": ((), "f8", 0),
        "rate": ((), "f8", 0),
        "open": ((), "?", 0),
        "since": ((), "i8", 0),
        "back": ((), "f8", 0),
        "due": ((), "f8", 0),
    }

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.ready = False
        self.watched_as = (-1, -1)  # version and number of the streams then
        self.watched: Ints = np.zeros(0, dtype=np.int64)
        self.traffic: Ints = np.zeros(0, dtype=np.int64)  # each one's pipeline; -1: itself

    def resume(self) -> None:
        """The monitor itself was away: what it did not see was no silence."""
        self.silent[:] = 0
        self.expected[:] = 0.0


def build(options: Options) -> NoDataState:
    """State of a detector that has seen nothing."""
    return NoDataState(options)


def step(state: NoDataState, tick: Tick) -> list[Finding]:
    """One minute further."""
    if tick.renewed or not state.ready:
        _watch(state, tick)
    if tick.renewed:
        _renew(state, tick)
    rows = state.watched
    if not len(rows):
        return []
    n = tick.cells[rows, 0]
    of = np.where(state.traffic >= 0, tick.cells[state.traffic, 0], 1.0)
    ended = n > 0.0
    _learn(state, rows[ended])
    state.silent[rows] = np.where(ended, 0, state.silent[rows] + 1)
    state.expected[rows] = np.where(ended, 0.0, state.expected[rows] + state.rate[rows] * of)
    state.open[rows] &= ~(ended & _recovered(state, n, of))
    least = np.maximum(_odds(tick.allowed, len(rows)), _LONGER * state.longest[rows])
    long_enough = state.silent[rows] * MINUTE_S >= state.options.min_gap
    begins = rows[~state.open[rows] & long_enough & (state.expected[rows] >= least)]
    state.open[begins] = True
    state.since[begins] = tick.minute + 1 - state.silent[begins]
    return [_describe(state, tick, row) for row in rows[state.open[rows]].tolist()]


def _recovered(state: NoDataState, n: Floats, of: Floats) -> Bools:
    """True where what came back is no trickle; (watched,).

    Traffic is back with its first query. What depends on it, such as ratings, must have come half
    as often as usual since the silence ended: a broken widget may let one in ten through.
    """
    rows, depends = state.watched, state.traffic >= 0
    counted = state.open[rows] & depends & ((n > 0.0) | (state.due[rows] > 0.0))
    state.back[rows] = np.where(counted, state.back[rows] + n, 0.0)
    state.due[rows] = np.where(counted, state.due[rows] + state.rate[rows] * of, 0.0)
    kept = np.minimum(1.0, _MOST_DUE / np.maximum(state.due[rows], 1e-9))  # of late alone
    state.back[rows] *= kept
    state.due[rows] *= kept
    enough = (state.due[rows] >= _LEAST_DUE) & (state.back[rows] >= _SHARE_BACK * state.due[rows])
    return np.asarray(~depends | enough, dtype=np.bool_)


def usual_rate(log: MinuteLog, ten: int, streams: Ints, first: Ints) -> Floats:
    """Observations a minute about this time: a week ago, else the least of the known days.

    Of a day it is the least of the half hours within an hour of this time.

    Streams that are younger than a day get a part of their rate over the last two hours.

    Args:
        log: of all streams.
        ten: the ten minutes that begin now.
        streams: (m,) rows.
        first: (m,) the minute of the first observation of each.
    """
    near = np.arange(-_HALVES * _HALF_HOUR, _HALVES * _HALF_HOUR)
    tens = ten - DAY_TENS * np.arange(1, DAYS + 1)[:, None] + near
    observations = log.counts(tens.ravel(), streams)
    halves = observations.reshape(DAYS, 2 * _HALVES, _HALF_HOUR, -1).sum(axis=2) / (
        _HALF_HOUR * TEN
    )
    by_day = halves.min(axis=1)  # evenings come a little earlier, mornings a little later
    whole_tens = ten - np.minimum(first // TEN, ten) - _HALVES * _HALF_HOUR
    age = np.clip(whole_tens // DAY_TENS, 0, DAYS)  # past days that hold all that is looked at
    known = np.arange(1, DAYS + 1)[:, None] <= age
    least = np.where(known, by_day, np.inf).min(axis=0)
    recent = log.span((ten - 12) * TEN, ten * TEN, streams)[:, 0] / 120.0
    young = np.where(np.isinf(least), _FIRST_DAY * recent, least)
    return np.asarray(np.where(age >= DAYS, by_day[DAYS - 1], young), dtype=np.float64)


def _watch(state: NoDataState, tick: Tick) -> None:
    """Choose the streams to watch, and find the traffic that each depends on."""
    seen = (tick.streams.version, tick.settled)
    if state.ready and state.watched_as == seen:
        return
    state.watched_as = seen
    watched = [
        row
        for row in np.flatnonzero(chosen(tick, state.options.metrics, slices=True)).tolist()
        if (key := tick.streams.keys[row]) and not (key.dimension and key.pipeline)
    ]
    state.watched = np.array(watched, dtype=np.int64)
    state.traffic = np.array([_traffic_of(tick, row) for row in watched], dtype=np.int64)
    state.ready = True


def _renew(state: NoDataState, tick: Tick) -> None:
    """The rates at this time of day."""
    first = tick.streams.first_minute[state.watched]
    rate = usual_rate(tick.log, tick.minute // TEN, state.watched, first)
    depends = state.traffic >= 0
    # Ratings and judgements follow the traffic: expected is their share of the queries.
    day = (tick.minute - _DAY, tick.minute)
    queries = np.maximum(tick.log.span(*day, state.traffic)[:, 0], 1.0)
    share = tick.log.span(*day, state.watched)[:, 0] / queries
    state.rate[state.watched] = np.where(depends, share, rate)
    state.longest *= _FADES ** (TEN / _DAY)


def _traffic_of(tick: Tick, row: int) -> int:
    key = tick.streams.keys[row]
    assert key is not None
    if key.metric == "traffic":
        return -1
    return tick.streams.rows.get(key._replace(metric="traffic"), -1)


def _learn(state: NoDataState, rows: Ints) -> None:
    """A silence that ended before it was called an outage is normal."""
    normal = rows[~state.open[rows]]
    state.longest[normal] = np.maximum(state.longest[normal], state.expected[normal])


def _odds(allowed: float, streams: int) -> float:
    """Expected observations whose absence would be chance too rarely to matter."""
    return float(np.log(MONTH_MINUTES * max(streams, 1) / allowed))


def _describe(state: NoDataState, tick: Tick, row: int) -> Finding:
    key = tick.streams.keys[row]
    assert key is not None
    expected = max(float(state.expected[row]), float(state.due[row]))
    silent_s = float(tick.minute + 1 - state.since[row]) * MINUTE_S
    often = "once" if tick.allowed == 1.0 else f"{tick.allowed:g} times"
    return Finding(
        alert=AlertKey(KIND, key),
        status="bad",
        severity=state.options.severity if key.metric == "traffic" else "warning",
        observed=Measured(0.0, 0.0, 0.0, 0.0),
        reference=Measured(expected, expected, expected, expected),
        reference_text="at the rate of the same hour on past days",
        changed_at=float(state.since[row]) * MINUTE_S,
        window_s=silent_s,
        evidence=float(np.exp(min(expected, 600.0))),
        threshold=max(_odds(tick.allowed, len(state.watched)), _LONGER * float(state.longest[row])),
        guarantee=(
            f"at the usual rate a gap this long happens by chance at most {often} in 30 days"
        ),
    )
