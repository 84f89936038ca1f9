"""Sampling of answers for the expensive judge: inclusion probabilities, and the draw.

An answer is drawn with a probability π that is stored with it, so that the estimate can weigh it
by 1/π. Answers the proxy is unsure of are worth more and are drawn more often; every slice has a
floor, so that rare ones can be estimated. When the budget shrinks, π falls for the answers still
to come; nothing is ever drawn again or dropped.

The draw is a hash of the query id: restarts and replicas agree on it.

Source of the form: Zrnic and Candès (2024), Active statistical inference, ICML.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import xxhash
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

SALT = 0x7261676D6F6E
"""Seed of the judge's draw; another sample needs another, or the two would coincide."""

UNIFORM_SHARE = 0.3
"""Part of the budget spent without looking at the proxy, whatever it says."""

_MEMORY_S = 900.0  # time constant of the traffic forecast: a burst is forgotten in half an hour
_LEAST_AGE_S = 60.0  # a forecast pretends to have watched at least so long
_SPREAD_PRIOR = 10.0  # answers' worth of trust in ``_SPREAD``
_SPREAD = 0.4  # usual √(q(1 - q))
_FLOOR_SHARE = 0.5  # part of the pace that floors may take
_REFRESH_S = 30.0  # how often floors are shared out
_FORGOTTEN = 1e-3  # answers an hour below which a slice is dropped

Key = tuple[str, int, str]
"""(pipeline, position in the dims, value); the pipeline as a whole has position 0."""

_ALL: Key = ("", 0, "")  # no pipeline has an empty name


class SamplingOptions(Struct, frozen=True, kw_only=True):
    """Limits and goals of the sample."""

    least: float = 0.001  # smallest probability, in (0, 1]
    slice_per_day: float = 50.0  # judgements that each pipeline and slice is meant to get


class Flow(Struct, frozen=True):
    """Answers of one pipeline or slice, fading with ``_MEMORY_S``."""

    since: float  # unix seconds of the first
    at: float  # unix seconds of the last update
    count: float = 0.0
    spread: float = 0.0  # Σ√(q(1 - q))
    lifted: float = 0.0  # Σ of what floors added to π

    def add(self, now: float, count: float, spread: float = 0.0, lifted: float = 0.0) -> "Flow":
        """With more answers; a clock that stepped back fades nothing."""
        fade = math.exp(-max(now - self.at, 0.0) / _MEMORY_S)
        return Flow(
            self.since,
            max(now, self.at),
            self.count * fade + count,
            self.spread * fade + spread,
            self.lifted * fade + lifted,
        )

    def per_hour(self, now: float, amount: float) -> float:
        """A faded amount of this flow, as a rate."""
        age = max(now - self.since, _LEAST_AGE_S)
        fade = math.exp(-max(now - self.at, 0.0) / _MEMORY_S)
        return amount * fade * 3_600.0 / (_MEMORY_S * -math.expm1(-age / _MEMORY_S))


class Forecast(Struct, frozen=True):
    """Traffic by pipeline and slice; plain data, to be kept over a restart."""

    flows: tuple[tuple[Key, Flow], ...] = ()


def draw(query_id: str, salt: int = SALT) -> float:
    """The fixed uniform number in [0, 1) of an id; it is drawn where this lies below π."""
    return (xxhash.xxh3_64_intdigest(query_id.encode(), salt) >> 11) * 2.0**-53


def draws(query_ids: Iterable[str], salt: int = SALT) -> Floats:
    """``draw`` of each; shape (n,)."""
    hashes = [xxhash.xxh3_64_intdigest(each.encode(), salt) >> 11 for each in query_ids]
    return np.array(hashes, dtype=np.float64) * 2.0**-53


def spread(doubt: ArrayLike) -> Floats:
    """Standard deviation √(q(1 - q)) of a verdict, of the chance q that the answer is bad."""
    q = np.asarray(doubt, dtype=np.float64)
    return np.sqrt(np.clip(q * (1.0 - q), 0.0, 0.25))


def inclusion(spread: ArrayLike, mean_spread: ArrayLike, base: float) -> Floats:
    """min(1, b (0.3 + 0.7 s / mean s)); arrays broadcast, NaN spread counts as average."""
    s, mean = np.asarray(spread, dtype=np.float64), np.asarray(mean_spread, dtype=np.float64)
    relative = np.where(np.isnan(s), 1.0, s / np.maximum(mean, 1e-9))
    return np.minimum(1.0, base * (UNIFORM_SHARE + (1.0 - UNIFORM_SHARE) * relative))


