"""Baselines: made from live traffic or from an evaluation run, kept in versions, promoted.

A promoted baseline of traffic is what ``regression`` compares with; one of a golden run is what
``ragmon gate`` compares other golden runs with. The two are never compared with one another:
they are answers to different questions.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from ragmon.api_schema import (
    ActiveBaseline,
    BaselineDetail,
    BaselineList,
    BaselineRequest,
    LevelView,
)
from ragmon.clock import Clock
from ragmon.config.units import seconds
from ragmon.daemon.component import Context
from ragmon.detectors.baselines import Baseline, from_log, levels
from ragmon.detectors.detection import Detection
from ragmon.detectors.minutes import MinuteLog
from ragmon.detectors.streams import StreamTable
from ragmon.exposition.baselines import BaselineMetrics
from ragmon.stores.protocols import BaselineRow, Baselines
from ragmon.threads import OnWriter

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA = "ragmon/evaluation/"
_LEAST_S = 3_600.0


class NoTrafficError(ValueError):
    """Nothing to make a baseline of."""


class Minutes(NamedTuple):
    """Minutes of traffic that baselines are made of."""

    log: MinuteLog
    streams: StreamTable


class _Metric(Struct):
    name: str
    mean: float


class _Run(Struct):
    """The fields read of what ``ragmon evaluate --json`` wrote."""

    schema: str
    name: str
    created_at: float
    metrics: list[_Metric]
    cases: list[msgspec.Raw]


class BaselineService:
    """Baselines of one store, used on the thread that owns the store."""

    def __init__(
        self,
        saved: Baselines,
        minutes: Callable[[], Minutes],
        use: Callable[[Baseline | None], None] = lambda _: None,
    ) -> None:
        """Make it; nothing is read yet.

        Args:
            saved: by the store.
            minutes: of the traffic so far.
            use: called with the baseline that traffic is to be compared with from now on.
        """
        self._saved = saved
        self._minutes = minutes
        self._use = use

    def rows(self) -> list[BaselineRow]:
        """Every version of every baseline, the newest first."""
        return self._saved.rows()

    def find(self, name: str, version: int | None = None) -> tuple[BaselineRow, bytes] | None:
        """One version; None: the promoted one, else the newest."""
        return self._saved.find(name, version)

    def keep_window(self, name: str, length_s: float, now: float, by: str) -> BaselineRow:
        """Save what the last stretch of traffic looked like, incidents excluded.

        Raises:
            ValueError: no good name, or too short a time.
            NoTrafficError: no traffic in that time.
        """
        _check_name(name)
        if length_s < _LEAST_S:
            raise ValueError("from: a baseline needs at least 1h of traffic")
        log, streams = self._minutes()
        last = max(log.frontier, 0)
        first = max(last - int(length_s // 60), log.oldest())
        baseline = from_log(log, streams, name, first=first, last=last, now=now)
        if not baseline.streams:
            raise NoTrafficError("from: there was no traffic in that time")
        row = BaselineRow(
            name=name,
            kind="traffic",
            created_at=now,
            created_by=by,
            provenance=baseline.provenance,
            samples=_queries(baseline),
        )
        return self._saved.add(row, msgspec.msgpack.encode(baseline))

    def keep_run(self, name: str, run: bytes, now: float, by: str) -> BaselineRow:
        """Save a golden run.

        Args:
            name: of the baseline.
            run: JSON of ``ragmon evaluate --json``.
            now: unix seconds.
            by: who saves it.

        Raises:
            ValueError: no good name, or no evaluation.
        """
        _check_name(name)
        try:
            decoded = msgspec.json.decode(run, type=_Run)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValueError(f"run: is no evaluation: {error}") from None
        if not decoded.schema.startswith(_SCHEMA) or not decoded.cases:
            raise ValueError("run: must be what `ragmon evaluate --json` wrote, with cases")
        row = BaselineRow(
            name=name,
            kind="golden",
            created_at=now,
            created_by=by,
            provenance=f"run {decoded.name}, {len(decoded.metrics)} metrics",
            samples=float(len(decoded.cases)),
        )
        return self._saved.add(row, run)

    def promote(self, name: str, version: int | None = None) -> BaselineRow:
        """Compare with this one from now on; None: with the newest version.

        Raises:
            KeyError: there is none.
        """
        named = [row for row in self._saved.rows() if row.name == name]
        versions = [row for row in named if version in (None, row.version)]
        if not versions:
            raise KeyError(name)
        row = max(versions, key=lambda each: each.version)
        self._saved.promote(row)
        if row.kind == "traffic":
            self.apply()
        return msgspec.structs.replace(row, promoted=True)

    def delete(self, name: str, version: int | None = None) -> int:
        """Forget one version, or all; returns how many.

        Raises:
            KeyError: there is none.
        """
        before = self._saved.promoted("traffic")
        count = self._saved.delete(name, version)
        if not count:
            raise KeyError(name)
        if before is not None:  # else the first days go on being what is normal
            self.apply()
        return count

    def resume(self, active: Baseline | None) -> None:
        """After a restart: what was promoted or deleted meanwhile counts now.

        Args:
            active: what traffic was compared with before; the first days stay until another is
                promoted.
        """
        promoted = self.promoted()
        if promoted is not None or (active is not None and not active.learned):
            self._use(promoted)

    def apply(self) -> None:
        """Have traffic compared with the promoted baseline, or with none."""
        self._use(self.promoted())

    def promoted(self) -> Baseline | None:
        """The promoted baseline of traffic; None without one."""
        saved = self._saved.promoted("traffic")
        return None if saved is None else decode(*saved)


def decode(row: BaselineRow, body: bytes) -> Baseline:
    """A saved baseline of traffic."""
    baseline = msgspec.msgpack.decode(body, type=Baseline)
    versioned = f"{row.name} v{row.version}" if row.version > 1 else row.name
    return msgspec.structs.replace(baseline, name=versioned)


def describe(row: BaselineRow, body: bytes) -> BaselineDetail:
    """One baseline with its levels, or with the evaluation that it was made of."""
    if row.kind == "golden":
        return BaselineDetail(**asdict(row), run=msgspec.Raw(body))
    views = [
        LevelView(**level.stream._asdict(), what=level.what, level=level.value, n=level.n)
        for level in levels(decode(row, body))
    ]
    return BaselineDetail(**asdict(row), levels=views)


def listed(service: BaselineService, active: Baseline | None) -> BaselineList:
    """Every version of every baseline; to be called on the thread of the store.

    Args:
        service: over the store.
        active: the baseline that traffic is compared with now.
    """
    used = None
    if active is not None:
        used = ActiveBaseline(name=active.name, provenance=active.provenance)
    return BaselineList(baselines=service.rows(), active=used)


def _queries(baseline: Baseline) -> float:
    return sum(
        cell[0]
        for saved in baseline.streams
        if saved.stream.metric == "traffic" and not saved.stream.dimension and saved.stream.pipeline
        for cell in saved.cells
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: {name[:100]!r} is not letters, digits, dots, dashes, underscores")


class LiveBaselines:
    """Baselines of a running daemon, asked from the event loop: a ``BaselineSource``."""

    def __init__(
        self,
        service: OnWriter[BaselineService],
        active: Callable[[], Baseline | None],
        clock: Clock,
    ) -> None:
        """Nothing is asked of the store yet.

        Args:
            service: over the daemon's store.
            active: the baseline that traffic is compared with now, also one that nobody saved.
            clock: of the daemon.
        """
        self._service = service
        self._active = active
        self._clock = clock

    def start(self) -> None:
        """After the detectors are restored: compare with what is promoted."""
        self._service.submit(lambda service: service.resume(self._active()))

    def stop(self) -> None:
        """Nothing to end."""

    async def baselines(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        return await self._service.ask_async(lambda service: listed(service, self._active()))

    async def baseline(self, name: str, version: int | None) -> BaselineDetail:
        """One version with its levels or its run.

        Raises:
            KeyError: there is none.
        """
        saved = await self._service.ask_async(lambda service: service.find(name, version))
        if saved is None:
            raise KeyError(name)
        return describe(*saved)

    async def keep_baseline(self, name: str, request: BaselineRequest) -> BaselineRow:
        """Save another version.

        Raises:
            ValueError: it cannot be made.
        """
        now, by, run = self._clock.now(), request.by[:256], bytes(request.run)
        length_s = seconds(request.window) if request.window else 0.0

        def keep(service: BaselineService) -> BaselineRow:
            if run:
                row = service.keep_run(name, run, now, by)
            else:
                row = service.keep_window(name, length_s, now, by)
            return service.promote(name, row.version) if request.promote else row

        return await self._service.ask_async(keep)

    async def promote_baseline(self, name: str, version: int | None) -> BaselineRow:
        """Compare with this one from now on.

        Raises:
            KeyError: there is none.
        """
        return await self._service.ask_async(lambda service: service.promote(name, version))

    async def delete_baseline(self, name: str, version: int | None) -> int:
        """Forget one version, or all.

        Raises:
            KeyError: there is none.
        """
        return await self._service.ask_async(lambda service: service.delete(name, version))


def build_baselines(context: Context, detection: Callable[[], Detection]) -> LiveBaselines:
    """Over the store of a daemon and its detectors.

    Args:
        context: of the daemon.
        detection: the detectors in force.
    """

    def minutes() -> Minutes:
        detectors = detection()
        return Minutes(detectors.log, detectors.streams)

    def use(baseline: Baseline | None) -> None:
        detection().use_baseline(baseline)

    def active() -> Baseline | None:
        return detection().baseline

    engine = context.engine
    context.own.registry.register(BaselineMetrics(active))
    service = BaselineService(engine.state.baselines(), minutes, use)
    return LiveBaselines(engine.thread.bind(service), active, context.clock)
