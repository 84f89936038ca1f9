"""Buckets as bytes, so that a restart continues where the last snapshot stood.

A saved bucket names its series and columns itself: it can be read after series numbers were
reused, slices were configured differently or a signal was added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.signals.verdict_sums import VerdictLayout, layout_of
from ragmon.stats import exponential
from ragmon.stats.latency import BINS
from ragmon.windows import Merged, Windows
from ragmon.windows.bucket_rows import BucketRowsState
from ragmon.windows.latency_bucket import NO_COUNTS, BucketState
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.series import SeriesKey
from ragmon.windows.sparse import Cells
from ragmon.windows.totals import LATENCY_EDGES_MS, STAGES, rebin

_Number = TypeVar("_Number", bound=np.generic)

PER_FINE = STAGES * exponential.SIZE
PER_SERIES = STAGES * BINS


class SavedBucket(NamedTuple):
    """One bucket of one tier."""

    tier: int
    bucket: int
    body: bytes


class _Judged(Struct, array_like=True, frozen=True):
    names: tuple[str, ...]  # of the blocks of a row
    series: bytes  # int32, positions in the bucket's ``series``
    rows: bytes  # float64


class _Bucket(Struct, array_like=True, frozen=True):
    columns: list[str]
    series: list[SeriesKey]
    rows: bytes  # (series, RowLayout.width) float64
    codes: bytes  # int32, by position in ``series``
    counts: bytes  # int32
    judged: _Judged | None = None


class _Fine(Struct, array_like=True, frozen=True):
    """The counters of ``stats.exponential`` that are not 0."""

    schema: int
    first: int  # index of the first bucket
    size: int
    cells: bytes  # int32, ascending: (position in ``series``, stage, counter) as one number
    counts: bytes  # int64


class _Totals(Struct, array_like=True, frozen=True):
    columns: list[str]
    series: list[SeriesKey]
    rows: bytes
    latency: bytes
    score: bytes
    watermark: float
    restatements: int
    dropped: int
    latency_edges_ms: tuple[float, ...] = (50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4)
    scores: list[str] = []  # of the sampled judge
    sampled: bytes = b""  # float64, (series, scores, 2)
    fine: "_Fine | None" = None  # None: saved by a release without


def load_bucket(windows: Windows, saved: SavedBucket) -> None:
    """Put a saved bucket back, unless the rings have moved past it."""
    width, slots = windows.tiers[saved.tier]
    if saved.bucket <= windows.watermark // width - slots:
        return  # its series may be forgotten; they must not take the room of others
    stored = msgspec.msgpack.decode(saved.body, type=_Bucket)
    rows = _rows(stored.rows, stored.columns, _names(windows.columns), len(stored.series))
    numbers = _numbers(windows, stored.series)
    known = numbers >= 0
    windows.rings[saved.tier].put(saved.bucket, numbers[known], rows[known])
    windows.series.seen(numbers[known], float(saved.bucket * width))
    codes = np.frombuffer(stored.codes, dtype=np.int32)
    counts = np.frombuffer(stored.counts, dtype=np.int32)
    owner = numbers[codes // PER_SERIES]
    renumbered = (owner * PER_SERIES + codes % PER_SERIES).astype(np.int32)
    order = np.argsort(renumbered, kind="stable")
    order = order[owner[order] >= 0]
    windows.latencies[saved.tier].put(saved.bucket, renumbered[order], counts[order])
    if stored.judged is not None:
        at, judged = _judged_rows(stored.judged, windows.verdict_layout)
        kept = numbers[at] >= 0
        windows.judged[saved.tier].put(saved.bucket, numbers[at][kept], judged[kept])


def saved_queries(body: bytes) -> float:
    """Number of queries that a saved bucket counts.

    Raises:
        ValueError: its parts do not fit together.
        msgspec.MsgspecError: it is damaged.
    """
    stored = msgspec.msgpack.decode(body, type=_Bucket)
    layout = RowLayout(len(stored.columns))
    rows = np.frombuffer(stored.rows).reshape(len(stored.series), layout.width)
    whole = [at for at, key in enumerate(stored.series) if not key.dimension]
    return float(rows[whole, layout.queries].sum())


def add_saved(
    merged: Merged, keys: Mapping[SeriesKey, int], saved: Iterable[bytes], columns: Sequence[Column]
) -> tuple[Merged, dict[SeriesKey, int]]:
    """A window made longer by saved buckets, also of series that memory has forgotten.

    Args:
        merged: what memory holds of the window.
        keys: its series by number.
        saved: bodies of buckets that memory no longer holds.
        columns: in force now.
    """
    numbers, size = dict(keys), len(merged.rows)
    names, layout = _names(columns), layout_of(columns)
    rows = merged.rows.copy()
    # Wider than in memory, for there is no end to how long a window on disk may be.
    latency = merged.latency.reshape(size, PER_SERIES).astype(np.int64)
    judged = np.zeros((size, layout.width)) if merged.judged is None else merged.judged.copy()
    for body in saved:
        stored = msgspec.msgpack.decode(body, type=_Bucket)
        added = _rows(stored.rows, stored.columns, names, len(stored.series))
        codes = np.frombuffer(stored.codes, dtype=np.int32)
        counts = np.frombuffer(stored.counts, dtype=np.int32)
        for key in stored.series:
            if key not in numbers:
                numbers[key], size = size, size + 1
        rows, latency = _with_room(rows, size), _with_room(latency, size)
        judged = _with_room(judged, size)
        of_series = np.array([numbers[key] for key in stored.series], dtype=np.intp)
        rows[of_series] += added
        position, within = np.divmod(codes, PER_SERIES)
        latency[of_series[position], within] += counts
        if stored.judged is not None:
            at, sums = _judged_rows(stored.judged, layout)
            judged[of_series[at]] += sums
    total = latency[:size].reshape(size, STAGES, BINS)
    return Merged(rows[:size], total, judged[:size]), numbers


def _with_room(table: NDArray[_Number], rows: int) -> NDArray[_Number]:
    """The table with at least that many rows, new ones zero; half as many again when it grows."""
    more = rows - len(table)
    if more <= 0:
        return table
    room = np.zeros((max(more, len(table) // 2), *table.shape[1:]), dtype=table.dtype)
    return np.concatenate([table, room])


class SavedSums(NamedTuple):
    """A saved bucket's sums of one series."""

    row: NDArray[np.float64]  # (RowLayout.width,)
    bins: NDArray[np.int32]  # of (stage, bin), flat
    counts: NDArray[np.int32]  # of ``bins``
    judged: NDArray[np.float64]  # (width of the layout,)


