"""Live top lists of documents: counted as queries come, in bounded memory, with their error.

A list keeps twice ``MOST_KEPT`` counters at most. When it is full, the count of the
``MOST_KEPT + 1``-th is taken off all of them, and those without any left go: what remains is too
low by the sum of what was taken off, and never too high. Where many queries come, one in
``SAMPLED`` is counted, and the interval says so.

Source: Misra and Gries (1982), Finding repeated elements; in batches and merged as in Agarwal et
al. (2012), Mergeable summaries, PODS.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.records import QueryRecord

MOST_KEPT = 400
"""Documents of a pipeline and period that are kept for sure, by how often they are retrieved."""
MOST_PIPELINES = 50
"""Pipelines that are counted; about 0.3 MB each at most."""
COUNTED_ALL = 20_000
"""Queries of a period of which every one is counted; from then on one in ``SAMPLED``."""
SAMPLED = 8
PERIOD_S = 3_600.0
_LONGEST = 200  # characters of an id that tell it from others
_Z = 1.96


class TopCounts:
    """The most frequent of many names, in bounded memory."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.counts: Counter[str] = Counter()
        self.too_low = 0  # no count is lower by more
        self.total = 0
        self._most = most

    def add(self, names: list[str]) -> None:
        """Count names, each as often as it occurs."""
        self.total += len(names)
        self.counts.update(names)
        if len(self.counts) > 2 * self._most:
            self._shrink()

    def _shrink(self) -> None:
        before, self.counts = self.counts, Counter()
        values = np.fromiter(before.values(), np.int64, len(before))
        taken = int(np.partition(values, -self._most - 1)[-self._most - 1])
        self.too_low += taken
        for name, number in before.items():
            if number > taken:
                self.counts[name[:_LONGEST]] += number - taken


class CountRange(Struct, frozen=True, kw_only=True):
    """A number of times as it is known."""

    estimate: int
    lower: int  # 95 % interval: of the sample, and of what was taken off
    upper: int


class _Period:
    """Counts of one pipeline in one period: of all of its queries at first, then of a sample."""

    def __init__(self) -> None:
        self.queries = 0
        self.retrieved = TopCounts(), TopCounts()
        self.cited = TopCounts(), TopCounts()

    def add(self, records: Sequence[QueryRecord], *, is_sample: bool) -> None:
        """Count queries that retrieved something."""
        self.queries += len(records) * (SAMPLED if is_sample else 1)
        self.retrieved[is_sample].add([chunk.id for one in records for chunk in one.chunks or ()])
        self.cited[is_sample].add([name for one in records for name in one.citations or ()])


class LiveDocument(Struct, frozen=True, kw_only=True):
    """One document of a live list."""

    id: str
    retrieved: CountRange
    share: float  # of all retrievals
    cited: CountRange


class LivePipeline(Struct, frozen=True, kw_only=True):
    """Documents of one pipeline that are retrieved most."""

    pipeline: str
    queries: int  # that retrieved something
    retrievals: int
    missing_below: int  # a document retrieved at least as often is surely listed, up to `limit`
    documents: list[LiveDocument]


class LiveDocumentList(Struct, frozen=True, kw_only=True):
    """Documents retrieved most in this hour and the last, counted as it comes."""

    start: float = msgspec.field(name="from")  # unix seconds
    to: float
    queries_left_out: int  # of further pipelines
    pipelines: list[LivePipeline]


class _Slot:
    """One period of all pipelines."""

    def __init__(self, start: float) -> None:
        """Begin one, at unix seconds."""
        self.start = start
        self.queries = 0  # with those that were not in the sample
        self.left_out = 0
        self.pipelines: dict[str, _Period] = {}

    def add(self, records: list[QueryRecord], *, is_sample: bool) -> None:
        """Count queries that retrieved something."""
        by_pipeline: dict[str, list[QueryRecord]] = {}
        for record in records:
            by_pipeline.setdefault(record.pipeline, []).append(record)
        for pipeline, queries in by_pipeline.items():
            period = self.pipelines.get(pipeline)
            if period is None:
                if len(self.pipelines) >= MOST_PIPELINES:
                    self.left_out += len(queries) * (SAMPLED if is_sample else 1)
                    continue
                period = self.pipelines[pipeline] = _Period()
            period.add(queries, is_sample=is_sample)


