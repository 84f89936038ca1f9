"""A version worse than the stable one, minute by minute, so that season cancels.

In each minute the canary's n_a losses and the stable version's n_b are set against a pooled past
level theta. With f = n_a / (n_a + n_b) the bets a_k = theta + d_k (1 - f) and
b_k = theta - d_k f satisfy n_a (a_k - theta) = -n_b (b_k - theta) = c, and

    g_k = llr(a; a_k : theta) + llr(b; b_k : theta) - c tol / (theta (1 - theta))

has log E[exp g_k] <= (c / v) (theta_a - theta_b - tol) <= 0 whenever the canary's true loss is
at most the stable one's plus ``tol`` (by convexity for any losses in [0, 1], then
log(1 + y) <= y). The levels need only agree within a minute. The weighted mean of
exp(sum of g_k) is then a supermartingale: the chance that it ever reaches 1 / alpha is at most
alpha, however often one looks (Ville).

After Turner, Ly and Grünwald (2024), Generic E-variables for Exact Sequential k-Sample Tests.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
from pydantic import BaseModel, Field

from ragmon.detectors import MINUTE_S, AlertKey, Finding, Severity, StreamKey, Tick
from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints, picked
from ragmon.detectors.core import CAP, RESOLVED, SHIFTS, SHORTEST_MINUTES, mixture
from ragmon.detectors.episodes import measured
from ragmon.detectors.losses import DETECTED, INDEX, LOSSES
from ragmon.detectors.streams import StreamTable
from ragmon.percentages import percent_text
from ragmon.windows.series import OTHER, VERSION

KIND = "canary"

_ENOUGH = 30
_NEAR_MINUTES = 120  # the level of these, where they hold enough, follows the season
_ENOUGH_NEAR = 500
_LOWEST, _HIGHEST = 1e-4, 0.995
_DAY = 1_440
_GONE_MINUTES = 60  # without traffic, after which a version is not running any more
_PRIOR_MINUTES = 30.0  # what the stream's own scatter is worth against the pair's
_MOST_PAIRS = 2_000
_SURELY = 3.0  # standard errors
_BURST_CAP = CAP / 2.0  # where bursts come: one may hit one of the versions alone
_UNBOUNDED = tuple(loss.metric for loss in LOSSES if loss.shape == "weighted")


class Options(BaseModel, frozen=True, extra="forbid"):
    """Settings."""

    metrics: tuple[str, ...] = tuple(name for name in DETECTED if name not in _UNBOUNDED)
    """Metrics to compare; only those between 0 and 1."""
    stable: dict[str, str] = {}
    """Stable version by pipeline; by default the one with the most queries last week."""
    alpha: float = Field(default=0.01, gt=0.0, lt=1.0)
    """Probability of a false alarm for a version that is not worse, over all metrics and however
    long it runs."""
    tolerance: float = Field(default=0.0, ge=0.0, lt=1.0)
    """A version that is worse by less than this raises no alert."""
    severity: Severity = "critical"
    """Severity of the alerts."""


class VersionPair(NamedTuple):
    """A version that is compared with another on one metric."""

    pipeline: str
    metric: str
    canary: str
    stable: str


class Minute(NamedTuple):
    """Cells of one minute, of the pairs of which both versions had traffic."""

    number: int  # unix minutes
    rows: Ints  # (pairs,) of the tests
    canary: Floats  # (pairs, 3)
    stable: Floats
    phi: Floats  # (pairs,) over-dispersion
    caps: Floats  # the most that this minute may count


class Tests(Arrays):
    """One row a pair."""

    canary: Ints  # row of the canary's stream
    stable: Ints
    evidence: Floats  # (pairs, 8) W_k
    best: Floats  # (pairs, 8) the smallest W_k so far
    since: Ints  # (pairs, 8) when that was: the change point under k
    theta: Floats  # NaN: learning
    dispersion: Floats  # (pairs, 3) minutes, Σ z, Σ z² of the canary's excess
    open: Bools
    opened: Ints
    changed: Ints
    recovery: Floats
    seen: Floats  # (pairs, 2, 3) canary and stable since the test began
    _FIELDS: ClassVar[Fields] = {
        "canary": ((), "i8", 0),
        "stable": ((), "i8", 0),
        "evidence": ((8,), "f8", 0),
        "best": ((8,), "f8", 0),
        "since": ((8,), "i8", 0),
        "theta": ((), "f8", np.nan),
        "dispersion": ((3,), "f8", 0),
        "open": ((), "?", 0),
        "opened": ((), "i8", 0),
        "changed": ((), "i8", 0),
        "recovery": ((), "f8", 0),
        "seen": ((2, 3), "f8", 0),
    }
    _BY_PART = frozenset({"evidence", "best", "since"})


class CanaryState:
    """The running comparisons."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pairs: list[VersionPair] = []
        self.tests = Tests()
        self.limits: Floats = np.zeros(0)  # 1 / alpha of each pair
        self.matched: dict[tuple[str, str, str], int] = {}  # version of the streams, by comparison

    def grow(self, streams: int) -> None:
        """Nothing: rows are pairs, not streams."""

    def clear(self, streams: Sequence[int] | Ints) -> None:
        """End the comparisons that use one of these streams."""
        rows = np.asarray(streams, dtype=np.int64)
        gone = np.isin(self.tests.canary, rows) | np.isin(self.tests.stable, rows)
        self.keep(~gone)

    def keep(self, kept: Bools) -> None:
        """Drop the comparisons for which ``kept`` is false."""
        if kept.all():
            return
        self.matched.clear()  # the roles may be taken anew
        self.pairs = [pair for pair, each in zip(self.pairs, kept.tolist(), strict=True) if each]
        self.tests.keep(kept)
        self.limits = _limits(self)

    def dump(self) -> bytes:
        """Everything, as bytes."""
        return msgspec.msgpack.encode((self.pairs, self.tests.dump()))

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        self.pairs, body = msgspec.msgpack.decode(data, type=tuple[list[VersionPair], bytes])
        self.tests.load(body)
        self.limits = _limits(self)
        self.matched.clear()


