"""A worker: it reads some partitions of a topic into the store, and an evaluator counts them.

Over HTTP it answers its own probes and metrics, nothing else.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping

import structlog
import uvicorn
import uvloop
from prometheus_client import generate_latest

from ragmon import __version__
from ragmon.asgi import Problem, Receive, Scope, Send, send_problem, unavailable
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon import http
from ragmon.daemon.build import build_pipeline, open_shards, shared_source
from ragmon.daemon.erasure.shard_requests import ERASE, carry_out
from ragmon.daemon.erasure.shard_retention import ShardRetention
from ragmon.daemon.ingest.metrics import (
    CLOCK_AHEAD,
    CLOCK_AHEAD_HELP,
    FENCED,
    FENCED_HELP,
    watch_loops,
    watch_waiting,
)
from ragmon.daemon.log_metrics import watch_logs
from ragmon.daemon.partitions import WorkerShards, WorkerTasks
from ragmon.daemon.standby import METRICS_TYPE, TEXT_TYPE, on_signals, send_text
from ragmon.daemon.startable import check_startable
from ragmon.daemon.tls import build_certificates
from ragmon.errors import OverloadedError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.memory import MemoryBudget
from ragmon.plugins import resolve
from ragmon.sources import PartitionedSource, SourceContext, Submission
from ragmon.web.protocol import bounded_protocol

_READY_S = 30.0  # since the last turn that succeeded
_STOP_S = 8.0  # for the commit under way, and to leave the group
_SUPERVISE_EVERY_S = 1.0


class Worker:
    """The process; ``run`` returns when it was told to end."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Build it; nothing is connected.

        Raises:
            SettingsError: it cannot work with these settings.
        """
        check_startable(settings, clock)
        at = shared_source(settings)
        assert at is not None
        self.own = OwnMetrics()
        self._settings = settings
        self._clock = clock
        self._log = structlog.get_logger("worker")
        pipelines = settings.retention.pipelines
        rules = {glob: retention.records for glob, retention in pipelines.items()}
        self.shards = WorkerShards(
            lambda: open_shards(settings),
            build_pipeline(settings),
            settings,
            clock,
            self.own.commit_seconds.observe,
            tasks=WorkerTasks({ERASE: carry_out}, ShardRetention(rules, clock)),
        )
        self.source = self._build_source(at)
        self._supervisor = Supervisor()
        self._supervisor.watch(lambda: self.source.loops)
        self._watch()
        self._socket = http.bind(settings.host, settings.port)
        self._certificates = build_certificates(settings.tls, self.own)
        self._ended = threading.Event()
        self._server = http.Server(self._configured(), clock.monotonic)
        self.url = http.url_of(self._socket, self._certificates)

    def run(self) -> None:
        """Read, commit and answer until SIGTERM or SIGINT."""
        with on_signals(self.stop), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())
        self._log.info("ended")

    def stop(self) -> None:
        """End, from any thread."""
        self._ended.set()
        self._server.should_exit = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer one request."""
        path = scope["path"]
        if path == "/metrics":
            await send_text(send, generate_latest(self.own.registry).decode(), METRICS_TYPE)
        elif path == "/livez":
            await self._answer(send, "; ".join(self._supervisor.stalled()))
        elif path == "/readyz":
            await self._answer(send, self.problem())
        else:
            detail = "this is a worker: ask the evaluator, which counts what workers store"
            await send_problem(send, Problem(404, detail, reason="worker"))

    def problem(self) -> str:
        """The reason why it is not ready; empty: it is."""
        at = self.source.last_turn_at
        if at is None:
            return "worker: it has not joined the group yet; its log says why"
        if self._clock.monotonic() - at > _READY_S:
            return "worker: it reads nothing; its log says why"
        return ""

    async def _answer(self, send: Send, problem: str) -> None:
        if problem:
            await send_problem(send, unavailable(problem, "worker"))
        else:
            await send_text(send, "ok\n", TEXT_TYPE)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self.source.start()
        self._supervise(loop)
        self._log.info("listening", url=self.url, version=__version__, role="worker")
        await self._server.serve(sockets=[self._socket])
        await asyncio.to_thread(self._end)

    def _supervise(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._ended.is_set():
            loop.call_later(_SUPERVISE_EVERY_S, self._supervise, loop)
            self._supervisor.revive()

    def _end(self) -> None:
        """Commit what is under way, leave the group, let go of the shards."""
        self._ended.set()
        if self.source.loop.stop(_STOP_S):
            self.shards.close()

    def _build_source(self, at: int) -> PartitionedSource:
        settings = self._settings
        module, options = resolve("ragmon.sources", f"sources.{at}", settings.sources[at])
        context = SourceContext(
            sink=_NoSink(),
            counters=self.own,
            clock=self._clock,
            offset=lambda _: None,
            retention_s=settings.retention.records,
            max_skew_s=settings.max_clock_skew,
            text=settings.privacy.text,
        )
        source: PartitionedSource = module.build_shared(options, context, self.shards)
        return source

    def _watch(self) -> None:
        own = self.own
        watch_logs(own, [self.source])
        watch_loops(own, self._supervisor)
        watch_shards(own, self._owned, lambda: self.shards.takeovers)
        own.watch_each_total(
            FENCED, FENCED_HELP, "what", lambda: {"shard": float(self.shards.fenced)}
        )
        watch_waiting(own, lambda: self.shards.waiting_changes, lambda: self.shards.waiting_expired)
        own.watch(CLOCK_AHEAD, CLOCK_AHEAD_HELP, lambda: self.shards.clock_ahead_s)

    def _owned(self) -> Mapping[str, float]:
        return {str(partition): 1.0 for partition in self.source.partitions}

    def _configured(self) -> uvicorn.Config:
        limits = http.limits_for(self._settings, MemoryBudget(self._settings.limits.body))
        protocol = bounded_protocol(limits, lambda reason: self.own.rejected("http", reason))
        return http.server_config(self, protocol, self._certificates, timeout_graceful_shutdown=1)


class _NoSink:
    """In the place of a writer: a worker commits on the thread that reads."""

    def submit(self, submission: Submission) -> None:
        """Refuse."""
        raise OverloadedError(f"a worker takes nothing from {submission.source}", retry_after_s=1)


def watch_shards(
    own: OwnMetrics, owned: Callable[[], Mapping[str, float]], takeovers: Callable[[], float]
) -> None:
    """Have a worker asked for its partitions at each scrape."""
    own.watch_each(
        "ragmon_shard_owned",
        "1 for each partition that this worker reads and stores. Summed over all workers each is "
        "1, and 0 for a moment while it changes hands; 0 for longer: nobody reads it.",
        "shard",
        owned,
    )
    own.watch_total(
        "ragmon_shard_takeovers",
        "Partitions that this worker took. Rising all the time: workers come and go, or do not "
        "answer the group in time.",
        takeovers,
    )
