"""The daemon: HTTP, components, schedule and writer, from start to an orderly end.

It ends on SIGTERM and SIGINT by itself: uvicorn would re-raise the signal, and nothing after
``serve`` would run.
"""

import asyncio
import contextlib
import gc
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog
import uvloop

from ragmon import __version__
from ragmon.alerts.message import Links
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon import http, metrics_push, service_manager
from ragmon.daemon.access import build_access
from ragmon.daemon.addresses import own_addresses
from ragmon.daemon.alerting.api import AlertApi
from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.baselines import build_baselines
from ragmon.daemon.build import build_engine
from ragmon.daemon.component import Component, Context, build_sources, loops_of
from ragmon.daemon.data_dir import make_data_dir
from ragmon.daemon.documents import LiveDocuments
from ragmon.daemon.ending import BoundedSteps, Ending, begin, ends_within
from ragmon.daemon.erasure.requests import ErasureRequests
from ragmon.daemon.erasure.retention import PipelineRetention
from ragmon.daemon.following import build_following
from ragmon.daemon.ingest.maintenance import StoreMaintenance
from ragmon.daemon.ingest.metrics import watch, watch_loops, watch_memory
from ragmon.daemon.judging.build import Judges
from ragmon.daemon.judging.judge_reports import LiveJudgeReports
from ragmon.daemon.memory_watch import MemoryWatch
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.notify.delivery import build_delivery
from ragmon.daemon.otlp import OtlpIn, build_exporter, build_source, watch_exporter
from ragmon.daemon.process_memory import default_limit
from ragmon.daemon.producing import build_topic_writer, problem_of
from ragmon.daemon.quarantine import QuarantineApi
from ragmon.daemon.schedule import Schedule
from ragmon.daemon.sections import SectionParts, build_sections
from ragmon.daemon.standby import Place
from ragmon.daemon.startable import check_startable
from ragmon.daemon.store_log import log_store
from ragmon.daemon.topic_watch import TopicWatch
from ragmon.daemon.topics.analyses import TopicAnalyses
from ragmon.errors import StoreBusyError, StoreError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervised, Supervisor
from ragmon.memory import MemoryBudget
from ragmon.sources import resolver
from ragmon.sources.kafka.producing import TopicWriter
from ragmon.web.api import RouteSection

if TYPE_CHECKING:
    from ragmon.daemon.probes.scheduler import Probes

_DRAIN_S = 3.0  # for requests, then for the queue; with all else it ends within 10 s
_STOP_S = 2.5  # for all components together
_READS_S = 0.5
_SUPERVISE_EVERY_S = 1.0


