"""Histograms over all time, of which those that did not change are kept."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.text import (
    Exemplar,
    Family,
    HistogramSample,
    HistogramText,
    Labels,
    NativeBuckets,
    histogram_text,
)
from ragmon.stats import exponential

_Exemplars = Mapping[int, Exemplar]


class Observed(NamedTuple):
    """Observations of one series."""

    pipeline: str
    labels: Labels  # beside the pipeline
    counts: NDArray[np.int64]  # by bucket
    total: float
    exemplars: _Exemplars  # by bucket
    fine: NDArray[np.int64] | None = None  # of ``stats.exponential``


class _Kept(NamedTuple):
    made_of: tuple[bytes, bytes, float, _Exemplars]
    sample: HistogramSample


class Histograms:
    """The histograms of one metric."""

    def __init__(self, name: str, text: str, edges: Sequence[float]) -> None:
        self.name = name
        self._help = text
        self._edges = edges
        self._kept: dict[Labels, _Kept] = {}

    def samples(self, observed: Sequence[Observed]) -> dict[str, list[HistogramSample]]:
        """The histograms of each pipeline; those of others are forgotten."""
        kept: dict[Labels, _Kept] = {}
        samples: dict[str, list[HistogramSample]] = {}
        for series in observed:
            labels: Labels = (("pipeline", series.pipeline), *series.labels)
            fine = b"" if series.fine is None else series.fine.tobytes()
            made_of = (series.counts.tobytes(), fine, series.total, dict(series.exemplars))
            before = self._kept.get(labels)
            if before is None or before.made_of != made_of:
                text = None if before is None else before.sample.text
                before = _Kept(made_of, self._sample(labels, series, text))
            kept[labels] = before
            samples.setdefault(series.pipeline, []).append(before.sample)
        self._kept = kept
        return samples

    def family(self, samples: Sequence[HistogramSample]) -> Family:
        """The family of some of the histograms."""
        return Family(self.name, "histogram", self._help, (), samples)

    def _sample(
        self, labels: Labels, observed: Observed, text: HistogramText | None
    ) -> HistogramSample:
        return HistogramSample(
            labels,
            self._edges,
            observed.counts.tolist(),
            observed.total,
            dict(observed.exemplars),
            None if observed.fine is None else _native(observed.fine),
            text or histogram_text(self.name, labels, self._edges),
        )


def _native(counts: NDArray[np.int64]) -> NativeBuckets:
    """The fine buckets from the first to the last that hold something."""
    filled = np.flatnonzero(counts[1:])
    first, end = (filled[0], filled[-1] + 1) if len(filled) else (0, 0)
    return NativeBuckets(
        exponential.SCHEMA,
        exponential.ZERO_S,
        int(counts[0]),
        exponential.FIRST + int(first),
        counts[1 + first : 1 + end].tolist(),
    )
