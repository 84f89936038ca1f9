"""All detectors over all streams: observations in, findings of each closed minute out.

The same calls serve live traffic, a backfill and a finished log: ``alerts.timeline`` says how far
time has come.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.detectors import DetectorState, Finding, Rescalable, Resumable, StreamKey, Tick
from ragmon.detectors.arrays import Bools, Floats, Ints
from ragmon.detectors.baselines import Baseline, from_log
from ragmon.detectors.core import Charts
from ragmon.detectors.days import EVERYWHERE, Calendar
from ragmon.detectors.expected_band import ExpectedBand, Scatter, expected_band
from ragmon.detectors.latencies import LatencyEdges
from ragmon.detectors.losses import LossMap, cells
from ragmon.detectors.minutes import TEN, MinuteLog, SavedMinute
from ragmon.detectors.references import ReferenceOptions, References
from ragmon.detectors.rules import Rule
from ragmon.detectors.streams import StreamTable
from ragmon.windows.moments import group
from ragmon.windows.observations import Observations

FORGET_DAYS = 8
_PARTS = 9  # in which the streams learn from the hour that is over, a part a minute
_MOST_SPREAD = 4_096  # pairs of dims and minute at once: some 10 MB
_LATENCY_NAMES = ("latency", "latency_p50")
_REFERENCES = ReferenceOptions()


class _Saveable(Protocol):
    def dump(self) -> bytes: ...

    def load(self, data: bytes) -> None: ...


_Saved = tuple[list[bytes], list[tuple[str, bytes]], int, Baseline | None]


class DetectionOptions(Struct, frozen=True, kw_only=True):
    """Settings that all detectors share."""

    false_alarms_per_month: float = 1.0
    lag_s: float = 20.0  # a minute is judged this long after its end; traces take 15 s
    delta: float = _REFERENCES.delta
    z: float = _REFERENCES.z
    max_streams: int = 2_000
    calendar: Calendar = EVERYWHERE
    first_days: int = 3  # are the baseline until one is saved, so that a slow drift is seen; 0: no


class Closed(Struct, frozen=True):
    """Findings of one minute."""

    minute: int
    findings: tuple[Finding, ...]

    @property
    def now(self) -> float:
        """The end of the minute, unix seconds."""
        return (self.minute + 1) * 60.0


class Detection:
    """The log, the references and every detector's state."""

    def __init__(
        self,
        columns: Sequence[str],
        rules: Sequence[Rule],
        options: DetectionOptions | None = None,
    ) -> None:
        """Begin with nothing.

        Args:
            columns: keys of the observation columns.
            rules: in any order.
            options: settings that all rules share.
        """
        self.options = options or DetectionOptions()
        self.log = MinuteLog()
        self._losses = LossMap(columns)
        self.streams = StreamTable(self.options.max_streams, self._losses.metrics)
        self.references = References()
        self.latencies = LatencyEdges()
        self.baseline: Baseline | None = None
        self._rules = [(rule, rule.kind.build(rule.options)) for rule in rules]
        self._settled = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Keys of the observation columns."""
        return self._losses.columns

    @property
    def rules(self) -> list[Rule]:
        """Every rule, in the order of the settings."""
        return [rule for rule, _ in self._rules]

    def begin(self, now: float) -> None:
        """Judge from now on; what is older is history."""
        self.log.begin(int(now // 60))

    def fold(self, observations: Observations) -> None:
        """Count new records, at most an hour ahead of the minute under judgement."""
        self._fold(observations, None)

    def restate(self, old: Observations, new: Observations) -> None:
        """Count what became known of records that were counted as ``old``."""
        self._fold(new, old)

    def add(self, key: StreamKey, minutes: Ints, added: Floats) -> None:
        """Count cells (m, 3) of one stream, such as arrivals by source."""
        row = self.streams.row(key)
        if row >= 0 and len(minutes):
            self.add_cells(minutes, np.full(len(minutes), row), added)

    def add_cells(
        self, minutes: Ints, rows: Ints, added: Floats, first: Bools | None = None
    ) -> None:
        """Count cells of many streams.

        Args:
            minutes: (m,) unix minutes.
            rows: (m,) of ``streams``.
            added: (m, 3) cells.
            first: (m,) false for changes of mind, which are history only.
        """
        self._grow()
        self.streams.seen(rows, minutes)
        new = np.ones(len(rows), dtype=np.bool_) if first is None else first
        self.log.add(minutes, rows, added, new)

    def due(self, now: float) -> int:
        """The minute up to which everything is to be judged at a moment; exclusive."""
        return int((now - self.options.lag_s) // 60)

    def advance(self, until: int) -> Iterator[Closed]:
        """Judge every minute before ``until``, in order."""
        if self.log.frontier < 0:
            self.log.begin(until)
        while self.log.frontier < until:
            yield self._minute()

    def resume(self, now: float) -> None:
        """The monitor was away: go on now, and take its own absence for no silence."""
        self.log.begin(self.due(now))
        for _, state in self._rules:
            if isinstance(state, Resumable):
                state.resume()

    def use_baseline(self, baseline: Baseline | None) -> None:
        """Compare with another baseline, or with none, from the next minute on."""
        self.baseline = baseline

    def dump(self) -> bytes:
        """Everything but the buckets of the log, which ``log.dump_dirty`` saves."""
        rules = [(name, state.dump()) for name, state in self._by_name().items()]
        parts = [part.dump() for part in self._parts()]
        return msgspec.msgpack.encode((parts, rules, self._settled, self.baseline))

    def load(self, data: bytes, buckets: Sequence[SavedMinute]) -> None:
        """Continue where ``dump`` was taken, with the buckets saved until then."""
        parts, rules, self._settled, self.baseline = msgspec.msgpack.decode(data, type=_Saved)
        for part, body in zip(self._parts(), parts, strict=True):
            part.load(body)
        for saved in buckets:
            self.log.load_bucket(saved)
        states = self._by_name()
        for name, body in rules:
            if name in states:
                states[name].load(body)
        for state in states.values():
            state.grow(len(self.streams))  # rules that are new, or were changed, begin anew

    def _parts(self) -> tuple["_Saveable", ...]:
        return (self.streams, self.log, self.references, self.latencies)

    def _by_name(self) -> dict[str, DetectorState]:
        """The state of each rule by kind, metric and name, whatever the order of the rules."""
        states: dict[str, DetectorState] = {}
        for rule, state in self._rules:
            name = " ".join(filter(None, (rule.kind.KIND, rule.metric, rule.name)))
            same = sum(other.partition("#")[0] == name for other in states)
            states[f"{name}#{same}" if same else name] = state
        return states

    def _fold(self, new: Observations, old: Observations | None) -> None:
        if not len(new):
            return
        minutes = new.timestamps.astype(np.int64) // 60
        pipelines, of = _pipelines(new)
        edges = self.latencies.thresholds_ms(pipelines, of, minutes)
        added = cells(self._losses.losses(new.values, edges))
        if old is not None:
            added = added - cells(self._losses.losses(old.values, edges))
        which = new.dim_index.astype(np.int64)
        at, sums = group(which << 40 | minutes, added.reshape(len(added), -1))
        self._spread(new, minutes[at], which[at], sums.reshape(len(at), -1, 3))
        if old is None:
            watched = [StreamKey(name, "traffic") in self.streams.rows for name in pipelines]
            known = np.array(watched)[of]  # their number is bounded
            known &= self._losses.repeats(new.values) == 0.0
            latency = self._losses.latency_ms(new.values)
            self.latencies.observe(pipelines, of[known], minutes[known], latency[known])

    def _spread(self, new: Observations, minutes: Ints, dims: Ints, sums: Floats) -> None:
        """Add the sums of each (dims, minute) to the streams they belong to."""
        losses = len(self._losses.metrics)
        for at in range(0, len(minutes), _MOST_SPREAD):
            part = slice(at, at + _MOST_SPREAD)
            changed: Bools = np.asarray(sums[part].any(axis=2), dtype=np.bool_)
            members = self.streams.members(new.dims, new.slices, dims[part], changed)
            counted = np.flatnonzero(changed[:, None] & (members >= 0))
            pair, loss = counted // members[0].size, counted % losses
            values = sums[part].reshape(-1, 3)[pair * losses + loss]
            first = (values[:, 0] > 0.0) | self._losses.weighted[loss]
            rows = members.reshape(-1)[counted].astype(np.int64)
            self.add_cells(minutes[part][pair], rows, values, first)

    def _minute(self) -> Closed:
        minute = self.log.frontier
        taken = self.log.take()
        self.references.observe(taken)
        renewed = minute % TEN == 0
        if minute % 60 == 0:
            self._close_hour(minute // 60 - 1)
        part = minute % 60 - 1
        if 0 <= part < _PARTS:  # of the streams, when little else is to be done
            rows = slice(part, None, _PARTS)
            self.references.close_hour(
                self.log, minute // 60 - 1, self._incidents(), rows, self.options.calendar
            )
        if renewed:
            self._refresh(minute)
        total = self.options.false_alarms_per_month
        tick = Tick(
            minute=minute,
            log=self.log,
            streams=self.streams,
            cells=taken,
            references=self.references,
            renewed=renewed,
            settled=self._settled,
            allowed=total / self._sharing(),
            total=total,
            baseline=self.baseline,
            calendar=self.options.calendar,
            z=self.options.z,
            delta=self.options.delta,
            latencies=self.latencies,
        )
        findings = [
            finding for rule, state in self._rules for finding in rule.kind.step(state, tick)
        ]
        return Closed(minute, tuple(sorted(findings, key=lambda each: each.alert)))

    def _sharing(self) -> int:
        """Number of kinds that share the allowance; a regression needs a baseline."""
        kinds = {rule.kind.KIND for rule, _ in self._rules}
        return max(1, ("anomaly" in kinds) + ("regression" in kinds and self.baseline is not None))

    def _close_hour(self, hour: int) -> None:
        for pipeline in self.latencies.close_hour(hour):
            stale = [
                row
                for key, row in self.streams.rows.items()
                if key.pipeline == pipeline and key.metric in _LATENCY_NAMES
            ]
            self._clear(stale, rescaled=True)  # another threshold is another stream
        if self.baseline is None and self.options.first_days:
            self._take_first_days()
        if hour % 24 == 0:
            self._clear(self.streams.forget((hour - FORGET_DAYS * 24) * 60))

    def _take_first_days(self) -> None:
        """Keep the first days: what fades slowly looks normal to its own recent past."""
        first, days = self.log.oldest(), self.options.first_days
        last = self.log.frontier - 1
        if last - first >= days * 1_440:
            name = f"the first {days} days" if days > 1 else "the first day"
            self.baseline = from_log(
                self.log, self.streams, name, first=first, last=last, now=last * 60.0
            )

    def expected(self, key: StreamKey, tens: Ints) -> ExpectedBand | None:
        """The losses of a stream that are ordinary; None where it is not watched.

        Args:
            key: of the stream.
            tens: (m,) numbers of ten-minutes, at least one.
        """
        row = self.streams.rows.get(key)
        if row is None or row >= len(self.references.ready):
            return None
        scatter = Scatter(
            float(self.references.spread[row]),
            float(self.references.phi[row]),
            self.references.level_error(slice(row, row + 1)),
        )
        return expected_band(self.log, row, tens, scatter, self._reference_options())

    def _reference_options(self) -> ReferenceOptions:
        return ReferenceOptions(self.options.delta, self.options.z, self.options.calendar)

    def _refresh(self, minute: int) -> None:
        self.references.refresh(
            self.log,
            minute,
            self.streams.binary,
            self._incidents(),
            self._reference_options(),
            first=self.streams.first_minute,
        )
        self._settled = max(self.streams.rows.values(), default=-1) + 1

    def _incidents(self) -> Bools:
        """Streams that some detector holds an incident open for."""
        incidents = np.zeros(len(self.streams), dtype=np.bool_)
        for _, state in self._rules:
            if isinstance(state, Charts):
                incidents |= state.open
        return incidents

    def _clear(self, rows: Sequence[int], *, rescaled: bool = False) -> None:
        if not rows:
            return
        self.log.clear(list(rows))
        self.references.clear(list(rows))
        for _, state in self._rules:
            if rescaled and isinstance(state, Rescalable):
                state.rescale(rows)
            else:
                state.clear(rows)

    def _grow(self) -> None:
        """Every array holds every stream."""
        size = len(self.streams)
        if len(self.log) == size:
            return
        self.log.grow(size)
        self.references.grow(size)
        for _, state in self._rules:
            state.grow(size)


def totals(streams: StreamTable, sums: Floats) -> Mapping[StreamKey, tuple[float, float, float]]:
    """Cells (streams, 3) by key, where there are observations."""
    return {
        key: (float(sums[row, 0]), float(sums[row, 1]), float(sums[row, 2]))
        for key, row in streams.rows.items()
        if sums[row, 0] > 0.0
    }


def _pipelines(observations: Observations) -> tuple[list[str], Ints]:
    """The distinct pipelines, and for each record which of them it has, (n,)."""
    distinct = sorted({dims[0] for dims in observations.dims})
    number = {name: at for at, name in enumerate(distinct)}
    of_dims = np.array([number[dims[0]] for dims in observations.dims], dtype=np.int64)
    return distinct, of_dims[observations.dim_index]
