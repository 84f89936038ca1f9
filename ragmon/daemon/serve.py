"""The daemon: HTTP, sources, schedule and writer, from start to an orderly end.

It ends on SIGTERM and SIGINT by itself: uvicorn would re-raise the signal, and nothing after
``serve`` would run.
"""

import asyncio
import contextlib
import gc
import itertools
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import structlog
import uvicorn
import uvloop

from ragmon import __version__
from ragmon.asgi import App, Limits, Receive, Scope, Send
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon import grounding
from ragmon.daemon.build import build_engine, check_exposure, grants, resolve
from ragmon.daemon.lock import DirectoryLock
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.otlp import OtlpIn, build_exporter, build_source, judged
from ragmon.daemon.schedule import Schedule
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.records import QueryRecord, Verdict
from ragmon.sources import Context, Source
from ragmon.sources.http import ENDPOINTS, HttpSource, Options
from ragmon.sources.otlp import source as otlp
from ragmon.web.api import Api
from ragmon.web.auth import Authorizer
from ragmon.web.protocol import bounded_protocol

_DRAIN_S = 3.0  # for requests, then for the queue; with all else it ends within 10 s
_EXPIRE_EVERY_S = 30.0
_COMPACT_EVERY_S = 20.0
_COMPACT_STEPS = 200


