"""The HTTP server: its port, its routes and its limits."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
import uvicorn
from starlette.requests import Request

from ragmon.access import Permit
from ragmon.asgi import (
    App,
    BodyLimits,
    Problem,
    Receive,
    Scope,
    Send,
    check_framing,
    in_pieces,
    send_problem,
)
from ragmon.config import Settings
from ragmon.config.access import AuthSettings
from ragmon.daemon.audit import AuditLog, flags_of
from ragmon.daemon.component import Context
from ragmon.daemon.descriptors import DescriptorWatch, connection_limit, raise_limit
from ragmon.daemon.event_loop_watch import EventLoopWatch
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.tls import Certificates
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.memory import MemoryBudget
from ragmon.sources import RecordSink
from ragmon.sources.http import ENDPOINTS, HttpSource, IngestSinks, Options
from ragmon.sources.otlp.receiver import source as otlp
from ragmon.web.api import Api, Audited, RouteSection
from ragmon.web.browsers import BrowserGuard
from ragmon.web.endpoint import Endpoint
from ragmon.web.handshake import after_handshake
from ragmon.web.instance import named
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.login import LoginSection, ProblemPages
from ragmon.web.pages.rendering import Renderer
from ragmon.web.protocol import BoundedProtocol, bounded_protocol

_AUDIT_S = 5.0  # that an answer waits for its entry


class Server(uvicorn.Server):
    """Leaves signals to the daemon, which ends in an order of its own."""

    def __init__(self, config: uvicorn.Config, monotonic: Callable[[], float]) -> None:
        super().__init__(config)
        self.event_loop = EventLoopWatch(monotonic)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second, on the event loop; True to end."""
        self.event_loop.turned()
        return await super().on_tick(counter)

    def hanging(self) -> list[str]:
        """One sentence while the event loop hangs; from any thread."""
        return self.event_loop.problems()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def configure(
    context: Context,
    monitor: LiveMonitor,
    traces: App,
    *,
    drain_s: float,
    certificates: Certificates | None = None,
    more: Sequence[RouteSection] = (),
    queries: RecordSink | None = None,
) -> uvicorn.Config:
    """Configure the server: routes, limits and timeouts.

    Args:
        context: of the daemon.
        monitor: of the daemon.
        traces: application for OTLP.
        drain_s: for requests under way at the end.
        certificates: for TLS.
        more: further routes.
        queries: takes the queries; None: the writer.
    """
    renderer = Renderer(Assets())
    limits, own = limits_of(context), context.own
    writer = context.engine.writer
    source = _source(context, limits, IngestSinks(queries or writer, changes=writer))
    api = Api(
        monitor,
        lambda reason: own.rejected("api", reason),
        context.authorizer,
        limits=limits,
        protected=_protected(context.settings.auth),
        more=(_login(context, renderer), *more),
    )
    application = named(
        api.application(_auditor(context.audit), ProblemPages(renderer).answer),
        context.settings.replica.name or socket.gethostname(),
    )
    return server_config(
        _guarded(context, _route(source, traces, _paced(application))),
        bounded_protocol(limits, lambda reason: own.rejected("http", reason)),
        certificates,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(drain_s),
        callback_notify=_watch_descriptors(own).look,
        timeout_notify=1,
    )


def server_config(
    application: App,
    protocol: type[BoundedProtocol],
    certificates: Certificates | None,
    **options: Any,
) -> uvicorn.Config:
    """Everything that is the same for each server of ragmon, with further options of uvicorn."""
    return uvicorn.Config(
        application,
        http=protocol if certificates is None else after_handshake(certificates.context, protocol),
        ws="none",
        proxy_headers=False,
        loop="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        **options,
    )


def _login(context: Context, renderer: Renderer) -> LoginSection:
    return LoginSection(
        context.authorizer,
        context.clock,
        renderer,
        context.settings.external_url,
        lambda reason: context.own.rejected("api", reason),
    )


def _watch_descriptors(own: OwnMetrics) -> DescriptorWatch:
    watch = DescriptorWatch()
    own.watch_total(
        "ragmon_file_descriptors_exhausted_seconds",
        "Seconds in which no file or connection could be opened because all file descriptors were "
        "in use; new connections were dropped. Any increase is bad: raise the limit of open files.",
        lambda: watch.seconds,
    )
    return watch


