"""A saved level to compare with: losses by stream and hour of day, with where they came from."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import Literal

import numpy as np
from msgspec import Struct

from ragmon.detectors import StreamKey
from ragmon.detectors.arrays import Floats, Ints
from ragmon.detectors.days import DAY_MINUTES, Calendar
from ragmon.detectors.level_errors import TAU
from ragmon.detectors.losses import loss_of
from ragmon.detectors.minutes import TEN, MinuteLog
from ragmon.detectors.streams import StreamTable
from ragmon.durations import days_text
from ragmon.stats.intervals import effective_n_fraction, wilson_cc

HOURS = 24
CONFIDENCE = 0.95
ENOUGH = 30

Cells = tuple[tuple[float, float, float], ...]


class SavedStream(Struct, frozen=True):
    """(n, Σ loss, Σ loss²) by hour of day (UTC), or once for all hours."""

    stream: StreamKey
    cells: Cells


class Baseline(Struct, frozen=True, kw_only=True):
    """A saved level."""

    name: str
    source: Literal["traffic", "golden"]
    created_at: float  # unix seconds
    provenance: str  # from which window or run
    streams: tuple[SavedStream, ...]
    minutes: tuple[int, int] | None = None  # first and last of the traffic; None: not known

    @property
    def learned(self) -> bool:
        """True for the first days of traffic, which are kept until a baseline is saved."""
        return self.name.startswith("the first")

    @property
    def title(self) -> str:
        """Name in a sentence."""
        return self.name if self.learned else f"baseline {self.name}"


class BaselineLevel(Struct, frozen=True):
    """Saved level of one stream, all hours together."""

    stream: StreamKey
    what: str  # in words: hit rate, zero-result rate
    value: float  # of what ``what`` names, which for a hit rate is not the loss
    n: float

    @property
    def slice(self) -> bool:
        """True for one slice of a pipeline, false for the whole."""
        return bool(self.stream.dimension)


class BaselineLimits(Struct, frozen=True):
    """Saved levels of one hour of day; shapes (streams,), n = 0 where a stream has none."""

    n: Floats
    mean: Floats
    variance: Floats
    upper: Floats  # one-sided limit of the mean that holds for all its hours together


def from_log(
    log: MinuteLog, streams: StreamTable, name: str, *, first: int, last: int, now: float
) -> Baseline:
    """The losses of minutes [first, last), incidents excluded, by hour of day."""
    by_hour = np.zeros((HOURS, len(log), 3))
    tens = np.arange(-(-first // TEN), last // TEN)
    for hour in range(HOURS):
        in_hour = tens[tens // 6 % HOURS == hour]
        by_hour[hour] = log.tens(in_hour).sum(axis=0)
    saved = [
        SavedStream(key, _plain(by_hour[:, row]))
        for key, row in sorted(streams.rows.items())
        if by_hour[:, row, 0].any()
    ]
    provenance = f"traffic, {days_text((last - first) / 1440.0)}"
    return Baseline(
        name=name,
        source="traffic",
        created_at=now,
        provenance=provenance,
        streams=tuple(saved),
        minutes=(first, last),
    )


def from_totals(
    name: str,
    totals: Mapping[StreamKey, tuple[float, float, float]],
    provenance: str,
    now: float,
    *,
    source: Literal["traffic", "golden"] = "golden",
) -> Baseline:
    """A single level a stream, whatever the hour: an evaluation run, or a quiet service."""
    saved = tuple(SavedStream(key, (cell,)) for key, cell in sorted(totals.items()))
    return Baseline(name=name, source=source, created_at=now, provenance=provenance, streams=saved)


def levels(baseline: Baseline) -> list[BaselineLevel]:
    """The level of each stream that has one."""
    rows = []
    for saved in baseline.streams:
        n, lost = (sum(cell[at] for cell in saved.cells) for at in (0, 1))
        loss = loss_of(saved.stream.metric)
        if n > 0.0 and loss.shape != "count":
            value = 1.0 - lost / n if loss.good else lost / n
            rows.append(BaselineLevel(saved.stream, loss.good or loss.bad, value, n))
    return rows


def weekday_shares(baseline: Baseline, calendar: Calendar) -> Floats:
    """Part of each weekday, from Monday, in the days of a baseline; (7,), sums to one."""
    first, last = baseline.minutes or (0, 7 * DAY_MINUTES)
    noons = range(first + DAY_MINUTES // 2, max(last, first + DAY_MINUTES), DAY_MINUTES)
    days = np.bincount([calendar.weekday(noon) for noon in noons], minlength=7)
    return np.asarray(days / days.sum(), dtype=np.float64)


class BaselineLookup:
    """A baseline by the rows of a table of streams, looked up once for all hours to come."""

    def __init__(self, baseline: Baseline, streams: StreamTable) -> None:
        self._baseline = baseline
        self._streams = streams
        self._version = streams.version
        self._binary = streams.binary
        self._cells: Floats = np.zeros((HOURS, len(streams), 3))
        enough: Floats = np.zeros(len(streams))
        for saved in baseline.streams:
            row = streams.rows.get(saved.stream)
            if row is not None:
                cells = np.array(saved.cells)
                self._cells[:, row] = cells[np.arange(HOURS) % len(cells)]
                enough[row] = (cells[:, 0] >= ENOUGH).sum()
        self._z = _one_sided(enough)
        self._day = np.where(enough > 1, self._z * TAU, 0.0)  # one day is not like another

    def is_of(self, baseline: Baseline, streams: StreamTable) -> bool:
        """True while nothing changed that it was made of."""
        same = baseline is self._baseline and streams is self._streams
        return same and streams.version == self._version

    def limits(self, hour: int, phi: Floats) -> BaselineLimits:
        """The saved level of each stream in an hour of day, with its upper confidence limit.

        The limit is shared out over the hours, so that it holds in all of them at once: else one
        unlucky hour in twenty would be in permanent alarm.
        """
        n, total, squares = self._cells[hour].T.copy()
        few = n < ENOUGH
        n[few] = 0.0
        mean = total / np.maximum(n, 1.0)
        variance = np.maximum(squares / np.maximum(n, 1.0) - mean * mean, 0.0)
        size = np.where(self._binary, n, effective_n_fraction(n, mean, variance)) / phi
        _, upper = wilson_cc(mean, np.maximum(size, 1e-9), self._z)
        upper = mean + np.hypot(upper - mean, self._day)
        return BaselineLimits(n, mean, variance, np.where(n > 0.0, upper, 1.0))


def lookup(baseline: Baseline, streams: StreamTable, last: BaselineLookup | None) -> BaselineLookup:
    """The last one while nothing changed that it was made of, else another."""
    if last is not None and last.is_of(baseline, streams):
        return last
    return BaselineLookup(baseline, streams)


def _one_sided(cells: Floats) -> Floats:
    by_count = {
        count: NormalDist().inv_cdf(1.0 - (1.0 - CONFIDENCE) / max(count, 1.0))
        for count in set(cells.tolist())
    }
    return np.array([by_count[count] for count in cells.tolist()])


def _plain(cells: Floats | Ints) -> Cells:
    return tuple((float(n), float(total), float(squares)) for n, total, squares in cells)
