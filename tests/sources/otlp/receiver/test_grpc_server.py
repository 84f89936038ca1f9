"""OTLP over gRPC takes the same road as OTLP over HTTP."""

import asyncio
import socket
import threading

import grpc
import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmon.access import ANONYMOUS
from ragmon.asgi import Problem
from ragmon.sources.otlp.receiver.grpc_server import GrpcServer
from tests.support.otlp import captured, rig, truth

SERVICE = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
TRACES = SERVICE.format("trace", "Trace")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"  # with empty settings


def authorize(scope, needed):
    assert needed == "ingest"
    if (b"authorization", b"Bearer wrong") in scope["headers"]:
        raise Problem(401, "unknown token", reason="unauthorized")
    return ANONYMOUS


def limits(built):
    return replace(built.source.limits, body=4 << 20, connections=3)


@pytest.fixture
def site(tmp_path):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with rig(tmp_path) as built:
        server = GrpcServer("127.0.0.1:0", built.source, authorize, loop, limits=limits(built))
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield built, lambda method, body, **call: channel.unary_unary(method)(body, **call)
        server.stop(1.0)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_capture_becomes_queries(site):
    built, call = site
    for each in captured("oi-langchain"):
        assert call(TRACES, each.plain) == b""
    built.wait()
    expected = truth("oi-langchain")["traces"]
    assert [built.record(each["trace_id"]).query for each in expected] == [
        each["query"] for each in expected
    ]


def test_spans_refused_alone(site):
    built, call = site
    body = captured("langfuse")[0].plain
    traces = {each["trace_id"] for each in truth("langfuse")["traces"]}
    spoiled = body.replace(bytes.fromhex(min(traces)), bytes(16))
    said = ExportTraceServiceResponse.FromString(call(TRACES, spoiled)).partial_success
    assert said.rejected_spans == 3
    assert said.error_message == "3 spans: bad_trace_id"
    assert built.pending() == 2


@pytest.mark.parametrize(
    ("method", "body", "metadata", "code"),
    [
        (TRACES, b"\x0a\xff", (), grpc.StatusCode.INVALID_ARGUMENT),
        (TRACES, b"", (("authorization", "Bearer wrong"),), grpc.StatusCode.UNAUTHENTICATED),
        ("/unknown.Service/Export", b"", (), grpc.StatusCode.UNIMPLEMENTED),
        (TRACES, bytes(5 << 20), (), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=["truncated", "a wrong token", "another service", "too large"],
)
def test_refusals(site, method, body, metadata, code):
    _, call = site
    with pytest.raises(grpc.RpcError) as raised:
        call(method, body, metadata=metadata)
    assert raised.value.code() is code


def test_metrics_and_logs_are_taken(site):
    built, call = site
    assert call(SERVICE.format("metrics", "Metrics"), b"") == b""
    assert call(SERVICE.format("logs", "Logs"), b"") == b""
    assert built.pending() == 0


def test_a_refused_call_is_not_read(site):
    built, call = site
    wrong = (("authorization", "Bearer wrong"),)
    with pytest.raises(grpc.RpcError) as raised:
        call(TRACES, bytes(5 << 20), metadata=wrong)  # larger than what may be read
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert built.counters.counts["otlp", "unauthorized"] == 1


@pytest.mark.parametrize(
    ("taken", "code"),
    [
        pytest.param(True, grpc.StatusCode.UNAVAILABLE, id="others hold the memory"),
        pytest.param(False, None, id="there is memory"),
    ],
)
def test_a_message_is_read_only_when_there_is_memory_for_it(site, taken, code):
    built, call = site
    budget = built.source.memory
    with budget.open() as others:
        others.take(budget.room if taken else 0)
        if code is None:
            assert call(TRACES, b"") == b""
        else:
            with pytest.raises(grpc.RpcError) as raised:
                call(TRACES, b"")
            assert raised.value.code() is code
            assert built.counters.counts["otlp", "memory"] == 1
    assert budget.reserved == 0


def test_connections_beyond_the_limit_are_closed(tmp_path):
    loop = asyncio.new_event_loop()
    with rig(tmp_path) as built:
        server = GrpcServer("127.0.0.1:0", built.source, authorize, loop, limits=limits(built))
        server.start()
        clients = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(5)]
        for client in clients:
            client.sendall(PREFACE)
        answered = [bool(client.recv(100)) for client in clients]
        for client in clients:
            client.close()
        server.stop(1.0)
    loop.close()
    assert answered == [True] * 3 + [False] * 2
