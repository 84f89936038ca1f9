"""Errors of the usual level of every stream in each hour of the last three weeks."""

import numpy as np

from ragmon.detectors.arrays import Floats, Ints

WEEKS = 3
SLOTS = 24 * (7 * WEEKS + 1) + 8  # three weeks before the day under way, and that day
_MOST = 60_000.0  # of observations an hour: all beyond weigh the same


class HourErrors:
    """Observations and error of the usual level, of every stream in each of the last hours."""

    def __init__(self) -> None:
        self.slots = SLOTS
        self.epochs: Ints = np.full(SLOTS, -1, dtype=np.int64)
        self.dirty: set[int] = set()
        self._parts = np.zeros((SLOTS, 2, 0), dtype=np.float16)  # 2.1 kB a stream

    @property
    def nbytes(self) -> int:
        """Memory of the hours."""
        return self._parts.nbytes

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        more = np.zeros((SLOTS, 2, max(0, streams - self._parts.shape[2])), dtype=np.float16)
        self._parts = np.concatenate([self._parts, more], axis=2)

    def clear(self, streams: Ints | list[int]) -> None:
        """Forget some streams; what was saved of them is outdated."""
        used = self._parts[:, 0, streams].any(axis=1)
        self.dirty.update(self.epochs[used].tolist())
        self._parts[:, :, streams] = 0.0

    def learn(self, hour: int, rows: slice, n: Floats, error: Floats) -> None:
        """Keep an hour of some streams; where the error is unknown, NaN, nothing is kept."""
        slot = self._open(hour)
        known = ~np.isnan(error)
        self._parts[slot, 0, rows] = np.where(known, np.minimum(n, _MOST), 0.0)
        self._parts[slot, 1, rows] = np.where(known, error, 0.0)
        self.dirty.add(hour)

    def holds(self, hours: Ints) -> bool:
        """True if any of some hours is kept."""
        return bool((self.epochs[hours % SLOTS] == hours).any())

    def read(self, hours: Ints, rows: slice) -> tuple[Floats, Floats]:
        """Observations and errors of some hours, (m, streams) each; none where not kept."""
        slots = hours % SLOTS
        parts = self._parts[slots][:, :, rows].astype(np.float64)
        parts[self.epochs[slots] != hours] = 0.0
        return parts[:, 0], parts[:, 1]

    def body(self, hour: int) -> bytes:
        """One hour as bytes, for ``load``."""
        body: bytes = self._parts[hour % SLOTS].tobytes()
        return body

    def load(self, hour: int, body: bytes) -> None:
        """Set one hour as it was saved, perhaps of fewer streams."""
        saved = np.frombuffer(body, dtype=np.float16).reshape(2, -1)
        self.grow(saved.shape[1])
        slot = self._open(hour)
        if self.epochs[slot] == hour:
            self._parts[slot, :, : saved.shape[1]] = saved

    def _open(self, hour: int) -> int:
        slot = hour % SLOTS
        if self.epochs[slot] < hour:
            self.epochs[slot] = hour
            self._parts[slot] = 0.0
        return slot
