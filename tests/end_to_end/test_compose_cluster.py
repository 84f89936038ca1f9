"""What the cluster's compose file starts, started by hand: its settings, other addresses."""

import re
import socket

import grpc
import pytest
import yaml

from tests.support.daemons import Process
from tests.support.paths import ROOT
from tests.support.postgres import shared_server

pytestmark = pytest.mark.end_to_end

FILE = ROOT / "deploy/compose.cluster.yaml"
SERVICES = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replica(data_dir, grpc_port):
    """A container of it, on this machine."""
    asked = SERVICES["ragmon"]["environment"]
    server = shared_server()
    store, found = re.subn(r"postgresql://[^}]+", f"'{server.url()}'", asked["RAGMON_STORE"])
    assert found == 1
    environment = {name: text for name, text in asked.items() if name.startswith("RAGMON_")}
    environment |= {
        "RAGMON_STORE": store.replace("{", "{lease_s: 1, schema_name: compose, "),
        "RAGMON_HOST": "127.0.0.1",
        "RAGMON_OTLP__GRPC": f"127.0.0.1:{grpc_port}",
    }
    return Process(data_dir, environment=environment, ready=False)


def test_both_containers_take_queries_and_one_takes_over(tmp_path):
    assert SERVICES["ragmon"]["deploy"]["replicas"] == 2
    ports = [free_port(), free_port()]
    with replica(tmp_path / "0", ports[0]) as active:
        active.wait_active()
        with replica(tmp_path / "1", ports[1]) as standby:
            standby.wait_ready()
            for number, site in enumerate((active, standby)):
                sent = site.post("/v1/queries", [{"query_id": f"q{number}"}])
                assert sent.json["accepted"] == 1
            for port in ports:
                with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                    assert channel.unary_unary(EXPORT)(b"", timeout=10) == b""
            assert active.total("ragmon_queries_total") == 2
            active.kill()
            standby.wait_active()
            assert standby.total("ragmon_queries_total") == 2
            with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
                assert channel.unary_unary(EXPORT)(b"", timeout=10) == b""


def test_nothing_is_open_to_the_network_and_no_secret_stands_in_the_file():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    passwords = re.findall(r"PASSWORD: (.*)", FILE.read_text(encoding="utf-8"))
    assert len(passwords) == 2
    assert all(each.startswith("${POSTGRES_PASSWORD:?") for each in passwords)
