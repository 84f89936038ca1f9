"""The minutes and ten-minutes of every stream: what detectors read and references are made of.

A bucket holds (n, Σ loss, Σ loss²). Two rings: 128 minutes, and 8 days of ten minutes. A stream of
losses of 0 or 1 takes 12 kB (128 + 1,160 buckets of 8 bytes and a mark), another 43 kB, whatever
its traffic. ``weeks`` adds 2 kB: three weeks of hours, of which only the error of the usual level
is kept.

A minute is *taken* once, when it is closed. What becomes known of it later is counted in the
minute then open if it is a first observation and at most an hour late (ratings, verdicts,
delayed batches), so evidence is delayed and never lost; later still, or a mere change of mind,
it enters the references only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.detectors.arrays import Bools, Floats, Ints, grown, pack, unpack
from ragmon.detectors.cell_ring import CellRing
from ragmon.detectors.hour_errors import HourErrors

RECENT = 128  # minutes
TEN = 10
TENS = 8 * 144 + 8
LATE = 60  # minutes after which an observation only enters the references
_TIERS = (1, TEN)


class SavedMinute(NamedTuple):
    """One bucket of one ring, for every stream."""

    tier: int  # 0: minutes, 1: ten minutes, 2: hours of the week
    bucket: int
    body: bytes


class _Position(Struct, array_like=True, frozen=True):
    frontier: int
    arrays: bytes


class MinuteLog:
    """Eight days of losses by stream."""

    def __init__(self) -> None:
        self.frontier = -1  # the first minute not taken yet; -1 before ``begin``
        self.carry: Floats = np.zeros((0, 3))
        self.excluded: Bools = np.zeros((TENS, 0), dtype=np.bool_)
        self.weeks = HourErrors()
        self._rings = (CellRing(RECENT), CellRing(TENS))
        self._saved: tuple[CellRing | HourErrors, ...] = (*self._rings, self.weeks)

    def __len__(self) -> int:
        return len(self.carry)

    @property
    def nbytes(self) -> int:
        """Memory of the rings."""
        return sum(ring.nbytes for ring in self._saved) + self.excluded.nbytes

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        self.carry = grown(self.carry, streams)
        for ring in self._rings:
            ring.grow(streams)
        self.weeks.grow(streams)
        more = np.zeros((TENS, max(0, streams - self.excluded.shape[1])), dtype=np.bool_)
        self.excluded = np.concatenate([self.excluded, more], axis=1)

    def clear(self, streams: Ints | list[int]) -> None:
        """Forget some streams."""
        self.carry[streams] = 0.0
        self.excluded[:, streams] = False
        for ring in self._rings:
            ring.clear(streams)
        self.weeks.clear(streams)

    def begin(self, minute: int) -> None:
        """Judge from this minute on; what is older enters the references only."""
        self.frontier = max(self.frontier, minute)

    def add(self, minutes: Ints, streams: Ints, cells: Floats, first: Bools) -> None:
        """Count cells.

        Args:
            minutes: (m,) unix minutes, at most an hour beyond the frontier.
            streams: (m,) rows.
            cells: (m, 3); of a stream and minute there may be several.
            first: (m,) whether these are first observations and not changes of mind.
        """
        for ring, width in zip(self._rings, _TIERS, strict=True):
            ring.add(minutes // width, streams, cells)
        late = (minutes < self.frontier) & (minutes >= self.frontier - LATE) & first
        if late.any():
            for part in range(3):
                size = len(self.carry)
                self.carry[:, part] += np.bincount(streams[late], cells[late, part], size)

    def take(self) -> Floats:
        """Close the minute at the frontier: its cells with what came late, (streams, 3)."""
        self._rings[0].open(self.frontier)
        self._rings[0].dirty.add(self.frontier)  # empty or not: a restart must not reopen it
        taken = self._rings[0].bucket(self.frontier)
        taken += self.carry
        self.carry[:] = 0.0
        self.frontier += 1
        ten = self.frontier // TEN
        if self._rings[1].epochs[ten % TENS] < ten:
            self._rings[1].open(ten)
            self._rings[1].dirty.add(ten)
            self.excluded[ten % TENS] = False
        return taken

    def tens(self, buckets: Ints) -> Floats:
        """Ten-minute cells (m, streams, 3) without those of incidents."""
        cells = self._rings[1].read(buckets)
        hidden = self.excluded[buckets % TENS]
        if hidden.any():
            cells[hidden] = 0.0
        return cells

    def tens_of(self, buckets: Ints, stream: int) -> Floats:
        """Ten-minute cells (m, 3) of one stream without those of incidents."""
        cells = self._rings[1].read(buckets, slice(stream, stream + 1))[:, 0]
        cells[self.excluded[buckets % TENS, stream]] = 0.0
        return cells

    def tens_total(self, first: int, last: int) -> Floats:
        """Sum of ten-minutes [first, last) without those of incidents, (streams, 3)."""
        total = self._rings[1].total(first, last)
        buckets = np.arange(first, last)
        hidden = self.excluded[buckets % TENS]
        if not hidden.any():
            return total
        total = total.copy()
        self._take_out(buckets, total)
        return total

    def tens_sum(self, first: int, last: int) -> Floats:
        """The same as ``tens_total``, for stretches that are seldom asked for; not kept."""
        total = self._rings[1].summed(first, last)
        self._take_out(np.arange(first, last), total)
        return total

    def counts(self, buckets: Ints, streams: Ints) -> Floats:
        """Observations in ten-minutes, incidents included, of some streams; (m, streams)."""
        return self._rings[1].counts(buckets, streams)

    def minutes(self, first: int, last: int, rows: slice = slice(None)) -> Floats:
        """Minute cells over [first, last) of some streams, (last - first, streams, 3)."""
        return self._rings[0].read(np.arange(first, last), rows)

    def hour(self, hour: int, rows: slice = slice(None)) -> Floats:
        """Sum of an hour, incidents included, of some streams, (streams, 3)."""
        tens = 60 // TEN
        return self._rings[1].total(hour * tens, hour * tens + tens)[rows]

    def window(self, minutes: int, streams: Ints | None = None) -> Floats:
        """Sum of the last taken minutes, (streams, 3); to ten minutes beyond two hours."""
        return self.span(self.frontier - minutes, self.frontier, streams)

    def span(self, first: int, last: int, streams: Ints | None = None) -> Floats:
        """Sum over minutes [first, last), (streams, 3), as it is known now."""
        recent, tens = self._rings
        if last - first <= RECENT - TEN and first > self.frontier - RECENT:
            return recent.total(first, last, streams)
        edge = last // TEN * TEN
        if edge <= self.frontier - RECENT:
            return tens.total(first // TEN, -(-last // TEN), streams)
        return tens.total(first // TEN, edge // TEN, streams) + recent.total(edge, last, streams)

    def oldest(self) -> int:
        """The first minute of the oldest bucket with observations; the frontier if there is none.

        To ten minutes.
        """
        ring = self._rings[1]
        for slot in np.argsort(ring.epochs).tolist():
            bucket = int(ring.epochs[slot])
            if bucket >= 0 and ring.bucket(bucket)[:, 0].any():
                return bucket * TEN
        return self.frontier

    def exclude(self, streams: Ints, first: int, last: int) -> None:
        """Keep minutes [first, last] of some streams out of the references."""
        for ten in range(max(first // TEN, last // TEN - TENS + 1), last // TEN + 1):
            self.excluded[ten % TENS, streams] = True

    def readmit(self, stream: int, first: int, last: int) -> None:
        """Let minutes [first, last] of a stream count again."""
        tens = np.arange(max(first // TEN, last // TEN - TENS + 1), last // TEN + 1)
        self.excluded[tens % TENS, stream] = False

    def excluded_in(self, first: int, last: int) -> Bools:
        """Mask of the streams with an incident in minutes [first, last); (streams,)."""
        slots = np.arange(first // TEN, -(-last // TEN)) % TENS
        return np.asarray(self.excluded[slots].any(axis=0), dtype=np.bool_)

    def excluded_share(self, first: int, last: int) -> Floats:
        """Part of the minutes [first, last) that are kept out of the references; (streams,)."""
        slots = np.arange(first // TEN, -(-last // TEN)) % TENS
        return np.asarray(self.excluded[slots].mean(axis=0), dtype=np.float64)

    def rebase(self, stream: int, minute: int) -> None:
        """From now on the references of a stream see only what came after a minute."""
        ten = minute // TEN
        epochs = self._rings[1].epochs
        self.excluded[:, stream] = epochs <= ten

    def dump_dirty(self) -> Iterator[SavedMinute]:
        """Every bucket changed since the last dump; then they count as clean."""
        for tier, ring in enumerate(self._saved):
            for bucket in sorted(ring.dirty):
                if ring.epochs[bucket % ring.slots] == bucket:
                    yield SavedMinute(tier, bucket, ring.body(bucket))
            ring.dirty.clear()

    def dirty(self) -> tuple[set[int], ...]:
        """Numbers of the buckets of each ring that ``dump_dirty`` would save."""
        return tuple(set(ring.dirty) for ring in self._saved)

    def mark_dirty(self, buckets: Iterable[set[int]]) -> None:
        """These, as ``dirty`` answered them, were dumped, but not saved after all."""
        for ring, numbers in zip(self._saved, buckets, strict=True):
            ring.dirty |= numbers

    def load_bucket(self, saved: SavedMinute) -> None:
        """Put a saved bucket back, after ``load``."""
        self._saved[saved.tier].load(saved.bucket, saved.body)

    def _take_out(self, buckets: Ints, total: Floats) -> None:
        """Subtract the cells of incidents in some ten-minutes from their sum."""
        at, streams = np.nonzero(self.excluded[buckets % TENS])
        if len(at):
            np.subtract.at(total, streams, self._rings[1].cells_of(buckets[at], streams))

    def dump(self) -> bytes:
        """Everything but the buckets."""
        arrays = pack({"carry": self.carry, "excluded": np.packbits(self.excluded, axis=1)})
        return msgspec.msgpack.encode(_Position(self.frontier, arrays))

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken; the buckets follow by ``load_bucket``."""
        stored = msgspec.msgpack.decode(data, type=_Position)
        arrays = unpack(stored.arrays)
        self.frontier = stored.frontier
        self.grow(len(arrays["carry"]))
        self.carry = arrays["carry"]
        bits = np.unpackbits(arrays["excluded"], axis=1, count=len(self.carry))
        self.excluded = bits.astype(np.bool_)
