"""Observations of commits, buffered until detection takes them: one large batch costs least."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.detectors.losses import JUDGED, sources
from ragmon.windows.observations import Observations

_BLOCK_S = 600.0  # thresholds of latencies settle later than that


class ObservationBatch(Struct, frozen=True):
    """Records that were logged, and those of which something became known."""

    logged: Observations | None = None
    before: Observations | None = None  # as they were counted
    after: Observations | None = None  # the same records as they are
    arrivals: dict[str, int] = {}  # records by source

    @property
    def span(self) -> tuple[float, float] | None:
        """The oldest and the newest timestamp; None when there is nothing."""
        parts = [part.timestamps for part in (self.logged, self.after) if part is not None]
        if not parts:
            return None
        return min(float(each.min()) for each in parts), max(float(each.max()) for each in parts)

    def blocks(self) -> Iterator["ObservationBatch"]:
        """Parts of ten minutes each, in the order of their timestamps."""
        logged, before, after = map(_Blocks, (self.logged, self.before, self.after))
        for number in sorted(logged.rows.keys() | after.rows.keys()):
            parts = (logged.select(number), before.select(number), after.select(number))
            yield ObservationBatch(*parts)

    def unread(self, columns: Sequence[str]) -> "ObservationBatch":
        """The same, as if no judge had read any of it."""
        if JUDGED not in columns:
            return self
        at = columns.index(JUDGED)
        logged, before, after = (
            _unread(part, at) for part in (self.logged, self.before, self.after)
        )
        return ObservationBatch(logged, before, after, self.arrivals)


class ObservationBuffer:
    """Observations added by commits since the last turn; on the writer's thread.

    Only the columns that losses are made of are kept.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        """Begin empty.

        Args:
            columns: keys of the observation columns that will come.
        """
        plain = sources(columns)
        self.columns = (*plain, JUDGED)
        self.records = 0
        self._kept = np.array([columns.index(name) for name in plain], dtype=np.intp)
        self._grounding = columns.index("grounding")
        self._logged: list[Observations] = []
        self._before: list[Observations] = []
        self._after: list[Observations] = []
        self._arrivals: Counter[str] = Counter()

    def log(self, observations: Observations) -> None:
        """New records."""
        self._logged.append(self._slim(observations))
        self.records += len(observations)

    def restate(self, before: Observations, after: Observations) -> None:
        """Records of which something became known."""
        self._before.append(self._slim(before))
        self._after.append(self._slim(after))
        self.records += len(after)

    def arrive(self, source: str, records: int) -> None:
        """Count records by the source that they came from."""
        self._arrivals[source] += records

    def take(self) -> ObservationBatch:
        """Empty the buffer into a batch."""
        batch = ObservationBatch(
            _concatenated(self._logged),
            _concatenated(self._before),
            _concatenated(self._after),
            dict(self._arrivals),
        )
        self._logged, self._before, self._after = [], [], []
        self._arrivals = Counter()
        self.records = 0
        return batch

    def _slim(self, observations: Observations) -> Observations:
        values = np.empty((len(observations), len(self.columns)))
        values[:, : len(self._kept)] = observations.values[:, self._kept]
        values[:, -1] = np.where(self._read(observations), 0.0, np.nan)
        return replace(observations, values=values, judged=None)

    def _read(self, observations: Observations) -> NDArray[np.bool_]:
        """Mask of the answers that some judge has read; shape (n,)."""
        read: NDArray[np.bool_] = ~np.isnan(observations.values[:, self._grounding])
        if observations.judged is not None:
            read[observations.judged.record] = True
        return read


class _Blocks:
    """Rows of observations by ten minutes, counted from 1970."""

    def __init__(self, observations: Observations | None) -> None:
        self._observations = observations
        self.rows: dict[int, NDArray[np.intp]] = {}
        if observations is not None:
            numbers = (observations.timestamps // _BLOCK_S).astype(np.int64)
            order = np.argsort(numbers, kind="stable")
            distinct, starts = np.unique(numbers[order], return_index=True)
            parts = np.split(order, starts[1:])
            self.rows = dict(zip(distinct.tolist(), parts, strict=True))

    def select(self, number: int) -> Observations | None:
        """Records of one block; None without any."""
        whole = self._observations
        if whole is None or number not in self.rows:
            return None
        rows = self.rows[number]
        if len(whole.dims) > 2 * len(rows) or whole.judged is not None:
            return whole.select(rows)
        # The dims of all blocks are the same list: what is known of it serves them all.
        return replace(
            whole,
            dim_index=whole.dim_index[rows],
            timestamps=whole.timestamps[rows],
            values=whole.values[rows],
        )


def no_later(observations: Observations, limit: float) -> Observations:
    """The same, with what lies beyond a moment counted at that moment."""
    if float(observations.timestamps.max()) <= limit:
        return observations
    return replace(observations, timestamps=np.minimum(observations.timestamps, limit))


def _unread(observations: Observations | None, judged: int) -> Observations | None:
    if observations is None:
        return None
    values = observations.values.copy()
    values[:, judged] = np.nan
    return replace(observations, values=values)


def _concatenated(parts: Sequence[Observations]) -> Observations | None:
    return Observations.concatenate(parts) if parts else None