def watch_connections(own: OwnMetrics, server: Server, limit: int) -> None:
    """Have the server asked at each scrape how many connections are open."""
    own.watch(
        "ragmon_http_connections",
        "Open connections over HTTP, those of probes and scrapes included. Near "
        "ragmon_http_connections_limit new ones will be refused: find who opens them, or raise "
        "limits.connections.",
        lambda: len(server.server_state.connections),
    )
    own.watch(
        "ragmon_http_connections_limit",
        "Connections over HTTP that are taken (limits.connections, or fewer where the limit of "
        'open files is lower); those beyond count as ragmon_rejected_total{reason="connections"}.',
        lambda: limit,
    )


def _source(context: Context, limits: BodyLimits, sinks: IngestSinks) -> HttpSource:
    return HttpSource(
        Options(
            limits=limits,
            records=context.settings.limits.records,
            listed_errors=context.settings.limits.errors,
            retention_s=context.settings.retention.records,
            max_skew_s=context.settings.max_clock_skew,
            text=context.settings.privacy.text,
        ),
        sinks,
        context.own,
        context.authorizer,
        context.clock.now,
        labelled=context.audit.labelled,
    )


def limits_of(context: Context) -> BodyLimits:
    """Limits of one request to a daemon."""
    return limits_for(context.settings, context.memory)


def limits_for(settings: Settings, memory: MemoryBudget) -> BodyLimits:
    """Limits of one request."""
    limits = settings.limits
    return BodyLimits(
        body=limits.body,
        decompressed=limits.decompressed,
        headers=limits.headers,
        read_timeout_s=limits.read_timeout,
        memory=memory,
        write_timeout_s=limits.write_timeout,
        connections=_connections(limits.connections),
        reads=limits.reads,
    )


def _connections(configured: int) -> int:
    limit = connection_limit(configured, raise_limit())
    if limit < configured:
        structlog.get_logger("daemon").warning(
            "connections_limited",
            connections=limit,
            configured=configured,
            remedy="raise the limit of open files (ulimit -n, LimitNOFILE)",
        )
    return limit


def bind(host: str, port: int) -> socket.socket:
    """Listen on a port.

    Raises:
        SettingsError: the port is taken, or the address is none of this machine's.
    """
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


def url_of(bound: socket.socket, certificates: Certificates | None = None) -> str:
    """The URL at which clients reach a listening socket."""
    host, port = bound.getsockname()[:2]
    scheme = "http" if certificates is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _auditor(audit: AuditLog) -> Audited:
    """A hook that records changes; an answer waits until they are on disk, if that works."""

    async def record(request: Request, permit: Permit, endpoint: Endpoint, status: int) -> None:
        body = getattr(request.state, "body_start", b"").decode("utf-8", "replace")
        scope: Scope = request.scope
        if endpoint.personal:
            query = flags_of(request.query_params, endpoint).encode()
            scope = {**scope, "path": endpoint.path, "query_string": query}
        written = audit.changed(scope, permit, endpoint.name, str(status), body)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(written), _AUDIT_S)

    return record


def _guard_of(settings: Settings) -> BrowserGuard:
    """Any name may be asked for where tokens are, or everybody is accepted on purpose."""
    auth = settings.auth
    open_to_all = bool(auth.tokens) or auth.allow_anonymous
    return BrowserGuard(settings.external_url, None if open_to_all else (settings.host,))


def _guarded(context: Context, app: App) -> App:
    guard = _guard_of(context.settings)

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_framing(scope)
            guard.check(scope)
        except Problem as problem:
            context.own.rejected("http", problem.reason)
            await send_problem(send, problem)
        else:
            await app(scope, receive, send)

    return check


def _paced(app: App) -> App:
    """Send long answers as fast as they are read."""

    async def paced(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, in_pieces(send))

    return paced


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


def _protected(auth: AuthSettings) -> list[str]:
    """Scopes that need a token only because the settings ask for it."""
    asked = {"metrics": auth.protect_metrics, "probe": auth.protect_probes}
    return [scope for scope, is_protected in asked.items() if is_protected]
