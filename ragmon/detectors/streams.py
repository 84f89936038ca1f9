"""Table of the streams that exist, and the rows that observations belong to.

A stream begins with its first loss, so a metric that nobody records costs nothing. Their number
is bounded; what comes after the limit is not judged, and is counted in ``dropped``.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from ragmon.detectors import StreamKey
from ragmon.detectors.arrays import Bools, Ints, grown
from ragmon.detectors.losses import BINARY, INDEX, LOSSES
from ragmon.windows.series import VERSION, Dims

_BLOCK = 16
_NEVER = np.iinfo(np.int64).max


class StreamTable:
    """Streams by row; rows without a stream have no key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self.rows: dict[StreamKey, int] = {}
        self.keys: list[StreamKey | None] = []
        self.loss: Ints = np.zeros(0, dtype=np.int64)
        self.first_minute: Ints = np.zeros(0, dtype=np.int64)
        self.last_minute: Ints = np.zeros(0, dtype=np.int64)
        self._free: list[int] = []  # the lowest last, which is taken next, after a restart too
        self._members: dict[tuple[Dims, tuple[str, ...]], Ints] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def binary(self) -> Bools:
        """Mask of the rows whose losses are 0 or 1."""
        return BINARY[self.loss]

    def row(self, key: StreamKey) -> int:
        """The row of a stream, which begins to exist; -1 when the table is full."""
        known = self.rows.get(key)
        if known is not None:
            return known
        if not self._free:
            self._extend()
        if not self._free:
            self.dropped += 1
            return -1
        row = self._free.pop()
        self.keys[row] = key
        self.rows[key] = row
        self.loss[row] = INDEX[key.metric]
        self.first_minute[row] = _NEVER
        self.last_minute[row] = 0
        return row

    def seen(self, rows: Ints, minutes: Ints) -> None:
        """Note when streams were observed."""
        np.minimum.at(self.first_minute, rows, minutes)
        np.maximum.at(self.last_minute, rows, minutes)

    def members(self, dims: Dims, slices: tuple[str, ...], observed: Bools) -> Ints:
        """Rows of (pipeline, version, slices…) by loss, -1 where there is none; (series, losses).

        Args:
            dims: pipeline, version and the value of each slice.
            slices: names of the dims after pipeline and version.
            observed: (losses,) those that have observations now; their streams begin to exist.
        """
        known = self._members.get((dims, slices))
        if known is None:
            if len(self._members) > 4 * self.limit:
                self._members.clear()  # bounded, whatever the clients send
            named = [("", ""), (VERSION, dims[1]), *zip(slices, dims[2:], strict=True)]
            series = sum(not name or bool(value) for name, value in named)
            known = np.full((series, len(LOSSES)), -1)
            self._members[dims, slices] = known
        missing = observed & (known < 0).any(axis=0)
        if missing.any():
            self._begin(known, dims, slices, np.flatnonzero(missing))
        return known

    def forget(self, before: int) -> list[int]:
        """Drop the streams last seen before a minute; returns their rows."""
        stale = [row for row in self.rows.values() if self.last_minute[row] < before]
        for row in stale:
            key = self.keys[row]
            assert key is not None
            del self.rows[key]
            self.keys[row] = None
        self._free = sorted(self._free + stale, reverse=True)
        if stale:
            self._members.clear()
        return stale

    def dump(self) -> bytes:
        """Everything, as bytes."""
        times = np.stack([self.first_minute, self.last_minute])
        return msgspec.msgpack.encode((self.keys, times.tobytes(), self.dropped))

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        kind = tuple[list[StreamKey | None], bytes, int]
        keys, times, self.dropped = msgspec.msgpack.decode(data, type=kind)
        self.keys = keys
        self.rows = {key: row for row, key in enumerate(keys) if key is not None}
        self._free = [row for row, key in enumerate(keys) if key is None][::-1]
        self.loss = np.array([INDEX[key.metric] if key else 0 for key in keys], dtype=np.int64)
        self.first_minute, self.last_minute = (
            np.frombuffer(times, dtype=np.int64).reshape(2, -1).copy()
        )
        self._members.clear()

    def _extend(self) -> None:
        """More rows at once, because every array of every detector grows with them."""
        before = len(self.keys)
        more = min(max(_BLOCK, before // 2), self.limit - before)
        self.keys += [None] * more
        self.loss = grown(self.loss, before + more)
        self.first_minute = grown(self.first_minute, before + more, _NEVER)
        self.last_minute = grown(self.last_minute, before + more)
        self._free = list(range(before + more - 1, before - 1, -1))

    def _begin(self, known: Ints, dims: Dims, slices: Sequence[str], losses: Ints) -> None:
        names: list[tuple[str, str]] = [("", "")]
        pairs: list[tuple[str, str]] = [(VERSION, dims[1]), *zip(slices, dims[2:], strict=True)]
        names += [(name, value) for name, value in pairs if value]
        for series, (dimension, value) in enumerate(names):
            for loss in losses.tolist():
                key = StreamKey(dims[0], LOSSES[loss].metric, dimension, value)
                known[series, loss] = self.row(key)