def saved_sums(body: bytes, key: SeriesKey, columns: Sequence[Column]) -> SavedSums | None:
    """The sums of one series in a saved bucket, over the columns in force now; None: none."""
    stored = msgspec.msgpack.decode(body, type=_Bucket)
    if key not in stored.series:
        return None
    at, layout = stored.series.index(key), layout_of(columns)
    width = RowLayout(len(stored.columns)).width
    own = stored.rows[8 * at * width : 8 * (at + 1) * width]
    codes = np.frombuffer(stored.codes, dtype=np.int32)
    mine = slice(*np.searchsorted(codes, (at * PER_SERIES, (at + 1) * PER_SERIES)))
    judged = np.zeros(layout.width)
    if stored.judged is not None:
        series, rows = _judged_rows(stored.judged, layout)
        judged += rows[series == at].sum(axis=0)
    counts = np.frombuffer(stored.counts, dtype=np.int32)[mine]
    row = _rows(own, stored.columns, _names(columns), 1)[0]
    return SavedSums(row, codes[mine] % PER_SERIES, counts, judged)


def dump_totals(windows: Windows) -> bytes:
    """The cumulative counters."""
    totals = windows.totals
    keys = sorted(windows.series.keys.items(), key=lambda item: item[1])
    numbers = [number for _, number in keys]
    return msgspec.msgpack.encode(
        _Totals(
            _names(windows.columns),
            [key for key, _ in keys],
            totals.rows[numbers].tobytes(),
            totals.latency[numbers].tobytes(),
            totals.score[numbers].tobytes(),
            windows.watermark,
            windows.restatements,
            windows.dropped,
            tuple(LATENCY_EDGES_MS.tolist()),
            _names(windows.verdict_layout.counted),
            totals.sampled[numbers].tobytes(),
            _dump_fine(windows, np.array(numbers, dtype=np.int64)),
        )
    )


def load_totals(windows: Windows, body: bytes) -> None:
    """Put the cumulative counters back."""
    stored = msgspec.msgpack.decode(body, type=_Totals)
    totals, count = windows.totals, len(stored.series)
    numbers = _numbers(windows, stored.series)
    known = numbers >= 0
    kept = numbers[known]
    totals.rows[kept] = _rows(stored.rows, stored.columns, _names(windows.columns), count)[known]
    latency = np.frombuffer(stored.latency, dtype=np.int64).reshape(count, STAGES, -1)
    score = np.frombuffer(stored.score, dtype=np.int64).reshape(count, -1)
    totals.latency[kept] = rebin(latency[known], stored.latency_edges_ms)
    totals.score[kept] = score[known]
    sampled = np.frombuffer(stored.sampled).reshape(count, len(stored.scores), 2)
    for at, column in enumerate(windows.verdict_layout.counted):
        if column.key in stored.scores:
            totals.sampled[kept, at] = sampled[known, stored.scores.index(column.key)]
    _load_fine(windows, stored, kept, known)
    windows.watermark = stored.watermark
    windows.restatements = stored.restatements
    windows.dropped = stored.dropped


