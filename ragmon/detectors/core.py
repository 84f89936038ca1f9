"""The evidence that all continuous detectors share: a mixture Shiryaev-Roberts e-detector.

Null hypothesis: the mean loss is at most u0. For shifts d_k = .005 * 2^k, k = 0..7, every minute
bets on a mean of u0 + d_k; its gain g_k is an e-variable's logarithm under the null, linear in
(n, Σ loss, Σ loss²). With R_k <- (1 + R_k) exp(min(g_k / phi, cap)) the weighted mean of
R_k over k exceeds A on average not before A minutes with data, for any past-dependent stream whose
conditional mean stays at most u0. Under a cap of 3 no minute counts more than e^3, so a burst
alone cannot fire; one of many streams has a higher limit, and a cap that still lets five minutes
do; streams that are known to have no bursts have one that lets a single minute do.

What no burst explains counts beyond the cap: failures that take the place of usual queries, where
a burst only adds to them; and the third bad minute in a row, where a burst is over. Each counts
at most what its likelihood ratio says, so the bound on false alarms is the same.

Sources: Shin, Ramdas and Rinaldo (2023), E-detectors, NEJSDS 2(2):229-260; for losses that are
not 0/1 the empirical Bernstein bet of Fan, Grama and Liu (2015), EJP 20(1).
"""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragmon.detectors.arrays import Arrays, Bools, Fields, Floats, Ints, picked

SHIFTS: Floats = 0.005 * 2.0 ** np.arange(8, dtype=np.float64)
BELIEF = np.array([1.0, 2.0, 4.0, 4.0, 3.0, 2.0, 1.0, 1.0]) / 18.0
"""Stake on each shift: most on falls of two to ten points. Sums to one."""

CAP = 3.0
PERSISTENCE = 5.0  # minutes, all of them as bad as can be, that suffice whatever the limit
CALM_CAP = 20.0  # of streams without bursts
SURE_CAP = 30.0  # of what no burst explains; beyond the limit of thousands of streams
BURST_MINUTES = 2  # that one burst may fall into
_LEAST_BURST = 20.0  # failures in one minute that may be a burst, however little traffic there is
_SWAY = 4.0  # standard deviations of the queries of a minute
_VOLUME_MINUTES = 20.0  # over which they are averaged
MONTH_MINUTES = 43_200.0
RESOLVED = math.log(1_440.0)  # evidence of recovery: one wrong resolution a day of incident
SHORTEST_MINUTES = 5  # before an incident may resolve

_LOWEST, _HIGHEST = 1e-4, 0.99
_CEILING = 0.995
_BOLDEST = 0.95
_SURELY = 2.0  # standard errors
_FULL = 1e30  # evidence is not counted beyond; keeps the sum finite


def coefficients(u0: Floats, variance: Floats, binary: Bools, phi: Floats) -> Floats:
    """Evidence that n, Σ loss and Σ loss² of a minute each add.

    Args:
        u0: mean loss tolerated; shape (s,).
        variance: of a single loss; used where losses are not 0/1.
        binary: losses are 0 or 1.
        phi: over-dispersion, at least 1.

    Returns:
        Shape (s, 3, 8): the gain over k is ``cells @ coefficients``.
    """
    u = np.clip(u0, _LOWEST, _HIGHEST)[:, None]
    weights = np.empty((len(u), 3, len(SHIFTS)))
    weights[binary] = _likelihood(u[binary])
    weights[~binary] = _bernstein(u[~binary], np.maximum(variance[~binary], 0.0)[:, None])
    return np.asarray(weights / phi[:, None, None], dtype=np.float64)


def _likelihood(u: Floats) -> Floats:
    """Log likelihood ratio of u + d_k against u."""
    shifted = np.minimum(u + SHIFTS, _CEILING)
    bad, good = np.log(shifted / u), np.log((1.0 - shifted) / (1.0 - u))
    return np.stack([good, bad - good, np.zeros_like(bad)], axis=1)


def _bernstein(u: Floats, variance: Floats) -> Floats:
    """Empirical Bernstein bet, for losses without an upper bound."""
    bet = np.minimum(u * SHIFTS / (variance + SHIFTS**2), _BOLDEST)
    psi = -np.log1p(-bet) - bet
    return np.stack([-bet - psi, (bet + 2.0 * psi) / u, -psi / u**2], axis=1)


def gains(cells: Floats, weights: Floats) -> Floats:
    """Evidence of one minute, (s, 8), from cells (s, 3) and ``coefficients``."""
    n, s1, s2 = cells[:, 0, None], cells[:, 1, None], cells[:, 2, None]
    # Written out, because a matrix product may add in another order on another machine.
    return n * weights[:, 0] + s1 * weights[:, 1] + s2 * weights[:, 2]