class Daemon:
    """Everything that runs; ``run`` returns when it has ended."""

    def __init__(self, settings: Settings, clock: Clock, place: Place | None = None) -> None:
        check_startable(settings, clock)  # nothing is bound, opened or written before
        self.settings = settings
        self._clock = clock
        self._log = structlog.get_logger("daemon")
        self._ending: Ending | None = None
        own = OwnMetrics()
        self._access = build_access(settings, clock, own)
        with contextlib.ExitStack() as undo:
            bound = place.socket if place else http.bind(settings.host, settings.port)
            self._socket = undo.enter_context(bound)
            opened = place.store if place else None
            self._engine = build_engine(settings, clock, own.commit_seconds.observe, opened)
            undo.callback(self._engine.store.close)
            make_data_dir(settings.data_dir)
            self._access.generate_tokens()  # in data_dir, which is this process's now
            self._supervisor = Supervisor()
            self._schedule = Schedule(clock, lambda job: own.skipped_runs.labels(job).inc())
            self._memory = MemoryBudget(settings.limits.memory or default_limit())
            self._context = self._build_context(own)
            self._maintenance = StoreMaintenance(self._engine, clock, lambda: self.ending)
            self._traces = self._build_traces()
            self.url = http.url_of(self._socket, self._access.certificates)
            self._delivery = build_delivery(self._context, self._socket.getsockname()[1])
            self._probes = self._build_probes()
            self._alerting = self._build_alerting()
            self._alerts = self._build_alert_api()
            self._monitor = LiveMonitor(
                self._engine, settings, own, clock, self._alerts.open, supervisor=self._supervisor
            )
            self._push = self._build_push()
            self._baselines = build_baselines(self._context, lambda: self._alerting.detection)
            self._exporter = build_exporter(settings)
            self._judges = Judges(self._context, self._exporter)
            traces = self._traces.source
            self._erasures = ErasureRequests(self._context, self._alerting, traces.worker)
            self._sources = build_sources(self._context, traces.logged, traces.logged_scores)
            self._topic_writer = self._build_topic_writer()
            self._quarantine = QuarantineApi(self._context, self._delivery, self._judges.retries)
            self._documents = LiveDocuments(self._engine, settings, clock, self._memory)
            self._judge_reports = LiveJudgeReports(self._context, self._judges, self._memory)
            self._topics = TopicAnalyses(self._engine, settings, clock)
            self._components = self._build_components()
            self._started: list[Component] = []
            self._server = self._build_server()
            watch(own, self._engine, settings)
            watch_memory(own, self._memory)
            watch_loops(own, self._supervisor)
            watch_exporter(own, self._exporter)
            undo.pop_all()  # nothing failed: `_end` releases it

    def run(self, ready: Callable[[str], None] | None = None) -> None:
        """Serve until told to end.

        On the main thread it takes over the signals, and ends the process itself if something
        hangs at the end.

        Args:
            ready: called once, with the URL, when everything is restored and answers.

        Raises:
            StoreBusyError: another replica took the store over, which ended this one.
        """
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(ready))
        if self._engine.store.lease.is_lost:
            raise StoreBusyError(
                "another replica has taken the store over, or its database went back to an older"
                " state",
                hint="Start it again; the log says which",
            )

    def stop(self) -> None:
        """End, from any thread."""
        self._server.should_exit = True

    @property
    def ending(self) -> bool:
        """True from when it was told to end."""
        return self._server.should_exit

    async def _serve(self, ready: Callable[[str], None] | None) -> None:
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            self._ending = Ending(self.stop, self._abort)
            self._ending.listen()
        reads = ThreadPoolExecutor(thread_name_prefix="reads")
        loop.set_default_executor(reads)
        self._supervisor.watch(self._loops)
        self._supervise(loop)
        self._engine.writer.start()
        starting = loop.create_task(self._start(ready))
        starting.add_done_callback(self._on_started)
        self._log.info("listening", url=self.url, version=__version__)
        await self._server.serve(sockets=[self._socket])
        starting.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await starting
        finally:
            ended: asyncio.Future[list[str]] = loop.create_future()
            done = resolver(ended)
            begin(lambda: done(self._end(reads)), "end")
            self._report(await ended)

    def _loops(self) -> list[Supervised]:
        """Every loop that was started."""
        groups = [loops_of(component) for component in self._started]
        own = (self._engine.writer.loop, *self._engine.store.loops)
        return [*own, *self._schedule.loops, *itertools.chain(*groups)]

    def _supervise(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start threads again that ended, for as long as the event loop runs."""
        if not self.ending:
            loop.call_later(_SUPERVISE_EVERY_S, self._supervise, loop)
            self._supervisor.revive()
            if self._engine.store.lease.is_lost:
                self._log.error("replaced", remedy="none: see lease_lost or store_went_back")
                if self._ending is not None:
                    self._ending.begin("replaced")
                self.stop()

    async def _start(self, ready: Callable[[str], None] | None) -> None:
        """Restore windows and alerts, then be ready and begin what needs them."""
        log_store(self._engine.store, self._log)
        started = self._clock.monotonic()
        counted = await self._engine.thread.ask_async(self._engine.restore)
        await self._engine.thread.ask_async(self._alerting.restore)
        took = round(self._clock.monotonic() - started, 3)
        self._log.info("restored", replayed=counted, seconds=took)
        self._access.audit.note("start", __version__)
        self._monitor.begin()
        every_s = self.settings.evaluate_every
        self._schedule.every(
            every_s,
            "evaluate",
            self._monitor.evaluate,
            stall_s=max(60.0, 3 * every_s),
            must_succeed=True,
        )
        self._maintenance.plan(self._schedule, self.settings.snapshot_every)
        self._schedule.start()
        for component in self._components:
            component.start()
            self._started.append(component)
        gc.collect()
        gc.freeze()  # what start-up made lives as long as the process
        gc.set_threshold(50_000, 20, 50)
        addresses = own_addresses(self.settings, self.url, self._traces.grpc_port)
        await asyncio.to_thread(self._engine.store.lease.announce, addresses.as_text())
        if ready is not None:
            await asyncio.to_thread(ready, self.url)

    def _on_started(self, starting: asyncio.Task[None]) -> None:
        """A daemon that cannot start ends, so that whoever started it sees that."""
        if not starting.cancelled() and (error := starting.exception()):
            self._log.error("start_failed", error=str(error))
            if self._ending is not None:
                self._ending.begin("start_failed")
            self.stop()

    def _end(self, reads: ThreadPoolExecutor) -> list[str]:
        """Drain, commit, save, close; returns what hung."""
        self._access.audit.note("stop")
        steps = BoundedSteps(_STOP_S)
        for component in reversed(self._started):
            steps.run(component.stop, type(component).__name__.lower(), loops_of(component))
        if self._monitor.restored:
            steps.run(self._schedule.stop, "schedule", ())
            with contextlib.suppress(StoreError):
                self._engine.thread.submit(self._engine.snapshot)
        if self._engine.writer.stop(_DRAIN_S):
            steps.run(self._engine.store.close, "store", ())
        else:  # on a disk that hangs; to close the store would hang as well
            self._log.error("writer_still_busy")
            steps.hung.append("writer")
        if not ends_within(reads, _READS_S):
            steps.hung.append("reads")
        self._engine.store.lease.release()  # also where the store could not be closed
        self._socket.close()
        return steps.hung

    def _report(self, hung: list[str]) -> None:
        """Log the end; what hangs would hold up the interpreter, so the process ends by force."""
        if not hung:
            self._log.info("ended")
        elif self._ending is None:
            self._log.error("hung_at_end", hung=hung)
        else:
            self._ending.force(hung)
        if self._ending is not None:
            self._ending.finish()

    def _abort(self) -> None:
        """Kill the processes that were started."""
        self._judges.abort()
        if self._probes is not None:
            self._probes.abort()

    def _build_context(self, own: OwnMetrics) -> Context:
        return Context(
            self.settings,
            self._clock,
            self._engine,
            own,
            self._schedule,
            self._access.tokens.authorizer,
            self._memory,
            self._access.audit,
        )

    def _build_server(self) -> http.Server:
        config = http.configure(
            self._context,
            self._monitor,
            self._traces.source,
            drain_s=_DRAIN_S,
            certificates=self._access.certificates,
            more=self._build_sections(),
            queries=self._topic_writer,
        )
        server = http.Server(config, self._clock.monotonic)
        limit = http.limits_of(self._context).connections
        http.watch_connections(self._context.own, server, limit)
        return server

    def _build_traces(self) -> OtlpIn:
        context = self._context
        source = build_source(
            settings=context.settings,
            limits=http.limits_of(context),
            engine=context.engine,
            own=context.own,
            authorizer=context.authorizer,
            clock=context.clock,
        )
        return OtlpIn(context.settings, source, context.authorizer, self._access.certificates)

    def _build_alert_api(self) -> AlertApi:
        links = Links(self.settings.external_url or self.url, self.settings.runbooks_url)
        return AlertApi(self._alerting, self._engine, self._clock, links)

    def _build_sections(self) -> list[RouteSection]:
        """The API besides metrics, report and queries."""
        return build_sections(
            self._context,
            SectionParts(
                access=self._access,
                monitor=self._monitor,
                supervisor=self._supervisor,
                sources=self._sources,
                delivery=self._delivery,
                alerts=self._alerts,
                baselines=self._baselines,
                judges=self._judges,
                erasures=self._erasures,
                quarantine=self._quarantine,
                documents=self._documents,
                judge_reports=self._judge_reports,
                topics=self._topics,
                traces=self._traces.source,
            ),
        )

    def _build_components(self) -> list[Component]:
        """In the order in which they start."""
        alerting = self._alerting
        return [
            MemoryWatch(self._memory, self._clock),
            *self._access.components(),
            self._delivery,
            self._alerting,
            self._baselines,
            *build_following(self._engine, self.settings, self._clock, self._context.own, alerting),
            *self._sources,
            *((self._topic_writer,) if self._topic_writer is not None else ()),
            self._traces,
            self._erasures,
            PipelineRetention(self._context, self._erasures.evidence),
            *((self._exporter,) if self._exporter is not None else ()),
            self._judges,
            self._topics,
            TopicWatch(self._context, self._topics),
            *((self._push,) if self._push is not None else ()),
            *((self._probes,) if self._probes is not None else ()),
            *service_manager.build(lambda: [*self._server.hanging(), *self._monitor.stalled()]),
        ]

    def _build_topic_writer(self) -> TopicWriter | None:
        writer = build_topic_writer(self._context)
        if writer is not None:
            self._monitor.ask_also(problem_of(writer))
        return writer

    def _build_push(self) -> metrics_push.MetricsPush | None:
        return metrics_push.build(
            self.settings.metrics.otlp,
            self._monitor.families,
            self._context.own,
            self._clock,
            data_dir=self.settings.data_dir,
            port=self._socket.getsockname()[1],
        )

    def _build_probes(self) -> "Probes | None":
        """Golden sets on a schedule; without any, nothing of the evaluation is even imported."""
        if not self.settings.probes:
            return None
        from ragmon.daemon.probes import scheduler  # noqa: PLC0415 - see above

        return scheduler.build(self._context)

    def _build_alerting(self) -> Alerting:
        if self._probes is None:
            return Alerting(self._context, self._delivery)
        return Alerting(self._context, self._delivery, other_findings=self._probes.findings)