def build(options: Options) -> CanaryState:
    """State of a detector that has seen nothing."""
    return CanaryState(options)


def step(state: CanaryState, tick: Tick) -> list[Finding]:
    """One minute further."""
    if tick.renewed:
        _match(state, tick)
    if not state.pairs:
        return []
    tests = state.tests
    a, b = tick.cells[tests.canary], tick.cells[tests.stable]
    rows = np.flatnonzero((a[:, 0] > 0.0) & (b[:, 0] > 0.0))  # nothing is learned of the others
    minute = _minute(tests, tick, rows)
    compare(tests, minute, state.options.tolerance)
    _observe_scatter(tests, minute)
    _recover(tests, minute)
    judged = np.arange(len(tests)) if tick.renewed else rows  # a limit or theta may be new
    worse = mixture(np.exp(np.minimum(tests.evidence[judged], 600.0))) >= state.limits[judged]
    fresh = judged[worse & ~tests.open[judged] & ~np.isnan(tests.theta[judged])]
    if len(fresh):
        _open(tests, fresh, tick.minute)
    return [_describe(state, tick, row) for row in np.flatnonzero(tests.open).tolist()]


def compare(tests: Tests, minute: Minute, tolerance: float) -> None:
    """Add one minute to the evidence of every pair that runs."""
    running = ~np.isnan(tests.theta[minute.rows]) & ~tests.open[minute.rows]
    rows, a, b = minute.rows[running], minute.canary[running], minute.stable[running]
    gain = gains(a, b, tests.theta[rows], tolerance) / minute.phi[running, None]
    evidence = picked(tests.evidence, rows) + np.minimum(gain, minute.caps[running, None])
    tests.evidence[rows] = evidence
    best, since = picked(tests.best, rows), picked(tests.since, rows)
    lower = (evidence < best) | (since == 0)
    tests.best[rows] = np.where(lower, evidence, best)
    tests.since[rows] = np.where(lower, minute.number + 1, since)
    tests.seen[rows, 0] += a
    tests.seen[rows, 1] += b


def gains(a: Floats, b: Floats, theta: Floats, tolerance: float, shifts: Floats = SHIFTS) -> Floats:
    """g_k of one minute, (pairs, 8) or as many as there are shifts; every n positive.

    Args:
        a: cells of the canaries, (pairs, 3).
        b: of the stable versions.
        theta: (pairs,) pooled level.
        tolerance: what a canary may be worse.
        shifts: (k,), or (pairs, 1) where each pair has its own.
    """
    n_a, n_b = a[:, 0], b[:, 0]  # by shift in memory: few long stretches instead of many short
    odds = n_a / n_b
    th = np.clip(theta, 2.0 * _LOWEST, 1.0 - 2.0 * (1.0 - _HIGHEST))
    shift = shifts.T if shifts.ndim > 1 else shifts[:, None]
    below = np.maximum(th - shift * n_a / (n_a + n_b), _LOWEST)
    above = np.minimum(th + (th - below) / odds, _HIGHEST)
    below = th - (above - th) * odds
    gain = _llr(a, above, th) + _llr(b, below, th)
    gain -= n_a * (above - th) * tolerance / (th * (1.0 - th))
    return np.asarray(gain.T, dtype=np.float64)


