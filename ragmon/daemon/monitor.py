"""Metrics, reports and queries of a running engine.

Every answer includes what was acknowledged before it was asked for.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import structlog
from msgspec.structs import asdict

from ragmon import report
from ragmon.alerts.as_json import AlertView
from ragmon.api_schema import QueryDetail, QueryList, Report
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.units import seconds
from ragmon.content_coding import choose_coding
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.metric_choice import metric_choice, shown_windows
from ragmon.daemon.query_reads import QueryReads
from ragmon.daemon.read_deadline import read_deadline
from ragmon.daemon.shown_series import SHOWN, ShownSeries
from ragmon.durations import duration_text
from ragmon.exposition import RenderedPage, Renderers
from ragmon.exposition.bounded import KINDS, BoundedFamilies, Collected, capped, size
from ragmon.exposition.negotiation import Format, choose_format
from ragmon.exposition.own import OwnMetrics
from ragmon.exposition.protobuf import ProtobufRenderer
from ragmon.exposition.text import Family
from ragmon.loops import Supervisor, instant
from ragmon.nearby import NearbyQueries
from ragmon.web.parameters import QuerySelection
from ragmon.windows import Merged
from ragmon.windows.series import SeriesKey
from ragmon.windows.snapshot import SavedBucket, add_saved

_log = structlog.get_logger("metrics")

_ANSWER_S = 10.0  # of the writer to a scrape, which waits no longer
_NOT_READY_S = 15.0  # without a turn of the writer
_OWN_ROOM = 1.2  # for ragmon's own series, of what they were: they grow between two evaluations
_REST = 5  # times as long as rendering the page took, before it is rendered again
_LONGEST_REST_S = 2.0  # of a scrape, which Prometheus gives up after ten seconds


class FamilyGroups(NamedTuple):
    """Everything that ``/metrics`` shows."""

    windows: Sequence[Family]  # counted since the store began
    own: Sequence[Family]  # counted since the process began


class _Page(NamedTuple):
    version: int
    rendered_at: float  # monotonic
    took_s: float
    rendered: RenderedPage
    series: int


def rest_s(took_s: float, age_s: float) -> float:
    """Time until a page is rendered again.

    Args:
        took_s: the last rendering.
        age_s: since then.
    """
    return max(0.0, min(took_s * _REST, _LONGEST_REST_S) - age_s)


def _without_windows(form: Format, coding: str) -> RenderedPage:
    page = RenderedPage((), Renderers(ProtobufRenderer(), ProtobufRenderer()))
    page.prepare(form, coding)
    return page


class LiveMonitor:
    """Implements ``ragmon.web.api.Monitor``."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        own: OwnMetrics,
        clock: Clock,
        open_alerts: Callable[[str], list[AlertView]],
        *,
        supervisor: Supervisor,
    ) -> None:
        """Make it; before ``begin`` it answers that ragmon is not ready.

        Args:
            engine: of the daemon.
            settings: of the daemon.
            own: the daemon's metrics of itself.
            clock: of the daemon.
            open_alerts: those of a pipeline, or of all (``""``), as the report shows them.
            supervisor: of all loops.
        """
        self._engine = engine
        self._settings = settings
        self._own = own
        self._clock = clock
        self._choice = metric_choice(settings)
        self._shows = functools.cache(self._choice.shows)  # of ragmon's own names, which are few
        self._bounded = BoundedFamilies(
            engine.windows, self._choice, shown_windows(settings), settings.metrics.max_series
        )
        self._shown = ShownSeries(settings.data_dir / SHOWN, clock)
        self._withheld = dict.fromkeys(KINDS, 0)
        self._own_series = 0  # most of ragmon's own so far
        own.watch_each(
            "ragmon_series_withheld",
            "Series left out of /metrics because metrics.max_series is reached, by kind, the least"
            " important last; above 0, raise it or choose fewer. Reports and alerts have all.",
            "kind",
            lambda: self._withheld,
        )
        self._page: _Page | None = None
        self._one_render = threading.Lock()  # evaluation, scrapes and export have threads each
        self._renderers = Renderers(ProtobufRenderer(), ProtobufRenderer())
        self._rendering = asyncio.Lock()
        self._open_alerts = open_alerts
        self._supervisor = supervisor
        self._queries = QueryReads(engine, settings, clock)
        self._others: list[Callable[[], list[str]]] = []
        self.restored = False

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def begin(self) -> None:
        """Be ready, since the windows are restored."""
        own = [family.name for family in self._own.families()]
        for glob in self._bounded.unmatched(own):
            _log.warning("no_metric_matches", setting=glob, remedy="see the names in /metrics")
        shown = self._shown.load()
        if shown is not None:
            with self._one_render:
                self._bounded.budget.restore(shown, self._clock.now())
        self.restored = True

    def evaluate(self) -> None:
        """Evaluate every window and keep the page; called on schedule."""
        self._own_families(0)
        started = self._clock.monotonic()
        collected = self._engine.thread.ask(self._collect)
        self._render(collected, started)
        with self._one_render:
            shown = self._bounded.budget.state
        self._shown.save(shown)

    def families(self) -> FamilyGroups:
        """Everything that the page shows; called on a thread of its own."""
        kept = self._page
        if kept is None or not self._is_fresh(kept):
            started = self._clock.monotonic()
            kept = self._render(self._engine.thread.ask(self._collect), started)
        is_held = self._engine.store.lease.is_held
        windows = kept.rendered.families if is_held else ()
        return FamilyGroups(windows, self._own_families(kept.series))

    async def metrics(
        self, accept: str, accept_encoding: str
    ) -> tuple[tuple[bytes, ...], dict[str, str]]:
        """The page for Prometheus in parts, and its headers.

        Without the lease only what ragmon says of itself: another process may count meanwhile.
        """
        form, coding = choose_format(accept), choose_coding(accept_encoding)
        async with self._rendering:
            kept = self._page
            if kept is None or not self._is_fresh(kept):
                if kept is not None:
                    age = self._clock.monotonic() - kept.rendered_at
                    await asyncio.sleep(rest_s(kept.took_s, age))
                started = self._clock.monotonic()
                collected = await self._engine.thread.ask_async(self._collect, _ANSWER_S)
                kept = await asyncio.to_thread(self._render, collected, started)
            if not kept.rendered.has(form, coding):
                await asyncio.to_thread(kept.rendered.prepare, form, coding)
        headers = {"content-type": form.content_type, "vary": "Accept, Accept-Encoding"}
        if coding:
            headers["content-encoding"] = coding
        is_held = self._engine.store.lease.is_held
        rendered = kept.rendered if is_held else _without_windows(form, coding)
        return rendered.answer(form, coding, self._own_families(kept.series)), headers

    async def report(
        self,
        window: str,
        pipeline: str,
        end: float | None = None,
        readable: Callable[[str], bool] | None = None,
    ) -> Report:
        """The report of one window that ends now, or at ``end``, over what may be read.

        Raises:
            ValueError: the window is no duration, or longer than what is kept.
        """
        length = seconds(window)
        most = self._settings.retention.windows
        if not isinstance(length, float) or not 10 <= length <= most:
            raise ValueError(f"window: {window!r} is not between 10s and {duration_text(most)}")
        windows, now = self._engine.windows, self._clock.now()
        end = now if end is None else min(end, now)
        coarsest = windows.tiers[-1]
        held_since = now - coarsest.width_s * (coarsest.slots - 2)
        start = max(end - length, held_since)
        merged, keys = await self._engine.thread.ask_async(
            lambda: (
                windows.merge(max(0.0, end - start), now, None if end == now else end),
                dict(windows.series.keys),
            )
        )
        if end - length < held_since:
            older = functools.partial(self._longer, end - length, min(end, held_since))
            merged, keys = await asyncio.to_thread(older, merged, keys)
        if readable is not None:
            keys = {key: number for key, number in keys.items() if readable(key.pipeline)}
        figures = await asyncio.to_thread(report.build, merged, keys, windows.columns, pipeline)
        alerts = self._open_alerts(pipeline)
        return Report(
            window=window,
            window_seconds=length,
            start=end - length,
            to=end,
            watermark=windows.watermark or None,
            alerts=[view for view in alerts if readable is None or readable(view.pipeline)],
            **asdict(figures),
        )

    def _longer(
        self, start: float, end: float, merged: Merged, keys: dict[SeriesKey, int]
    ) -> tuple[Merged, dict[SeriesKey, int]]:
        """The window with the coarsest saved buckets from ``start`` up to, without, ``end``'s."""
        windows = self._engine.windows
        tier = len(windows.tiers) - 1
        width = windows.tiers[tier].width_s
        first, last = int(start // width), int(end // width) - 1
        check = self._deadline()

        def checked(buckets: Iterable[SavedBucket]) -> Iterator[bytes]:
            for bucket in buckets:
                check()
                yield bucket.body

        with self._engine.store.reader() as reader:
            saved = checked(reader.saved_buckets(tier, first, last))
            return add_saved(merged, keys, saved, windows.columns)

    async def queries(self, selection: QuerySelection) -> QueryList:
        """A page of the queries that fit, of the pipelines that may be read.

        Raises:
            ValueError: the selection names something unknown.
        """
        return await self._queries.listed(selection)

    def export(self, selection: QuerySelection, form: str) -> AsyncIterator[bytes]:
        """All queries that fit, of the pipelines that may be read, as parts of a file."""
        return self._queries.export(selection, form)

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query by its id; None when it is not stored."""
        return await self._queries.one(query_id)

    async def neighbours(self, query: QueryDetail) -> NearbyQueries:
        """Queries of its session, and earlier ones of its question, as far as they are near."""
        return await self._queries.neighbours(query.record)

    def _deadline(self) -> Callable[[], None]:
        hint = "Ask for less: a later since, an earlier until or one failure"
        return read_deadline(self._clock, self._settings.limits.query_timeout, hint)

    def ask_also(self, problems: Callable[[], list[str]]) -> None:
        """Have something else say why ragmon is not ready."""
        self._others.append(problems)

    def problems(self) -> list[str]:
        """Reasons why ragmon is not ready; none when it is."""
        if not self.restored:
            return ["rebuilding the windows from the store"]
        if not self._engine.store.lease.is_held:
            return ["the lease of the store is not renewed: another replica may take over"]
        writer = self._engine.writer
        if ended := self._ended():
            return [ended]
        if hung := writer.loop.heartbeat.problem(_NOT_READY_S):
            return [hung]
        if (error := writer.last_error) is not None:
            return [f"{error} (since {instant(writer.failing_since)})"]
        return [problem for others in self._others for problem in others()]

    def quarantined(self) -> int:
        """Number of entries in quarantine, without notifications."""
        return sum(self._engine.quarantine.counts.values())

    def stalled(self) -> list[str]:
        """Loops that have ended or hang, and since when; none when all is well."""
        ended = self._ended()
        return [*([ended] if ended else []), *self._supervisor.stalled()]

    def _ended(self) -> str:
        writer = self._engine.writer
        if writer.alive:
            return ""
        return f"loop writer has ended (last turn {instant(writer.loop.heartbeat.last_at)})"

    def _is_fresh(self, kept: _Page) -> bool:
        age = self._clock.monotonic() - kept.rendered_at
        unchanged = kept.version == self._engine.writer.stats.version
        return unchanged and age < self._settings.evaluate_every

    def _collect(self) -> tuple[int, Collected]:
        engine, now = self._engine, self._clock.now()
        collected = self._bounded.collect(engine.exemplars.latest, now)
        return engine.writer.stats.version, collected

    def _render(self, collected: tuple[int, Collected], started: float) -> _Page:
        version, copied = collected
        with self._one_render:
            shown = self._bounded.families(copied, round(_OWN_ROOM * self._own_series))
        self._withheld |= shown.withheld
        rendered = RenderedPage(shown.families, self._renderers)
        done = self._clock.monotonic()
        self._own.evaluated_at.set(self._clock.now())
        self._own.evaluation_seconds.set(done - started)
        self._page = _Page(version, done, done - started, rendered, size(shown.families))
        return self._page

    def _own_families(self, others: int) -> list[Family]:
        """Ragmon's metrics of itself; what there is no room for is left out from the next on."""
        chosen = [family for family in self._own.families() if self._shows(family.name)]
        kept, withheld = capped(chosen, self._settings.metrics.max_series - others)
        self._own_series = max(self._own_series, size(kept))
        self._withheld["own"] = withheld
        return kept