def unexplained(cells: Floats, weights: Floats, least: Floats) -> Floats:
    """Evidence of one minute without the failures that may be a burst, (s, 8).

    Args:
        cells: (s, 3).
        weights: ``coefficients``.
        least: (s,) queries of a minute without a burst, at least; what is beyond may be one.
    """
    burst = np.maximum(cells[:, 0] - least, _LEAST_BURST)
    failure = np.maximum(weights[:, 0] + weights[:, 1] + weights[:, 2], 0.0)  # evidence of one
    return np.asarray(gains(cells, weights) - burst[:, None] * failure, dtype=np.float64)


def capped(caps: Floats, limits: Floats) -> Floats:
    """The most that one minute may count, (s,): caps, raised as far as persistence asks.

    A limit is shared out over everything that is watched; how long a burst lasts is not.
    """
    finite = np.where(limits < np.inf, limits, 1.0)
    return np.asarray(np.maximum(caps, np.log(2.0 * finite) / PERSISTENCE), dtype=np.float64)


def mixture(evidence: Floats) -> Floats:
    """The stakes together, (s,), from the evidence of each shift (s, 8)."""
    a, b, c, d, e, f, g, h = (evidence * BELIEF).T
    # Written out, because numpy's order depends on how they lie in memory.
    return np.asarray(((a + b) + (c + d)) + ((e + f) + (g + h)), dtype=np.float64)