def _llr(cells: Floats, alternative: Floats, null: Floats) -> Floats:
    n, lost = cells[:, 0], cells[:, 1]
    good = np.log((1.0 - alternative) / (1.0 - null))
    return np.asarray(lost * np.log(alternative / null) + (n - lost) * good, dtype=np.float64)


def _match(state: CanaryState, tick: Tick) -> None:
    """Begin and end comparisons as versions come and go, and renew theta from the past."""
    log, streams, tests = tick.log, tick.streams, state.tests
    recent = log.window(_GONE_MINUTES)[:, 0]
    state.keep((recent[tests.canary] > 0.0) & (recent[tests.stable] > 0.0))
    for pipeline, versions in _versions(streams, recent).items():
        stable = state.options.stable.get(pipeline) or _most_used(tick, versions)
        for version in sorted(versions):
            if version != stable and stable in versions:
                _begin(state, tick, pipeline, version, stable)
    state.limits = _limits(state)
    day, near = _pooled(tests, tick, _DAY), _pooled(tests, tick, _NEAR_MINUTES)
    enough_near = (near[:, 0] >= _ENOUGH_NEAR) & (near[:, 1] >= _ENOUGH)
    pooled = np.where(enough_near[:, None], near, day)
    level = pooled[:, 1] / np.maximum(pooled[:, 0], 1.0)
    tests.theta = np.where(pooled[:, 0] >= _ENOUGH, level, np.nan)


def _pooled(tests: Tests, tick: Tick, minutes: int) -> Floats:
    """Cells of both versions of each pair together over the last minutes, (pairs, 3)."""
    span = (tick.minute - minutes, tick.minute)
    both = (tick.log.span(*span, rows) for rows in (tests.canary, tests.stable))
    return np.asarray(sum(both), dtype=np.float64)


def _most_used(tick: Tick, versions: dict[str, int]) -> str:
    """The version with the most queries last week."""
    rows = np.array(list(versions.values()), dtype=np.int64)
    week = tick.log.span(tick.minute - 7 * _DAY, tick.minute, rows)[:, 0]
    return max(zip(week.tolist(), versions, strict=True))[1]


def _versions(streams: StreamTable, recent: Floats) -> dict[str, dict[str, int]]:
    """Traffic rows of the versions that run now, by pipeline."""
    by_pipeline: dict[str, dict[str, int]] = {}
    traffic = streams.versioned & streams.used & (streams.loss == INDEX["traffic"])
    # In the order in which the streams began, which decides between equals.
    running = set(np.flatnonzero(traffic & (recent > 0.0)).tolist())
    for key, row in streams.rows.items() if running else ():
        if row in running and key.value not in ("", OTHER):
            by_pipeline.setdefault(key.pipeline, {})[key.value] = row
    return {pipeline: versions for pipeline, versions in by_pipeline.items() if len(versions) > 1}


def _begin(state: CanaryState, tick: Tick, pipeline: str, canary: str, stable: str) -> None:
    comparison = (pipeline, canary, stable)
    if state.matched.get(comparison) == tick.streams.version:
        return  # no stream has begun since
    state.matched[comparison] = tick.streams.version
    known = {pair for pair in state.pairs if pair.pipeline == pipeline}
    if any((pair.canary, pair.stable) == (stable, canary) for pair in known):
        return  # the roles stay as they were when the comparison began
    for metric in state.options.metrics:
        pair = VersionPair(pipeline, metric, canary, stable)
        mine, other = (
            tick.streams.rows.get(StreamKey(pipeline, metric, VERSION, version))
            for version in (canary, stable)
        )
        if pair in known or mine is None or other is None or len(state.pairs) >= _MOST_PAIRS:
            continue
        state.pairs.append(pair)
        state.tests.grow(len(state.pairs))
        state.tests.canary[-1], state.tests.stable[-1] = mine, other


def _minute(tests: Tests, tick: Tick, rows: Ints) -> Minute:
    """The minute of some pairs."""
    canary, stable = tests.canary[rows], tests.stable[rows]
    phi = _overdispersion(tests.dispersion[rows], tick.references.mean_scatter[stable, 0])
    caps = np.where(tick.references.caps[stable] > CAP, CAP, _BURST_CAP)
    return Minute(tick.minute, rows, tick.cells[canary], tick.cells[stable], phi, caps)


def _overdispersion(dispersion: Floats, own: Floats) -> Floats:
    """The phi of each pair: what its minutes scatter more than independent losses would."""
    n, total, squares = dispersion.T
    beyond = squares - total * total / np.maximum(n, 1.0)
    phi = (_PRIOR_MINUTES * np.maximum(own, 1.0) + beyond) / (_PRIOR_MINUTES + n)
    return np.asarray(np.maximum(phi, 1.0), dtype=np.float64)


