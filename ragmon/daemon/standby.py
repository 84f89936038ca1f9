"""A standby: it waits until the store is free, which another process has.

Until then it answers by sending requests on to that one, so that both may stand behind one address.
"""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import structlog
import uvicorn
import uvloop
from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from ragmon import __version__
from ragmon.asgi import Problem, Receive, Scope, Send, header, send_problem, unavailable
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon import http
from ragmon.daemon.addresses import Addresses, read_addresses
from ragmon.daemon.build import open_store
from ragmon.daemon.ending import begin
from ragmon.daemon.forwarding import FORWARDED, Forwarder
from ragmon.daemon.ingest.metrics import LEADER, LEADER_HELP, STORE_UP, STORE_UP_HELP
from ragmon.daemon.startable import check_startable
from ragmon.daemon.tcp_relay import TcpRelay
from ragmon.daemon.tls import Certificates, build_certificates, client_context
from ragmon.daemon.upstream import Upstream
from ragmon.errors import SettingsError, StoreBusyError, StoreUnreachableError
from ragmon.exposition.own import OwnMetrics
from ragmon.memory import MemoryBudget
from ragmon.stores.ports import Store
from ragmon.web.protocol import bounded_protocol

EVERY_S = 1.0
"""Between two attempts to open the store."""

_RELOAD_EVERY = 60  # attempts, after which certificates are read again
TEXT_TYPE = "text/plain; charset=utf-8"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Place(Struct, frozen=True):
    """A port and a store of this process, for a daemon to work with."""

    socket: socket.socket
    store: Store

    def give_back(self) -> None:
        """Release both."""
        self.socket.close()
        self.store.close()


class StandbyState(Protocol):
    """State of a standby, as its answers show it."""

    reason: str
    is_store_up: bool
    active: Addresses


class StandbyAnswers:
    """The HTTP API of a standby: its own probes and metrics, and the active one's for the rest."""

    def __init__(self, standby: StandbyState, forwarder: Forwarder) -> None:
        self._standby = standby
        self._forwarder = forwarder
        self.registry = CollectorRegistry()
        labels = ["source", "reason"]
        text = "Records, requests and connections that were refused, by reason."
        self._rejected = Counter("ragmon_rejected", text, labels, registry=self.registry)
        build = Gauge(
            "ragmon_build_info", "Version of ragmon.", ["version"], registry=self.registry
        )
        build.labels(__version__).set(1)
        Gauge(LEADER, LEADER_HELP, ["lease"], registry=self.registry).labels("evaluator").set(0)
        up = Gauge(STORE_UP, STORE_UP_HELP, registry=self.registry)
        up.set_function(lambda: float(standby.is_store_up))

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._rejected.labels("standby", reason).inc()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        path = scope["path"]
        if path == "/livez":
            await send_text(send, "ok\n", TEXT_TYPE)
        elif path == "/metrics":
            await send_text(send, generate_latest(self.registry).decode(), METRICS_TYPE)
        elif path == "/readyz":
            await self._ready(scope, send)
        else:
            try:
                await self._forward(scope, receive, send)
            except Problem as problem:
                self.refused(problem.reason)
                await send_problem(send, problem)

    async def _ready(self, scope: Scope, send: Send) -> None:
        """200 while the active one is ready: then a request here is as good as one there."""
        url = self._standby.active.url
        if not url or header(scope, FORWARDED):
            await send_problem(send, self._nobody())
        elif await self._forwarder.is_ready(url):
            await send_text(send, f"ok: standby of {url}\n", TEXT_TYPE)
        else:
            detail = f"standby: the active ragmon at {url} is not ready; {self._standby.reason}"
            await send_problem(send, unavailable(detail, "standby"))

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        url = self._standby.active.url
        if not url:
            raise self._nobody()
        await self._forwarder.forward(url, scope, receive, send)

    def _nobody(self) -> Problem:
        detail = f"standby: {self._standby.reason}; try again, or ask the active one"
        return unavailable(detail, "standby")


