"""Simulator of causes: 28 normal hours of a pipeline, then two in which something is wrong."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest.run import replay
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.rules import build
from ragmon.windows.observations import Observations

START_S = 29_000_160 * 60.0  # unix seconds, midnight
NORMAL_S, WRONG_S = 28 * 3_600.0, 2 * 3_600.0
PIPELINE = ("", "")
RATES = (1 / 3, 2.0)  # queries a second
SLICES = ("tenant", "language")
COLUMNS = (
    "error", "zero_result", "hit{k=5,evidence=citation}", "uncited", "attribution",
    "grounding_uncalibrated", "positive_feedback", "latency_ms{stage=total}", "slow",
)  # fmt: skip
USUAL = {"error": 0.004, "zero_result": 0.02, "hit": 0.08, "uncited": 0.05}
_TENANTS, _TENANT_SHARES = ("acme", "globex", "initech", "umbrella"), (0.4, 0.3, 0.2, 0.1)
_FORMER, _NEW, _FOREIGN = "v1", "v2", "de"


@dataclass(frozen=True)
class Cause:
    """Something that goes wrong, as what it does to some of the queries."""

    name: str
    sizes: tuple[float, float, float]
    loss: tuple[str, ...] = ()  # metrics of which that share of the affected queries fails
    place: tuple[str, str] = PIPELINE  # slice that holds it
    share: float = 1.0  # of the traffic that a new slice takes
    slower: bool = False  # the size is a factor of latency
    ratings: bool = False  # the size is the share of ratings that still come
    traffic: bool = False  # the size is a factor of traffic
    critical_from: float = field(default=np.inf)  # size from which it is an outage


CAUSES = (
    Cause("index down", (0.3, 0.8, 1.0), ("zero_result",), critical_from=0.8),
    Cause("index half empty", (0.1, 0.25, 0.5), ("hit",)),
    Cause("bad release to 25 %", (0.1, 0.25, 0.5), ("hit", "uncited"), ("version", _NEW), 0.25),
    Cause("slow reranker", (1.3, 1.8, 3.0), slower=True),
    Cause("model outage", (0.1, 0.3, 0.8), ("error",), critical_from=0.8),
    Cause("prompt without citations", (0.1, 0.3, 0.9), ("uncited",)),
    Cause("new language", (0.3, 0.6, 0.9), ("hit",), ("language", _FOREIGN), 0.15),
    Cause("one tenant's broken filter", (0.2, 0.5, 0.95), ("zero_result",), ("tenant", "initech")),
    Cause("feedback widget broken", (0.3, 0.1, 0.0), ratings=True),
    Cause("traffic doubled", (1.5, 2.0, 4.0), traffic=True),
    Cause("stale index", (0.05, 0.1, 0.2), ("hit", "attribution")),
    Cause("poisoned document", (0.05, 0.1, 0.2), ("attribution", "grounding")),
)
BY_NAME = {cause.name: cause for cause in CAUSES}


@dataclass(frozen=True)
class Heard:
    """Notifications of what went wrong."""

    opened: tuple[IncidentNotice, ...]
    began_at: float

    @property
    def places(self) -> list[tuple[str, str]]:
        """Slice that each incident blames when it opens."""
        return [(notice.cause.dimension, notice.cause.value) for notice in self.opened]

    def critical_s(self) -> float:
        """Seconds until one was critical, by the end of the minute."""
        grave = [notice.at for notice in self.opened if notice.severity == "critical"]
        return min(grave, default=np.inf) - self.began_at


def heard(faults: dict[str, float], rate: float, seed: int) -> Heard:
    """The notifications of some causes at once, by name and size; from their beginning on."""
    log, begins = traffic([(BY_NAME[name], size) for name, size in faults.items()], rate, seed)
    detection = functools.partial(Detection, COLUMNS, build(), DetectionOptions())
    line = AlertTimeline(detection, finished_log=True)
    notices = [notice for step in replay(line, log) for notice in step.incident_notices]
    kinds = ("opened", "escalated")
    told = [notice for notice in notices if notice.change in kinds and notice.at > begins]
    return Heard(tuple(told), begins)


def traffic(
    faults: list[tuple[Cause, float]], rate: float, seed: int
) -> tuple[Observations, float]:
    """Queries of thirty hours, and the moment from which something is wrong."""
    rng = np.random.default_rng(seed)
    times = [rng.uniform(0.0, NORMAL_S, rng.poisson(rate * NORMAL_S))]
    factor = float(np.prod([size for cause, size in faults if cause.traffic]))
    times.append(NORMAL_S + rng.uniform(0.0, WRONG_S, rng.poisson(rate * factor * WRONG_S)))
    at = np.sort(np.concatenate(times))
    wrong = at >= NORMAL_S
    tenant = rng.choice(len(_TENANTS), len(at), p=_TENANT_SHARES)
    names = {"version": np.full(len(at), _FORMER, dtype=object)}
    names["tenant"] = np.array(_TENANTS, dtype=object)[tenant]
    names["language"] = np.full(len(at), "en", dtype=object)
    lost = {name: rng.random(len(at)) < share for name, share in USUAL.items()}
    spoilt = {name: np.zeros(len(at), dtype=np.bool_) for name in ("attribution", "grounding")}
    latency = rng.lognormal(6.8, 0.5, len(at))
    rated = rng.random(len(at)) < 0.2
    for cause, size in faults:
        affected = _affected(cause, names, wrong, rng)
        for metric in cause.loss:
            hit = affected & (rng.random(len(at)) < size)
            (lost if metric in lost else spoilt)[metric] |= hit
        if cause.slower:
            latency[affected] *= size
        if cause.ratings:
            rated &= ~affected | (rng.random(len(at)) < size)
    lost["zero_result"] |= lost["error"]
    values = _values(lost, spoilt, latency, rated, rng)
    dims = list(zip(np.full(len(at), "docs"), *(names[name] for name in ("version", *SLICES)),
                    strict=True))  # fmt: skip
    distinct = sorted(set(dims))
    number = {one: index for index, one in enumerate(distinct)}
    index = np.array([number[one] for one in dims], dtype=np.int32)
    known = [tuple(map(str, one)) for one in distinct]
    return Observations(SLICES, known, index, START_S + at, values), START_S + NORMAL_S


def _affected(
    cause: Cause, names: dict[str, np.ndarray], wrong: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The queries that it may affect; a new version or language takes its share of the traffic."""
    dimension, value = cause.place
    if dimension in ("version", "language"):
        taken = wrong & (rng.random(len(wrong)) < cause.share)
        names[dimension][taken] = value
        return np.asarray(taken)
    return wrong if not dimension else wrong & (names[dimension] == value)


def _values(lost, spoilt, latency, rated, rng) -> np.ndarray:
    n = len(latency)
    values = np.full((n, len(COLUMNS)), np.nan)
    answered = ~lost["zero_result"]
    values[:, 0], values[:, 1] = lost["error"], lost["zero_result"]
    missed = lost["hit"] | lost["zero_result"]
    values[:, 2] = ~missed
    values[:, 3] = np.where(answered, lost["uncited"], np.nan)
    for at, metric in ((4, "attribution"), (5, "grounding")):
        share = np.where(spoilt[metric], rng.beta(2.0, 8.0, n), rng.beta(18.0, 2.0, n))
        values[:, at] = np.where(answered, share, np.nan)
    bad = missed | spoilt["grounding"]
    liked = rng.random(n) < np.where(bad, 0.2, 0.8)
    values[:, 6] = np.where(rated, liked, np.nan)
    values[:, 7], values[:, 8] = latency, latency > 5_000.0
    return values


def single() -> Iterator[tuple[Cause, float, float]]:
    """Every cause at each size and rate."""
    for cause in CAUSES:
        for size in cause.sizes:
            for rate in RATES:
                yield cause, size, rate
