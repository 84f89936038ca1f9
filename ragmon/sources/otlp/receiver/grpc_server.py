"""OTLP over gRPC (port 4317), behind the extra ``ragmon[grpc]``: the same path as HTTP.

Requests are handed to the event loop as bytes, so that both ways decode and answer alike. A call is
authorised by its metadata and its memory is reserved before its message is read, which is why the
handlers are those of a stream of messages, of which the first is read.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc

from ragmon.access import Permit
from ragmon.asgi import BodyLimits, Problem, Scope, over_memory
from ragmon.errors import MemoryLimitError
from ragmon.sources.otlp.receiver.certificate import PemFiles
from ragmon.sources.otlp.receiver.responses import success
from ragmon.sources.otlp.receiver.source import OtlpSource, kind_of

_PACKAGE = "opentelemetry.proto.collector"
_PATHS = {
    f"/{_PACKAGE}.trace.v1.TraceService/Export": "/v1/traces",
    f"/{_PACKAGE}.logs.v1.LogsService/Export": "/v1/logs",
    f"/{_PACKAGE}.metrics.v1.MetricsService/Export": "/v1/metrics",
}
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
_THREADS = 8  # messages that are read at a time
_MOST_CALLS = 128  # of all clients; beyond it they are refused with RESOURCE_EXHAUSTED
_MOST_STREAMS = 100  # calls of one connection; beyond it they wait at the client
_LEAST_READS = 16  # messages of unknown size that fit into limits.memory
_ANSWER_S = 30.0


class GrpcServer:
    """Listens until it is stopped."""

    def __init__(
        self,
        address: str,
        source: OtlpSource,
        authorize: Callable[[Scope, str], Permit],
        loop: asyncio.AbstractEventLoop,
        *,
        limits: BodyLimits,
        pem: Callable[[], PemFiles] | None = None,
    ) -> None:
        """Listen; nothing is answered before ``start``.

        Args:
            address: to listen on.
            source: takes the requests.
            authorize: checks a request for a scope.
            loop: on which ``source`` runs.
            limits: of requests, and of connections: those beyond are closed at once.
            pem: the certificate in use, asked for at each connection; None: without TLS.
        """
        options = [
            ("grpc.max_receive_message_length", limits.body),
            ("grpc.max_concurrent_streams", _MOST_STREAMS),
            ("grpc.max_allowed_incoming_connections", limits.connections),
        ]
        self._most_bytes = limits.body
        self._source = source
        self._authorize = authorize
        self._loop = loop
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, "grpc"),
            options=options,
            maximum_concurrent_rpcs=_MOST_CALLS,
        )
        self._server.add_generic_rpc_handlers((_Routes(self._export),))
        self.port: int = (
            self._server.add_insecure_port(address)
            if pem is None
            else self._server.add_secure_port(address, _credentials(pem))
        )

    def start(self) -> None:
        """Begin, without waiting."""
        self._server.start()

    def stop(self, grace_s: float = 4.0) -> None:
        """Answer what is under way, then end."""
        self._server.stop(grace_s).wait()

    def _export(self, path: str, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        try:
            permit = self._authorize(_as_scope(context), "ingest")
            with self._source.memory.open() as memory:
                reserved = min(self._most_bytes, self._source.memory.limit // _LEAST_READS)
                memory.take(reserved)
                body = next(messages, b"")
                memory.give_back(reserved)
                memory.take(len(body))
                taking = self._source.take(path, body, "protobuf", permit, memory)
                refused = asyncio.run_coroutine_threadsafe(taking, self._loop).result(_ANSWER_S)
        except MemoryLimitError as error:
            self._abort(context, over_memory(error))
        except Problem as problem:
            self._abort(context, problem)
        except TimeoutError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the store did not answer in time")
        return success("protobuf", refused, kind_of(path)).body

    def _abort(self, context: grpc.ServicerContext, problem: Problem) -> NoReturn:
        self._source.count_refused(problem.reason)
        context.abort(_CODES.get(problem.status, grpc.StatusCode.UNAVAILABLE), str(problem))


def _credentials(pem: Callable[[], PemFiles]) -> grpc.ServerCredentials:
    """Credentials that follow a renewed certificate."""

    def configured() -> Any:
        files = pem()
        return grpc.ssl_server_certificate_configuration(
            [(files.key, files.chain)], root_certificates=files.client_ca
        )

    return grpc.dynamic_ssl_server_credentials(
        configured(), configured, require_client_authentication=pem().client_ca is not None
    )


class _Routes(grpc.GenericRpcHandler):
    """The three services, without generated stubs: requests stay bytes."""

    def __init__(
        self, export: Callable[[str, Iterator[bytes], grpc.ServicerContext], bytes]
    ) -> None:
        self._export = export

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; None when it is not known."""
        path = _PATHS.get(handler_call_details.method)
        if path is None:
            return None
        return grpc.stream_unary_rpc_method_handler(
            lambda messages, context: self._export(path, messages, context)
        )


def _as_scope(context: grpc.ServicerContext) -> Scope:
    """The metadata as headers, for the authorizer."""
    headers = [
        (key.encode(), value.encode() if isinstance(value, str) else value)
        for key, value in context.invocation_metadata()
    ]
    return {"headers": headers, "client": (context.peer(), 0), "path": "grpc"}