class Standby:
    """Attempts to open the store, one after another, while HTTP is answered."""

    def __init__(
        self, bound: socket.socket, open_: Callable[[], Store], clock: Clock, settings: Settings
    ) -> None:
        """Make it; ``wait`` begins.

        Args:
            bound: port that it listens on, and that stays open behind it.
            open_: opens the store, or raises StoreBusyError.
            clock: to wait by.
            settings: of the daemon that will follow.
        """
        self.reason = "the store was not tried yet"
        self.is_store_up = True
        self.active = Addresses()
        self._bound = bound
        self._open = open_
        self._clock = clock
        self._settings = settings
        self._store: Store | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._server: http.Server | None = None
        self._log = structlog.get_logger("standby")

    def wait(self) -> Store | None:
        """The store, once it is free; None when the process was asked to end before.

        Raises:
            StoreError: it cannot be opened, for another reason than that somebody has it.
        """
        with on_signals(self.stop):
            if not self._attempt(may_be_down=False):
                certificates = build_certificates(self._settings.tls, OwnMetrics())
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._serve(certificates))
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._ended.is_set() and self._store is not None:
                self._store.close()
                self._store = None
            return self._store

    def stop(self) -> None:
        """End, from any thread; a store that is opened meanwhile is given back."""
        self._ended.set()
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self, certificates: Certificates | None) -> None:
        settings = self._settings
        forwarder = Forwarder(
            self._upstream,
            sender=settings.replica.name or socket.gethostname(),
            read_timeout_s=settings.limits.read_timeout,
        )
        config = _configured(settings, StandbyAnswers(self, forwarder), certificates)
        self._server = http.Server(config, self._clock.monotonic)
        relay = TcpRelay(lambda: self.active.grpc, settings.limits.connections)
        try:
            grpc = await relay.listen(settings.otlp.grpc) if settings.otlp.grpc else ""
            url = http.url_of(self._bound, certificates)
            more = {"grpc": grpc} if grpc else {}
            self._log.info("listening", url=url, version=__version__, standby=self.reason, **more)
            with contextlib.closing(self._bound.dup()) as listening:
                begin(lambda: self._try_on(certificates), "standby")
                await self._server.serve(sockets=[listening])  # which it closes
        finally:
            forwarder.close()
            await relay.close()

    def _upstream(self, url: str) -> Upstream:
        return Upstream(url, self._clock.monotonic, lambda: client_context(self._settings))

    def _try_on(self, certificates: Certificates | None) -> None:
        """Attempt until it works, fails for good, or is no longer wanted."""
        attempts = 0
        while not self._ended.is_set():
            self._clock.sleep(EVERY_S)
            attempts += 1
            if certificates is not None and attempts % _RELOAD_EVERY == 0:
                self._reload(certificates)
            if self._attempt(may_be_down=True):
                break
        if self._server is not None:
            self._server.should_exit = True

    def _reload(self, certificates: Certificates) -> None:
        try:
            certificates.reload()
        except (SettingsError, OSError, ValueError) as error:
            self._log.warning("certificate_not_reloaded", error=str(error))

    def _attempt(self, *, may_be_down: bool) -> bool:
        """Open the store; True when there is nothing to wait for.

        Args:
            may_be_down: its server answered before, and will again.
        """
        with self._lock:
            if self._ended.is_set():
                return True
            try:
                self._store = self._open()
            except StoreBusyError as error:
                self.reason, self.is_store_up = str(error), True
                self.active = read_addresses(error.addresses)
                return False
            except StoreUnreachableError as error:
                self.reason, self.is_store_up = str(error), False
                if may_be_down:
                    return False
                self._error = error
            except BaseException as error:  # noqa: BLE001 - raised by ``wait``
                self._error = error
            return True


def take_place(settings: Settings, clock: Clock) -> Place | None:
    """A port, and the store when it is free; None when the process was asked to end before.

    Raises:
        SettingsError: the daemon would refuse to start.
        StoreError: the store cannot be opened, for another reason than that somebody has it.
    """
    check_startable(settings, clock)
    with contextlib.ExitStack() as undo:
        bound = undo.enter_context(http.bind(settings.host, settings.port))
        store = Standby(bound, lambda: open_store(settings, waits=False), clock, settings).wait()
        if store is None:
            return None
        undo.pop_all()
        return Place(bound, store)


def _configured(
    settings: Settings, answers: StandbyAnswers, certificates: Certificates | None
) -> uvicorn.Config:
    limits = http.limits_for(settings, MemoryBudget(settings.limits.body))
    protocol = bounded_protocol(limits, answers.refused)
    return http.server_config(answers, protocol, certificates, timeout_graceful_shutdown=1)


@contextlib.contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the process's signals call this, where they can: on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, lambda *_: stop()) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


async def send_text(send: Send, text: str, media: str) -> None:
    """200, and the text."""
    body = text.encode()
    headers = [(b"content-type", media.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