class Sampler:
    """Gives answers their probabilities as they come; O(1) an answer, amortised."""

    def __init__(self, options: SamplingOptions, forecast: Forecast | None = None) -> None:
        self._options = options
        self._flows: dict[Key, Flow] = dict(forecast.flows) if forecast else {}
        self._floor_scale = 1.0
        self._refreshed_at = -math.inf

    @property
    def forecast(self) -> Forecast:
        """To be kept, and given to the sampler that continues after a restart."""
        return Forecast(tuple(self._flows.items()))

    def probabilities(
        self,
        now: float,
        dims: Sequence[tuple[str, ...]],
        dim_index: Ints,
        doubt: ArrayLike,
        *,
        pace_per_hour: float,
        room: float = math.inf,
    ) -> Floats:
        """Inclusion probabilities of a batch of answers, in (0, 1].

        Args:
            now: unix seconds of arrival, not of the question.
            dims: distinct (pipeline, version, slice values …); an empty value is no slice.
            dim_index: of each answer into ``dims``, shape (n,).
            doubt: chance that each answer is bad (``stats.judged_estimate.doubt``),
                NaN where unknown, shape (n,).
            pace_per_hour: judgements that the budget lets us spend (``Budget.even_rate``).
            room: judgements that may still be drawn at all: a burst never draws more than that.
        """
        if not len(dim_index):
            return np.zeros(0)
        s = spread(doubt)
        counts = np.bincount(dim_index, minlength=len(dims)).astype(np.float64)
        known = np.where(np.isnan(s), _SPREAD, s)
        spreads = np.bincount(dim_index, known, minlength=len(dims))
        self._watch(now, dims, counts.tolist(), spreads.tolist())
        self._refresh(now, pace_per_hour)
        base = self._base(now, pace_per_hour)
        means = np.array([self._mean_spread(each[0]) for each in dims])
        floors = np.array([self._floor(now, each) for each in dims])
        plain = inclusion(s, means[dim_index], base)
        lifted = np.maximum(plain, floors[dim_index])
        self._add(_ALL, now, 0.0, lifted=float((lifted - plain).sum()))
        brake = min(1.0, max(room, 0.0) / max(float(lifted.sum()), 1e-12))
        braked: Floats = np.clip(lifted * brake, self._options.least, 1.0)
        return braked

    def _watch(
        self,
        now: float,
        dims: Sequence[tuple[str, ...]],
        counts: Sequence[float],
        spreads: Sequence[float],
    ) -> None:
        self._add(_ALL, now, sum(counts))
        for dims_of_one, count, total in zip(dims, counts, spreads, strict=True):
            for key in _keys(dims_of_one):
                self._add(key, now, count, total)

    def _add(
        self, key: Key, now: float, count: float, spread: float = 0.0, lifted: float = 0.0
    ) -> None:
        flow = self._flows.get(key) or Flow(now, now)
        self._flows[key] = flow.add(now, count, spread, lifted)

    def _base(self, now: float, pace_per_hour: float) -> float:
        """b: what the floors leave of the pace, over the answers to come."""
        flow = self._flows[_ALL]
        left = pace_per_hour - flow.per_hour(now, flow.lifted)
        return max(left, 0.0) / max(flow.per_hour(now, flow.count), 1e-9)

    def _mean_spread(self, pipeline: str) -> float:
        flow = self._flows[pipeline, 0, ""]
        return (flow.spread + _SPREAD_PRIOR * _SPREAD) / (flow.count + _SPREAD_PRIOR)

    def _floor(self, now: float, dims: tuple[str, ...]) -> float:
        """The highest that the pipeline or one of its slices asks for."""
        per_hour = self._options.slice_per_day / 24.0 * self._floor_scale
        flows = [self._flows[key] for key in _keys(dims)]
        return min(1.0, max(per_hour / max(f.per_hour(now, f.count), 1e-9) for f in flows))

    def _refresh(self, now: float, pace_per_hour: float) -> None:
        """Share the floors' part of the pace out among the slices that are alive."""
        if 0.0 <= now - self._refreshed_at < _REFRESH_S:
            return
        self._refreshed_at = now
        rates = {key: flow.per_hour(now, flow.count) for key, flow in self._flows.items()}
        self._flows = {key: self._flows[key] for key in rates if rates[key] > _FORGOTTEN}
        goal = self._options.slice_per_day / 24.0
        demand = sum(min(rate, goal) for key, rate in rates.items() if key != _ALL)
        self._floor_scale = min(1.0, _FLOOR_SHARE * pace_per_hour / max(demand, 1e-9))


def _keys(dims: tuple[str, ...]) -> list[Key]:
    pipeline = dims[0]
    return [(pipeline, 0, "")] + [
        (pipeline, position, value) for position, value in enumerate(dims[1:], 1) if value
    ]