class LiveDocumentCounts:
    """Counts of this period and the one before; for one thread at a time."""

    def __init__(self, now: Callable[[], float], draw: Callable[[int], int]) -> None:
        """Begin with nothing.

        Args:
            now: unix seconds.
            draw: a whole number from 0 to below another, by chance.
        """
        self._now = now
        self._draw = draw
        self.clear()

    def clear(self) -> None:
        """Forget everything, because queries were erased."""
        self._slots = [_Slot(self._now())]

    def observe(self, records: Sequence[QueryRecord]) -> None:
        """Count the documents of new queries."""
        slot = self._current()
        is_sample = slot.queries >= COUNTED_ALL
        slot.queries += len(records)
        if is_sample:
            records = records[self._draw(SAMPLED) :: SAMPLED]
        if chosen := [record for record in records if record.chunks]:
            slot.add(chosen, is_sample=is_sample)

    def _current(self) -> _Slot:
        """The period of now, which may begin with this call."""
        now, last = self._now(), self._slots[-1]
        if now < last.start:  # the clock was set back
            self._slots = [_Slot(now)]
        elif now // PERIOD_S > last.start // PERIOD_S:
            begun = now // PERIOD_S * PERIOD_S
            is_next = begun - last.start <= PERIOD_S
            self._slots = [*([last] if is_next else []), _Slot(begun)]
        return self._slots[-1]

    def top(self, readable: Callable[[str], bool] | None, most: int) -> LiveDocumentList:
        """The documents retrieved most, of the pipelines with the most queries first.

        Args:
            readable: tells which pipelines may be read; None: all.
            most: documents of each pipeline.
        """
        self._current()
        names = {name for slot in self._slots for name in slot.pipelines}
        listed = [
            self._listed(name, most) for name in sorted(names) if readable is None or readable(name)
        ]
        listed.sort(key=lambda one: -one.queries)
        return LiveDocumentList(
            start=self._slots[0].start,
            to=self._now(),
            queries_left_out=sum(slot.left_out for slot in self._slots),
            pipelines=listed,
        )

    def _listed(self, name: str, most: int) -> LivePipeline:
        periods = [slot.pipelines[name] for slot in self._slots if name in slot.pipelines]
        retrieved = _Both([period.retrieved for period in periods])
        cited = _Both([period.cited for period in periods])
        documents = retrieved.most_frequent(most)
        return LivePipeline(
            pipeline=name,
            queries=sum(period.queries for period in periods),
            retrievals=retrieved.total,
            missing_below=retrieved.range_of("").upper,
            documents=[
                LiveDocument(
                    id=document,
                    retrieved=(known := retrieved.range_of(document)),
                    share=known.estimate / retrieved.total,
                    cited=cited.range_of(document),
                )
                for document in documents
            ],
        )


class _Both:
    """Counts of several periods together, of all queries and of samples."""

    def __init__(self, pairs: Sequence[tuple[TopCounts, TopCounts]]) -> None:
        self._all: Counter[str] = Counter()
        self._sampled: Counter[str] = Counter()
        for whole, sample in pairs:
            self._all.update(whole.counts)
            self._sampled.update(sample.counts)
        self._too_low = sum(whole.too_low for whole, _ in pairs)
        self._sample_too_low = sum(sample.too_low for _, sample in pairs)
        self._has_sample = any(sample.total for _, sample in pairs)
        self.total = sum(whole.total + SAMPLED * sample.total for whole, sample in pairs)

    def most_frequent(self, most: int) -> list[str]:
        """Names, the most frequent first."""
        names = self._all.keys() | self._sampled.keys()
        ranked = sorted(names, key=lambda name: (-self._estimate(name), name))
        return ranked[:most]

    def _estimate(self, name: str) -> int:
        return self._all[name] + SAMPLED * self._sampled[name]

    def range_of(self, name: str) -> CountRange:
        """The times that a name occurred; of one that is not kept, at most."""
        exact, drawn = self._all[name], self._sampled[name]
        lower, upper = drawn, drawn + self._sample_too_low
        if self._has_sample:  # Poisson, by the square root that makes its variance constant
            lower = math.floor(max(0.0, math.sqrt(lower) - _Z / 2.0) ** 2)
            upper = math.ceil((math.sqrt(upper + 1.0) + _Z / 2.0) ** 2 - 1.0)
        return CountRange(
            estimate=exact + SAMPLED * drawn,
            lower=exact + SAMPLED * lower,
            upper=exact + self._too_low + SAMPLED * upper,
        )