def _dump_fine(windows: Windows, numbers: NDArray[np.int64]) -> _Fine:
    totals = windows.totals
    # Of pipelines alone, so that the rows of slices are not copied.
    positions = np.flatnonzero(totals.latency[numbers].any(axis=(1, 2)))
    fine = totals.fine.of(numbers[positions]).reshape(len(positions), PER_FINE)
    row, within = np.nonzero(fine)
    return _Fine(
        exponential.SCHEMA,
        exponential.FIRST,
        exponential.SIZE,
        (positions[row] * PER_FINE + within).astype(np.int32).tobytes(),
        fine[row, within].tobytes(),
    )


def _load_fine(
    windows: Windows, stored: _Totals, kept: NDArray[np.int64], known: NDArray[np.bool_]
) -> None:
    """Put the fine histograms back, or make them of the classic ones."""
    totals, fine = windows.totals, stored.fine
    layout = (exponential.SCHEMA, exponential.FIRST, exponential.SIZE)
    if fine is None or (fine.schema, fine.first, fine.size) != layout:
        counted = kept[totals.latency[kept].any(axis=(1, 2))]
        edges_s = LATENCY_EDGES_MS / 1000
        totals.fine.put(counted, exponential.from_classic(totals.latency[counted], edges_s))
        return
    numbers, end = np.full(len(known), -1), len(known) * PER_FINE
    numbers[known] = kept
    cells = np.frombuffer(fine.cells, dtype=np.int32)
    counts = np.frombuffer(fine.counts, dtype=np.int64)
    position, within = np.divmod(cells, PER_FINE)
    if len(cells) != len(counts) or (len(cells) and not 0 <= cells.min() <= cells.max() < end):
        raise ValueError("counters of histograms that are in no series")
    there = numbers[position] >= 0
    stage, counter = np.divmod(within[there], exponential.SIZE)
    totals.fine.put_counters(numbers[position[there]], stage, counter, counts[there])


class SeriesNames:
    """Columns and series as they are now; numbers may have been given anew later."""

    def __init__(self, windows: Windows) -> None:
        self.columns = _names(windows.columns)
        self.judged = windows.verdict_layout.names
        self.queries = windows.row_layout.queries
        self.capacity = windows.series.capacity
        self.keys = {number: key for key, number in windows.series.keys.items()}


class BucketContent(NamedTuple):
    """Content of a bucket, by numbers of series; none of it is changed any more."""

    rows: BucketRowsState
    latency: BucketState | None
    judged: Cells | None


def dump_bucket(names: SeriesNames, content: BucketContent) -> bytes:
    """Body of a saved bucket; on any thread."""
    series, rows = content.rows.get()
    used = rows[:, names.queries] != 0.0
    numbers, rows = series[used], rows[used]
    position = np.full(names.capacity, -1)
    position[numbers] = np.arange(len(numbers))
    codes, counts = NO_COUNTS if content.latency is None else content.latency.counted()
    owner = position[codes // PER_SERIES]
    kept = owner >= 0
    packed = (owner * PER_SERIES + codes % PER_SERIES)[kept].astype(np.int32)
    return msgspec.msgpack.encode(
        _Bucket(
            names.columns,
            [names.keys[number] for number in numbers.tolist()],
            rows.tobytes(),
            packed.tobytes(),
            counts[kept].tobytes(),
            _dump_judged(names, content.judged, position),
        )
    )


def _dump_judged(
    names: SeriesNames, cells: Cells | None, position: NDArray[np.int64]
) -> _Judged | None:
    if cells is None:
        return None
    at = position[cells.series]
    kept = at >= 0
    return _Judged(names.judged, at[kept].astype(np.int32).tobytes(), cells.rows[kept].tobytes())


def _judged_rows(
    stored: _Judged, layout: VerdictLayout
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Positions in the bucket's series, and rows over the layout in force now."""
    at = np.frombuffer(stored.series, dtype=np.int32)
    return at, layout.converted(stored.names, np.frombuffer(stored.rows).reshape(len(at), -1))


def _numbers(windows: Windows, series: list[SeriesKey]) -> NDArray[np.int64]:
    """Series numbers now; -1 where the table is full."""
    numbers = (windows.series.number(key) for key in series)
    return np.array([-1 if number is None else number for number in numbers], dtype=np.int64)


def _rows(body: bytes, columns: list[str], now: list[str], count: int) -> NDArray[np.float64]:
    """Stored rows (count, width then) over the columns in force now (count, width now)."""
    before, after = RowLayout(len(columns)), RowLayout(len(now))
    stored = np.frombuffer(body).reshape(count, before.width)
    if columns == now:
        return stored
    shared = [name for name in now if name in columns]
    sources, targets = ([names.index(name) for name in shared] for names in (columns, now))
    rows = np.zeros((count, after.width))
    for source, target in zip(before.moments, after.moments, strict=True):
        rows[:, target][:, targets] = stored[:, source][:, sources]
    rows[:, after.queries] = stored[:, before.queries]
    return rows


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.key for column in columns]