class Daemon:
    """Everything that runs; ``run`` returns when it has ended."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        check_exposure(settings)
        self.settings = settings
        self._clock = clock
        self._log = structlog.get_logger("daemon")
        self._authorizer = Authorizer(grants(settings))
        self._own = OwnMetrics()
        with contextlib.ExitStack() as undo:
            self._socket = undo.enter_context(_bind(settings.host, settings.port))
            self._lock = DirectoryLock(settings.data_dir)
            undo.callback(self._lock.release)
            self._engine = build_engine(settings, clock)
            undo.pop_all()  # all of it was had: `_end` gives it back
        self._engine.writer.committed = self._own.commit_seconds.observe
        self._monitor = LiveMonitor(self._engine, settings, self._own, clock)
        self._schedule = Schedule(clock, lambda job: self._own.skipped_runs.labels(job).inc())
        self._sources = self._build_sources()
        self._exporter = build_exporter(settings)
        self._follower = self._build_follower()
        traces = build_source(
            settings=settings,
            limits=_limits(settings),
            engine=self._engine,
            own=self._own,
            authorizer=self._authorizer,
            clock=clock,
        )
        self._otlp = OtlpIn(settings, traces, self._authorizer)
        self._server = _Server(self._configure())
        self.url = _url(self._socket)

    def run(self, ready: Callable[[str], None] | None = None) -> None:
        """Serve until told to end.

        Args:
            ready: called once, with the URL, when everything is restored and answers.
        """
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(ready))

    def stop(self) -> None:
        """End, from any thread."""
        self._server.should_exit = True

    @property
    def ending(self) -> bool:
        """Whether it was told to end."""
        return self._server.should_exit

    async def _serve(self, ready: Callable[[str], None] | None) -> None:
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal, number)
        self._watch()
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
            await asyncio.to_thread(self._end)

    async def _start(self, ready: Callable[[str], None] | None) -> None:
        """Restore, then begin what needs the windows."""
        started = self._clock.monotonic()
        counted = await asyncio.wrap_future(self._engine.writer.call(self._engine.restore))
        took = round(self._clock.monotonic() - started, 3)
        self._log.info("restored", replayed=counted, seconds=took)
        self._monitor.restored = True
        self._monitor.turned_at = self._clock.monotonic()
        self._plan()
        for source in (*self._sources, self._otlp):
            source.start()
        if self._exporter is not None:
            self._exporter.start()
        if self._follower is not None:
            store, follower = self._engine.store, self._follower
            position = self._engine.writer.call(lambda: store.offset(grounding.SOURCE))
            follower.start(await asyncio.wrap_future(position))
        gc.collect()
        gc.freeze()  # what start-up made lives as long as the process
        gc.set_threshold(50_000, 20, 50)
        if ready is not None:
            await asyncio.to_thread(ready, self.url)

    def _on_started(self, starting: asyncio.Task[None]) -> None:
        """A daemon that cannot start ends, so that whoever started it sees that."""
        if not starting.cancelled() and (error := starting.exception()):
            self._log.error("start_failed", error=str(error))
            self.stop()

    def _plan(self) -> None:
        engine, writer = self._engine, self._engine.writer
        self._schedule.every(self.settings.evaluate_every, "evaluate", self._monitor.evaluate)
        self._schedule.every(
            self.settings.snapshot_every, "snapshot", lambda: writer.call(engine.snapshot).result()
        )
        self._schedule.every(_EXPIRE_EVERY_S, "expire", self._expire)
        self._schedule.every(_COMPACT_EVERY_S, "compact", self._compact)
        self._schedule.start()

    def _expire(self) -> None:
        now = self._clock.now()
        self._step(lambda: self._engine.expire(now))
        self._engine.writer.call(lambda: self._engine.forget(now)).result()

    def _compact(self) -> None:
        self._step(self._engine.compact, most=_COMPACT_STEPS)

    def _step(self, step: Callable[[], int], most: int | None = None) -> None:
        """Repeat a step until it finds nothing more to do; commits go on in between."""
        for _ in itertools.count() if most is None else range(most):
            if self._server.should_exit or not self._engine.writer.call(step).result():
                return

    def _end(self) -> None:
        """Drain, commit, save, close."""
        if self._follower is not None:
            self._follower.stop()
        if self._exporter is not None and self._monitor.restored:
            self._exporter.stop()
        for source in (*self._sources, self._otlp):
            if self._monitor.restored:
                source.stop()
        if self._monitor.restored:
            self._schedule.stop()
            self._engine.writer.call(self._engine.snapshot)
        if self._engine.writer.stop(_DRAIN_S):
            self._engine.store.close()
        else:  # on a disk that hangs; to close the store would hang as well
            self._log.error("writer_still_busy")
        self._lock.release()
        self._socket.close()
        self._log.info("ended")

    def _on_signal(self, number: int) -> None:
        if self._server.should_exit:
            self._server.force_exit = True
        self._log.info("ending", signal=signal.Signals(number).name)
        self._server.should_exit = True

    def _configure(self) -> uvicorn.Config:
        limits = _limits(self.settings)
        source = HttpSource(
            Options(
                limits=limits,
                in_flight=self.settings.limits.queue,
                listed_errors=self.settings.limits.errors,
                retention_s=self.settings.retention.records,
                max_skew_s=self.settings.max_clock_skew,
            ),
            self._engine.writer,
            self._own,
            self._authorizer,
            self._clock.now,
        )
        api = Api(
            self._monitor,
            lambda reason: self._own.rejected("api", reason),
            self._authorizer,
            limits=limits,
            protect_metrics=self.settings.auth.protect_metrics,
        )
        return uvicorn.Config(
            _route(source, self._otlp.source, api.application()),
            http=bounded_protocol(limits, lambda reason: self._own.rejected("http", reason)),
            ws="none",
            proxy_headers=False,
            loop="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(_DRAIN_S),
        )

    def _build_sources(self) -> list[Source]:
        context = Context(
            sink=self._engine.writer,
            tally=self._own,
            clock=self._clock,
            offset=lambda name: self._engine.writer.call(
                lambda: self._engine.store.offset(name)
            ).result(),
            retention_s=self.settings.retention.records,
            max_skew_s=self.settings.max_clock_skew,
        )
        sources: list[Source] = []
        for at, given in enumerate(self.settings.sources):
            module, options = resolve("ragmon.sources", f"sources.{at}", given)
            sources.append(module.build(options, context))
        return sources

    def _build_follower(self) -> grounding.Follower | None:
        judge = self.settings.judge.grounding
        if not judge.enabled:
            return None
        store = self._engine.store
        return grounding.Follower(
            reader=store.reader,
            newest=lambda: store.next_sequence,
            sink=self._engine.writer,
            worker=grounding.Worker(judge.max_cpu),
            clock=self._clock,
            told=self._tell,
        )

    def _tell(self, record: QueryRecord, verdict: Verdict) -> None:
        """A verdict is durable: count it, and show it in the user's tracing tool."""
        self._own.judged(verdict.judge, verdict.reason or "scored")
        if self._exporter is not None and (shown := judged(record, verdict)) is not None:
            self._exporter.submit(shown)

    def _watch(self) -> None:
        """Gauges and counters of parts that know nothing of Prometheus."""
        own, engine = self._own, self._engine
        own.watch(
            "ragmon_ingest_queue_bytes",
            "Accepted and not yet committed.",
            lambda: engine.writer.queued_bytes,
        )
        if (follower := self._follower) is not None:
            own.watch(
                "ragmon_judge_queue_length",
                "Queries that the embedded judge has not looked at yet.",
                lambda: follower.backlog,
            )
        own.watch("ragmon_store_bytes", "Size of the store on disk.", engine.store.size_bytes)
        own.watch(
            "ragmon_watermark_timestamp_seconds",
            "Timestamp of the newest query counted.",
            lambda: engine.windows.watermark,
        )
        own.watch(
            "ragmon_waiting_changes",
            "Queries that feedback or labels wait for.",
            engine.store.waiting_count,
        )
        own.watch_total(
            "ragmon_window_restatements",
            "Queries counted anew after late feedback or labels.",
            lambda: engine.windows.restatements,
        )
        own.watch_total(
            "ragmon_series_dropped",
            "Observations counted under other because max_series was reached.",
            lambda: engine.windows.dropped,
        )
        own.watch_total(
            "ragmon_commit_failures",
            "Groups of batches that the store refused.",
            lambda: engine.writer.stats.failures,
        )


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _route(source: App, traces: App, api: App) -> App:
    """The hot paths first; everything else is Starlette's."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope.get("path"), scope.get("method")
        reads_queries = path == "/v1/queries" and method in ("GET", "HEAD")
        if path in ENDPOINTS and not reads_queries:
            await source(scope, receive, send)
        elif path in otlp.PATHS:
            await traces(scope, receive, send)
        else:
            await api(scope, receive, send)

    return route


def _limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(
        body=limits.body,
        decompressed=limits.decompressed,
        headers=limits.headers,
        read_timeout_s=limits.read_timeout,
    )


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with contextlib.ExitStack() as undo:
            bound = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            undo.pop_all()
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="Set another host or port, or stop what listens there",
        ) from error
    bound.listen(2048)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
