"""The OpenTelemetry SDK with all three signals: its logs join its traces, and it logs no error."""

import importlib
import logging
import os
import socket

import pytest

from tests.support.daemons import running
from tests.support.metrics import total
from tests.support.wait import eventually

SOON = {"otlp__linger": 0.05, "otlp__idle_timeout": 0.3}
IGNORED = "ragmon_otlp_ignored_total"


@pytest.fixture(scope="module")
def application():
    """An application with the SDK, where that is installed."""
    name = "tests.support.otel_sdk"
    if os.environ.get("CI") == "true":
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="no opentelemetry-sdk: install requirements.lock")


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_logs_join_their_traces_and_metrics_are_no_error(tmp_path, caplog, application, transport):
    address = free_address()
    with running(tmp_path / "data", **SOON, otlp__grpc=address) as site:
        with caplog.at_level(logging.WARNING):
            trace_id = application.ask(*application.exporters(transport, site.url, address))
        record = eventually(
            lambda: site.get(f"/v1/queries/{trace_id}").json.get("record"), "it is mapped"
        )
        assert (record["query"], record["answer"]) == ("What is the fee?", "Ten euros.")
        page = site.get("/metrics").text
    assert [entry.getMessage() for entry in caplog.records if "opentelemetry" in entry.name] == []
    assert total(page, IGNORED, kind="log_record") == 1
    assert total(page, IGNORED, kind="metric_point") >= 1  # once more at the end
