"""What commits add, gathered until detection takes it: one large chunk costs least."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.detectors.losses import JUDGED, sources
from ragmon.records import Position
from ragmon.windows.observations import Observations

_BLOCK_S = 600.0


class ObservationBatch(Struct, frozen=True):
    """Records that were logged, and those of which something became known."""

    position: Position  # of the store, with all of it
    logged: Observations | None = None
    before: Observations | None = None  # as they were counted
    after: Observations | None = None  # the same records as they are
    arrivals: dict[str, int] = {}  # records by source

    @property
    def span(self) -> tuple[float, float] | None:
        """The oldest and the newest timestamp; None when there is nothing."""
        held = [each.timestamps for each in (self.logged, self.after) if each is not None]
        if not held:
            return None
        return min(float(each.min()) for each in held), max(float(each.max()) for each in held)

    def blocks(self) -> Iterator["ObservationBatch"]:
        """In the order of their timestamps, ten minutes at a time."""
        stamps = [each.timestamps for each in (self.logged, self.after) if each is not None]
        if not stamps:
            return
        for number in np.unique(np.concatenate(stamps) // _BLOCK_S).tolist():
            logged, before, after = (
                _block(each, number) for each in (self.logged, self.before, self.after)
            )
            yield ObservationBatch(self.position, logged, before, after)

    def unread(self) -> "ObservationBatch":
        """The same, as if no judge had read any of it."""
        logged, before, after = map(_unread, (self.logged, self.before, self.after))
        return ObservationBatch(self.position, logged, before, after, self.arrivals)


class ObservationBuffer:
    """Gathers on the writer's thread; only what losses are made of is kept."""

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
        """How many came, and from where."""
        self._arrivals[source] += records

    def take(self, position: Position) -> ObservationBatch:
        """Everything gathered, which ends at this position of the store."""
        chunk = ObservationBatch(
            position,
            _concatenated(self._logged),
            _concatenated(self._before),
            _concatenated(self._after),
            dict(self._arrivals),
        )
        self._logged, self._before, self._after = [], [], []
        self._arrivals = Counter()
        self.records = 0
        return chunk

    def _slim(self, observations: Observations) -> Observations:
        values = np.empty((len(observations), len(self.columns)))
        values[:, : len(self._kept)] = observations.values[:, self._kept]
        values[:, -1] = np.where(self._read(observations), 0.0, np.nan)
        return replace(observations, values=values, judged=None)

    def _read(self, observations: Observations) -> NDArray[np.bool_]:
        """Which answers some judge has read; shape (n,)."""
        read: NDArray[np.bool_] = ~np.isnan(observations.values[:, self._grounding])
        if observations.judged is not None:
            read[observations.judged.record] = True
        return read


def no_later(observations: Observations, limit: float) -> Observations:
    """The same, with what lies beyond a moment counted at that moment."""
    if float(observations.timestamps.max()) <= limit:
        return observations
    return replace(observations, timestamps=np.minimum(observations.timestamps, limit))


def _unread(observations: Observations | None) -> Observations | None:
    if observations is None:
        return None
    values = observations.values.copy()
    values[:, -1] = np.nan
    return replace(observations, values=values)


def _concatenated(parts: Sequence[Observations]) -> Observations | None:
    return Observations.concatenate(parts) if parts else None


def _block(observations: Observations | None, number: float) -> Observations | None:
    """The records of one ten-minute block; None without any."""
    if observations is None:
        return None
    rows = np.flatnonzero(observations.timestamps // _BLOCK_S == number)
    return observations.select(rows) if len(rows) else None