class Charts(Arrays):
    """The e-detector of s streams, and what is known of their open incidents."""

    evidence: Floats  # (s, 8): R_k
    cusum: Floats  # (s, 8): the same bets, restarted whenever they are behind
    start: Ints  # (s, 8): minute in which cusum_k last started
    open: Bools  # (s,): an incident is open
    opened: Ints  # (s,): the minute it opened in
    since: Ints  # (s,): the minute the change is estimated to have happened in
    seen: Floats  # (s, 3): n, Σ loss, Σ loss² since then
    worst: Floats  # (s,): the mean loss it surely reached since it opened
    recovery: Floats  # (s,): evidence that it is over
    peak: Floats  # (s,): evidence when it opened
    volume: Floats  # (s,): queries of a minute of late
    sway: Floats  # (s,): their variance
    pressing: Ints  # (s,): minutes in a row of which each counted as much as the cap lets it
    pressed: Ints  # (s,): the last of them
    _FIELDS: ClassVar[Fields] = {
        "evidence": ((8,), "f8", 0),
        "cusum": ((8,), "f8", 0),
        "start": ((8,), "i8", 0),
        "open": ((), "?", 0),
        "opened": ((), "i8", 0),
        "since": ((), "i8", 0),
        "seen": ((3,), "f8", 0),
        "worst": ((), "f8", 0),
        "recovery": ((), "f8", 0),
        "peak": ((), "f8", 0),
        "volume": ((), "f8", 0),
        "sway": ((), "f8", 0),
        "pressing": ((), "i8", 0),
        "pressed": ((), "i8", 0),
    }

    _BY_PART = frozenset({"evidence", "cusum", "start"})

    def watch(
        self,
        minute: int,
        cells: Floats,
        weights: Floats,
        limits: Floats,
        caps: Floats,
        *,
        gain: Floats | None = None,
        large: Callable[[Ints], Bools] | None = None,
    ) -> Ints:
        """Count one minute of the streams without an open incident.

        Args:
            minute: unix minutes.
            cells: (s, 3); nothing happens where n = 0.
            weights: ``coefficients``, (s, 3, 8).
            limits: (s,) A; infinite where a stream is not judged.
            caps: (s,) the most that one minute may count.
            gain: ``gains`` of these cells and weights, where they are known.
            large: tells of some streams whether their change is large enough to be told; None: any
                is.

        Returns:
            The streams whose evidence reached their limit; they are open now.
        """
        rows = self.active(cells, limits)
        whole = gains(cells, weights) if gain is None else gain
        counted = self._counted(minute, rows, cells, weights, caps[rows], gain=picked(whole, rows))
        self._follow_volume(cells[:, 0])
        self._restart_cusum(minute, counted, rows)
        evidence = np.minimum((1.0 + picked(self.evidence, rows)) * np.exp(counted), _FULL)
        self.evidence[rows] = evidence
        fired = rows[mixture(evidence) >= limits[rows]]
        if large is not None and len(fired):
            fired = fired[large(fired)]
        if len(fired):
            self._open(fired, minute)
        return fired

    def began(self, rows: Ints) -> Ints:
        """The minute in which the change of some streams most likely happened, (rows,)."""
        best = self.cusum[rows].argmax(axis=1)
        return np.asarray(self.start[rows, best], dtype=np.int64)

    def active(self, cells: Floats, limits: Floats) -> Ints:
        """The streams that a minute adds evidence to: all others stay as they are."""
        return np.flatnonzero((cells[:, 0] > 0.0) & ~self.open & (limits < np.inf))

    def recover(
        self, minute: int, cells: Floats, normal: Floats, tolerated: Floats, spread: Floats
    ) -> Ints:
        """Count one minute towards the end of the open incidents.

        Args:
            minute: unix minutes.
            cells: (s, 3).
            normal: (s,) mean loss without incident.
            tolerated: (s,) u0.
            spread: (s,) over-dispersion times the variance of a loss over that of 0/1.

        Returns:
            The streams that resolved; they start anew.
        """
        rows = np.flatnonzero(self.open)
        if not len(rows):
            return rows
        self.seen[rows] += cells[rows]
        n, s1 = cells[rows, 0], cells[rows, 1]
        level = self._level(rows, spread[rows])
        good = np.clip(normal[rows], _LOWEST, _HIGHEST)
        middle = np.clip(np.maximum(tolerated[rows], (good + level) / 2.0), good, _CEILING)
        gain = s1 * np.log(good / middle) + (n - s1) * np.log((1.0 - good) / (1.0 - middle))
        before = np.maximum(self.recovery[rows], 0.0)
        self.recovery[rows] = before + np.minimum(gain / spread[rows], CAP)
        over = (self.recovery[rows] >= RESOLVED) & (minute - self.opened[rows] >= SHORTEST_MINUTES)
        closed = rows[over]
        self.reset(closed)
        return closed

    def _level(self, rows: Ints, spread: Floats) -> Floats:
        """The mean loss of open incidents, or the one they surely reached if that is higher.

        The mean alone sinks once an incident is over: evidence that it is would grow ever more
        slowly, and of a stream with little traffic the alert would never end.
        """
        n = np.maximum(self.seen[rows, 0], 1.0)
        mean = np.clip(self.seen[rows, 1] / n, 0.0, _CEILING)
        surely = mean - _SURELY * np.sqrt(spread * mean * (1.0 - mean) / n)
        self.worst[rows] = np.maximum(self.worst[rows], surely)
        level: Floats = np.maximum(mean, self.worst[rows])
        return level

    def reset(self, rows: Ints) -> None:
        """Start anew, but for what is known of the traffic."""
        for name, (_, _, fill) in Charts._FIELDS.items():
            if name not in ("volume", "sway"):
                getattr(self, name)[rows] = fill

    def _counted(
        self, minute: int, rows: Ints, cells: Floats, weights: Floats, caps: Floats, *, gain: Floats
    ) -> Floats:
        """As much of the evidence of a minute as counts, (rows, 8); ``gain`` is used up."""
        at = np.flatnonzero(gain.max(axis=1) >= caps)
        if not len(at):
            return gain
        pressed, most = rows[at], gain[at]
        in_a_row = np.where(self.pressed[pressed] == minute - 1, self.pressing[pressed], 0) + 1
        self.pressing[pressed] = in_a_row
        self.pressed[pressed] = minute
        volume, sway = self.volume[pressed], self.sway[pressed]
        least = np.maximum(volume - _SWAY * np.sqrt(np.maximum(sway, volume)), 0.0)
        sure = unexplained(cells[pressed], weights[pressed], least)
        lasting = in_a_row > BURST_MINUTES
        sure = np.minimum(np.where(lasting[:, None], most, sure), SURE_CAP)
        gain[at] = np.maximum(np.minimum(most, caps[at, None]), sure)
        return gain

    def _follow_volume(self, queries: Floats) -> None:
        apart = queries - self.volume
        self.volume += apart / _VOLUME_MINUTES
        self.sway += (apart * apart - self.sway) / _VOLUME_MINUTES

    def _restart_cusum(self, minute: int, gain: Floats, rows: Ints) -> None:
        cusum = picked(self.cusum, rows)
        restarts = cusum <= 0.0
        self.start[rows] = np.where(restarts, minute, picked(self.start, rows))
        self.cusum[rows] = np.where(restarts, gain, cusum + gain)

    def _open(self, rows: Ints, minute: int) -> None:
        self.open[rows] = True
        self.opened[rows] = minute
        self.since[rows] = self.began(rows)
        self.recovery[rows] = 0.0
        self.peak[rows] = mixture(self.evidence[rows])