def _observe_scatter(tests: Tests, minute: Minute) -> None:
    """Count the canary's standardised excess of this minute, for the minutes to come."""
    known = ~np.isnan(tests.theta[minute.rows])
    rows, a, b = minute.rows[known], minute.canary[known], minute.stable[known]
    n_a, n_b = a[:, 0], b[:, 0]
    seen = tests.seen[rows]
    level = (seen[..., 1] + _ENOUGH * tests.theta[rows, None]) / (seen[..., 0] + _ENOUGH)
    variance = np.maximum(level * (1.0 - level), _LOWEST)  # a worse canary scatters more by itself
    excess = a[:, 1] / n_a - b[:, 1] / n_b
    z = excess / np.sqrt(variance[:, 0] / n_a + variance[:, 1] / n_b)
    tests.dispersion[rows] += np.stack([np.ones_like(z), z, z * z], axis=1)


def _open(tests: Tests, rows: Ints, minute: int) -> None:
    tests.open[rows] = True
    tests.opened[rows] = minute
    tests.recovery[rows] = 0.0
    risen = tests.evidence[rows] - tests.best[rows]
    tests.changed[rows] = tests.since[rows, risen.argmax(axis=1)]


def _recover(tests: Tests, minute: Minute) -> None:
    """A canary that loses as little as the stable version does is tested anew.

    Version against version again: an hour in which both lose less than usual ends nothing. Nor
    does an outage: where nearly everything is lost, versions cannot differ.
    """
    is_open = tests.open[minute.rows]
    if not is_open.any():
        return
    rows, a, b = minute.rows[is_open], minute.canary[is_open], minute.stable[is_open]
    seen = tests.seen[rows]
    canary, stable = (seen[:, arm, 1] / np.maximum(seen[:, arm, 0], 1.0) for arm in (0, 1))
    half = np.maximum(canary - stable, 0.0)[:, None] / 2.0
    theta = np.where(np.isnan(tests.theta[rows]), stable, tests.theta[rows])
    gain = np.where(_is_outage(b, theta), 0.0, -gains(a, b, theta, 0.0, half)[:, 0])
    before = np.maximum(tests.recovery[rows], 0.0)
    tests.recovery[rows] = before + np.minimum(gain / minute.phi[is_open], CAP)
    age = minute.number - tests.opened[rows]
    over = rows[(tests.recovery[rows] >= RESOLVED) & (age >= SHORTEST_MINUTES)]
    for name in ("evidence", "best", "since", "open", "recovery", "seen"):
        getattr(tests, name)[over] = 0


def _is_outage(stable: Floats, theta: Floats) -> Bools:
    """Mask of the minutes in which the stable version surely loses most of what it can lose."""
    n, lost = stable[:, 0], stable[:, 1]
    middle = (1.0 + theta) / 2.0
    beyond = lost - n * middle
    return np.asarray(beyond > _SURELY * np.sqrt(n * middle * (1.0 - middle)), dtype=np.bool_)


def _limits(state: CanaryState) -> Floats:
    """1 / alpha of each pair: a canary's alpha is shared out over its metrics."""
    metrics: dict[tuple[str, str, str], int] = {}
    for pair in state.pairs:
        comparison = (pair.pipeline, pair.canary, pair.stable)
        metrics[comparison] = metrics.get(comparison, 0) + 1
    shared = [metrics[pair.pipeline, pair.canary, pair.stable] for pair in state.pairs]
    return np.array(shared) / state.options.alpha


def _describe(state: CanaryState, tick: Tick, row: int) -> Finding:
    pair, tests = state.pairs[row], state.tests
    binary = bool(tick.streams.binary[tests.canary[row]])
    evidence = float(mixture(np.exp(np.minimum(tests.evidence[row : row + 1], 600.0)))[0])
    alpha = state.options.alpha
    return Finding(
        alert=AlertKey(KIND, StreamKey(pair.pipeline, pair.metric, VERSION, pair.canary)),
        status="bad",
        severity=state.options.severity,
        observed=measured(tests.seen[row, 0], binary=binary),
        reference=measured(tests.seen[row, 1], binary=binary),
        reference_text=f"in version {pair.stable} over the same minutes",
        tolerated=float(tests.theta[row]) + state.options.tolerance,
        changed_at=float(tests.changed[row]) * MINUTE_S,
        evidence=min(evidence, math.exp(600.0)),
        threshold=float(state.limits[row]),
        guarantee=(
            f"a version that is no worse is called worse with a chance of at most"
            f" {percent_text(alpha, 0)}, over all its metrics and for as long as it runs"
        ),
    )
