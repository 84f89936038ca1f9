"""OpenTelemetry through a whole daemon: over HTTP and gRPC in, verdicts out."""

import gzip
import json
import socket

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmon.config import load
from ragmon.daemon.build import check_exposure
from ragmon.errors import SettingsError
from tests.support.daemons import running
from tests.support.paths import DATA
from tests.support.receiver import receiving
from tests.support.wait import eventually

CAPTURES = DATA / "otlp"
SOON = {"otlp__linger": 0.05, "otlp__idle_timeout": 0.3, "retention__records": "3650d"}


def bodies(folder: str) -> list[tuple[bytes, str]]:
    lines = (CAPTURES / folder / "index.jsonl").read_text().splitlines()
    found = []
    for line in map(json.loads, lines):
        body = (CAPTURES / folder / line["file"]).read_bytes()
        body = gzip.decompress(body) if line["file"].endswith(".gz") else body
        found.append((body, line["content_type"]))
    assert found
    return found


def expected_queries(folder: str) -> int:
    truth = json.loads((CAPTURES / folder / "expected.json").read_text())
    return len(truth["traces"])


@pytest.mark.parametrize("folder", ["oi-langchain", "genai-semconv-json", "tl-langchain"])
def test_captured_traces_are_counted_as_queries(tmp_path, folder):
    with running(tmp_path / "data", **SOON) as site:
        for body, content_type in bodies(folder):
            answer = site.post("/v1/traces", body, content_type=content_type)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(content_type.split(";")[0])
        wanted = expected_queries(folder)
        report = "/v1/report?window=90d"
        assert eventually(
            lambda: site.get(report).json["queries"] >= wanted, f"{wanted} queries are counted"
        )
        assert site.get(report).json["queries"] == wanted


def test_the_same_traces_over_grpc(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with running(tmp_path / "data", **SOON, otlp__grpc=address) as site:
        with grpc.insecure_channel(address) as channel:
            export = channel.unary_unary(
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            )
            for body, _ in bodies("oi-langchain"):
                export(body, timeout=10)
        wanted = expected_queries("oi-langchain")
        report = "/v1/report?window=90d"
        assert eventually(lambda: site.get(report).json["queries"] == wanted, "all are counted")


def test_verdicts_go_out_to_the_tracing_tool(tmp_path):
    with receiving() as receiver:
        flags = {
            **SOON,
            "judge__grounding__enabled": True,
            "otlp_export": {"endpoint": f"{receiver.url}/v1/traces"},
        }
        with running(tmp_path / "data", **flags) as site:
            for body, content_type in bodies("oi-langchain"):
                site.post("/v1/traces", body, content_type=content_type)
            name = "ragmon_otlp_exported_verdicts_total"
            eventually(lambda: site.total(name), "what was sent is counted", 30)
    request = ExportTraceServiceRequest.FromString(receiver.posts[0].body)
    spans = request.resource_spans[0].scope_spans[0].spans
    assert {span.name for span in spans} == {"ragmon faithfulness"}
    assert all(span.parent_span_id == span.links[0].span_id for span in spans)


def test_grpc_obeys_the_loopback_rule():
    settings = load(None, {"otlp.grpc": "0.0.0.0:4317"}, {}).settings
    with pytest.raises(SettingsError, match=r"otlp.grpc 0.0.0.0 is reachable"):
        check_exposure(settings)
    check_exposure(load(None, {"otlp.grpc": "127.0.0.1:4317"}, {}).settings)
