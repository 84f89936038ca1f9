"""OTLP over gRPC (port 4317), behind the extra ``ragmon[grpc]``: the same path as HTTP.

Requests are handed to the event loop as bytes, so that both ways decode and answer alike.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmon.access import Permit
from ragmon.asgi import Problem, Scope
from ragmon.sources.otlp.receiver.source import OtlpSource

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
}
_THREADS = 8
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
        most_bytes: int,
    ) -> None:
        options = [("grpc.max_receive_message_length", most_bytes)]
        self._source = source
        self._authorize = authorize
        self._loop = loop
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "grpc"), options=options)
        self._server.add_generic_rpc_handlers((_Routes(self._export),))
        self.port: int = self._server.add_insecure_port(address)

    def start(self) -> None:
        """Begin, without waiting."""
        self._server.start()

    def stop(self, grace_s: float = 4.0) -> None:
        """Answer what is under way, then end."""
        self._server.stop(grace_s).wait()

    def _export(self, path: str, body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            permit = self._authorize(_as_scope(context), "ingest")
            taking = self._source.take_whole(path, body, permit)
            refused = asyncio.run_coroutine_threadsafe(taking, self._loop).result(_ANSWER_S)
        except Problem as problem:
            self._source.count_refused(problem.reason)
            context.abort(_CODES.get(problem.status, grpc.StatusCode.UNAVAILABLE), str(problem))
        except TimeoutError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the store did not answer in time")
        response = ExportTraceServiceResponse()
        if refused:
            response.partial_success.rejected_spans = sum(refused.values())
            response.partial_success.error_message = ", ".join(refused)
        return response.SerializeToString()


class _Routes(grpc.GenericRpcHandler):
    """The three services, without generated stubs: requests stay bytes."""

    def __init__(self, export: Callable[[str, bytes, grpc.ServicerContext], bytes]) -> None:
        self._export = export

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; None when it is not known."""
        path = _PATHS.get(handler_call_details.method)
        if path is None:
            return None
        return grpc.unary_unary_rpc_method_handler(
            lambda body, context: self._export(path, body, context)
        )


def _as_scope(context: grpc.ServicerContext) -> Scope:
    """The metadata as headers, for the authorizer."""
    headers = [
        (key.encode(), value.encode() if isinstance(value, str) else value)
        for key, value in context.invocation_metadata()
    ]
    return {"headers": headers, "client": (context.peer(), 0), "path": "grpc"}
