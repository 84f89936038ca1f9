"""Table of the streams that exist, and the rows that observations belong to.

A stream begins with its first loss, so a metric that nobody records costs nothing. Their number
is bounded; what comes after the limit is not judged, and is counted in ``dropped``.
"""

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon.detectors import StreamKey
from ragmon.detectors.arrays import Bools, Ints, grown
from ragmon.detectors.losses import BINARY, INDEX, REPEAT, family
from ragmon.windows.series import VERSION, Dims

_BLOCK = 16
ABSENT = -1
"""In tables of rows: no stream of it was asked for yet."""
REFUSED = -2
"""In tables of rows: the stream is not watched, because the table is full."""
NO_SERIES = -3
"""In tables of rows: a record has no such dimension, or the loss is not watched by slice."""
_NEVER = np.iinfo(np.int64).max


class StreamTable:
    """Streams by row; rows without a stream have no key."""

    def __init__(self, limit: int, metrics: Sequence[str] = tuple(INDEX)) -> None:
        """Begin with none.

        Args:
            limit: the most streams.
            metrics: of the losses, in the order of their columns.
        """
        self.limit = limit
        self._metrics = tuple(metrics)
        self.dropped = 0
        self.rows: dict[StreamKey, int] = {}
        self.keys: list[StreamKey | None] = []
        self.loss: Ints = np.zeros(0, dtype=np.int64)  # place of its family in ``LOSSES``
        self.used: Bools = np.zeros(0, dtype=np.bool_)  # there is a stream
        self.sliced: Bools = np.zeros(0, dtype=np.bool_)  # of a slice or version
        self.versioned: Bools = np.zeros(0, dtype=np.bool_)  # of a version
        self.subject: Ints = np.zeros(0, dtype=np.int64)  # equal for one pipeline and metric
        self.first_minute: Ints = np.zeros(0, dtype=np.int64)
        self.last_minute: Ints = np.zeros(0, dtype=np.int64)
        self.version = 0  # changes whenever a stream begins or ends
        self._free: list[int] = []  # the lowest last, which is taken next, after a restart too
        self._tables: dict[tuple[str, ...], _MemberTable] = {}  # by slices
        self._subjects: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def binary(self) -> Bools:
        """Mask of the rows whose losses are 0 or 1."""
        return BINARY[self.loss]

    def row(self, key: StreamKey) -> int:
        """The row of a stream, which begins to exist; ``REFUSED`` when the table is full."""
        row = self._row(key)
        self.dropped += row == REFUSED
        return row

    def seen(self, rows: Ints, minutes: Ints) -> None:
        """Note when streams were observed."""
        np.minimum.at(self.first_minute, rows, minutes)
        np.maximum.at(self.last_minute, rows, minutes)

    def members(
        self, dims: Sequence[Dims], slices: tuple[str, ...], which: Ints, observed: Bools
    ) -> NDArray[np.int32]:
        """Rows of (pipeline, version, slices…) by loss, (m, series, losses).

        Negative where there is none: ``ABSENT``, ``REFUSED`` or ``NO_SERIES``.

        Args:
            dims: pipeline, version and the value of each slice; distinct.
            slices: names of the dims after pipeline and version.
            which: (m,) into ``dims``.
            observed: (m, losses) those that have observations; their streams begin to exist.
        """
        table = self._tables.setdefault(slices, _MemberTable(2 + len(slices), len(self._metrics)))
        if len(table) + len(dims) > 4 * self.limit:
            table.clear()  # bounded, whatever the clients send
        places = table.places(dims)[which]
        for at in np.flatnonzero((observed & table.absent[places]).any(axis=1)).tolist():
            missing = observed[at] & table.absent[places[at]]
            if missing.any():  # not since it was looked at
                table.absent[places[at], missing] = False
                losses = np.flatnonzero(missing)
                self._begin(table.rows[places[at]], dims[which[at]], slices, losses)
        members: NDArray[np.int32] = table.rows[places]
        if len(self.rows) >= self.limit:
            self.dropped += int(np.count_nonzero((members == REFUSED) & observed[:, None]))
        return members

    def forget(self, before: int) -> list[int]:
        """Drop the streams last seen before a minute; returns their rows."""
        stale = [row for row in self.rows.values() if self.last_minute[row] < before]
        for row in stale:
            key = self.keys[row]
            assert key is not None
            del self.rows[key]
            self.keys[row] = None
            self.used[row] = False
        self._free = sorted(self._free + stale, reverse=True)
        if stale:
            self.version += 1
            self._tables.clear()
            self._describe_all()
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
        self.loss, self.subject = np.zeros((2, len(keys)), dtype=np.int64)
        self.used, self.sliced, self.versioned = np.zeros((3, len(keys)), dtype=np.bool_)
        self._describe_all()
        self.first_minute, self.last_minute = (
            np.frombuffer(times, dtype=np.int64).reshape(2, -1).copy()
        )
        self._tables.clear()
        self.version += 1

    def _row(self, key: StreamKey) -> int:
        known = self.rows.get(key)
        if known is not None:
            return known
        if not self._free:
            self._extend()
        if not self._free:
            return REFUSED
        self.version += 1
        row = self._free.pop()
        self.keys[row] = key
        self.rows[key] = row
        self._describe(row, key)
        self.first_minute[row] = _NEVER
        self.last_minute[row] = 0
        return row

    def _describe(self, row: int, key: StreamKey) -> None:
        self.loss[row] = INDEX[family(key.metric)]
        self.subject[row] = self._subjects.setdefault(key[:2], len(self._subjects))
        self.used[row] = True
        self.sliced[row] = bool(key.dimension)
        self.versioned[row] = key.dimension == VERSION

    def _describe_all(self) -> None:
        self._subjects.clear()
        for key, row in self.rows.items():
            self._describe(row, key)

    def _extend(self) -> None:
        """More rows at once, because every array of every detector grows with them."""
        before = len(self.keys)
        if before >= self.limit:
            return
        more = min(max(_BLOCK, before // 2), self.limit - before)
        self.keys += [None] * more
        for name in ("loss", "subject", "used", "sliced", "versioned", "last_minute"):
            setattr(self, name, grown(getattr(self, name), before + more))
        self.first_minute = grown(self.first_minute, before + more, _NEVER)
        self._free = list(range(before + more - 1, before - 1, -1))

    def _begin(
        self, known: NDArray[np.int32], dims: Dims, slices: Sequence[str], losses: Ints
    ) -> None:
        names: list[tuple[str, str]] = [("", "")]
        pairs: list[tuple[str, str]] = [(VERSION, dims[1]), *zip(slices, dims[2:], strict=True)]
        names += [(name, value) for name, value in pairs if value]
        for series, (dimension, value) in enumerate(names):
            for loss in losses.tolist():
                metric = self._metrics[loss]
                if dimension and metric == REPEAT:
                    known[series, loss] = NO_SERIES
                    continue
                key = StreamKey(dims[0], metric, dimension, value)
                known[series, loss] = self._row(key)


class _MemberTable:
    """The rows that records of some dims are counted in, as far as they were looked up."""

    def __init__(self, series: int, losses: int) -> None:
        self.rows = np.empty((0, series, losses), dtype=np.int32)
        self.absent: Bools = np.empty((0, losses), dtype=np.bool_)  # not looked up yet
        self._places: dict[Dims, int] = {}
        self._last: tuple[Sequence[Dims], Ints] | None = None  # dims and their places

    def __len__(self) -> int:
        return len(self._places)

    def places(self, dims: Sequence[Dims]) -> Ints:
        """The place of each dims in ``rows``; new ones have a table of their own from now on."""
        if self._last is not None and self._last[0] is dims:
            return self._last[1]
        before = len(self._places)
        places = [self._places.setdefault(each, len(self._places)) for each in dims]
        if len(self._places) > len(self.rows):
            room = max(len(self._places), 3 * len(self.rows) // 2)
            self.rows = grown(self.rows, room, ABSENT)
            self.absent = grown(self.absent, room, True)
        for new in itertools.islice(self._places, before, None):
            self.rows[self._places[new], 1 + sum(map(bool, new[1:])) :] = NO_SERIES
        self._last = (dims, np.array(places, dtype=np.int64))
        return self._last[1]

    def clear(self) -> None:
        """Forget all."""
        self.rows, self.absent = self.rows[:0], self.absent[:0]
        self._places.clear()
        self._last = None
