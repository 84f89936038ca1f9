"""Expected levels of metrics over time: what detection calls ordinary, in the units of a report."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragmon.detectors import StreamKey
from ragmon.detectors.arrays import Ints
from ragmon.detectors.expected_band import ExpectedBand
from ragmon.detectors.losses import expected_shares, hit_columns, loss_of
from ragmon.metric_series import Floats
from ragmon.report import metric_key
from ragmon.signals import Column
from ragmon.windows import Merged
from ragmon.windows.estimates import estimate, shown
from ragmon.windows.history import Steps
from ragmon.windows.series import SeriesKey

ExpectedSource = Callable[[StreamKey, Ints], ExpectedBand | None]
"""The ordinary losses of a stream at some ten-minutes; to be asked on the writer's thread."""

_TEN_S = 600.0
_LONGEST_STEP_S = 3_600.0  # a level is that of an hour


class ExpectedRange(NamedTuple):
    """Ordinary values of a metric, one a step; NaN where detection knew too little."""

    lower: Floats
    upper: Floats


def no_expectation(_key: StreamKey, _tens: Ints) -> None:
    """Without detection nothing is expected."""


class ExpectedSeries:
    """Bands of the metrics that detection watches."""

    def __init__(self, source: ExpectedSource, columns: Sequence[Column]) -> None:
        self._source = source
        streams = expected_shares()
        self._metrics = {
            metric_key(column): streams[column.key] for column in columns if column.key in streams
        }
        by_key = {column.key: metric_key(column) for column in columns}
        hits = hit_columns([*by_key])
        self._hits = [by_key[key] for key in hits if key in by_key]  # the best evidence first
        self._metrics |= dict.fromkeys(self._hits, "hit")

    def bands(
        self, key: SeriesKey, over: Steps, names: Sequence[str] | None = None
    ) -> dict[str, ExpectedRange]:
        """Bands by the metric's name; only on the writer's thread.

        Args:
            key: of the pipeline or slice.
            over: the steps.
            names: of the metrics; None: all.
        """
        if over.step_s > _LONGEST_STEP_S or not over.length:
            return {}
        middles = over.start + (np.arange(over.length) + 0.5) * over.step_s
        tens = (middles // _TEN_S).astype(np.int64)
        asked = [name for name in names or self._metrics if name in self._metrics]
        by_stream = {
            metric: self._of_stream(StreamKey(key.pipeline, metric, key.dimension, key.value), tens)
            for metric in {self._metrics[name] for name in asked}
        }
        bands = {name: by_stream[self._metrics[name]] for name in asked}
        return {name: band for name, band in bands.items() if band is not None}

    def fitting(
        self, bands: Mapping[str, ExpectedRange], merged: Merged, columns: Sequence[Column]
    ) -> dict[str, ExpectedRange]:
        """The bands without those of hits by another evidence than the one that is watched."""
        hits = [name for name in self._hits if name in bands]
        if not hits:
            return dict(bands)
        samples = dict(zip(map(metric_key, shown(columns)), _samples(merged, columns), strict=True))
        best = next((name for name in self._hits if samples.get(name)), None)
        return {name: band for name, band in bands.items() if name not in hits or name == best}

    def _of_stream(self, key: StreamKey, tens: Ints) -> ExpectedRange | None:
        band = self._source(key, tens)
        if band is None or not np.isfinite(band.upper).any():
            return None
        if loss_of(key.metric).good:
            return ExpectedRange(1.0 - band.upper, 1.0 - band.lower)
        return ExpectedRange(band.lower, band.upper)


def _samples(merged: Merged, columns: Sequence[Column]) -> list[float]:
    """Samples of each metric over all steps."""
    counted: list[float] = np.nan_to_num(estimate(merged, columns).samples).sum(axis=0).tolist()
    return counted
