"""What the workers' compose file starts, started by hand: its settings, other addresses."""

import re

import pytest
import yaml

from tests.sources.kafka.test_daemon import query, send
from tests.support.daemons import Process
from tests.support.kafka import broker
from tests.support.paths import ROOT
from tests.support.postgres import new_schema, shared_server
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

FILE = ROOT / "deploy/compose.workers.yaml"
SERVICES = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]


def container(data_dir, service, kafka, schema):
    """A container of a service, on this machine."""
    asked = SERVICES[service]["environment"]
    server = shared_server().url()
    store, stores = re.subn(r"postgresql://[^}]+", f"'{server}'", asked["RAGMON_STORE"])
    sources, brokers = re.subn(r"kafka:19092", kafka.brokers, asked["RAGMON_SOURCES"])
    assert (stores, brokers) == (1, 1)
    environment = {name: text for name, text in asked.items() if name.startswith("RAGMON_")}
    environment |= {
        "RAGMON_STORE": store.replace("{", f"{{lease_s: 2, schema_name: {schema}, "),
        "RAGMON_SOURCES": sources,
        "RAGMON_HOST": "127.0.0.1",
    }
    return Process(data_dir, environment=environment, ready=False)


def test_workers_share_the_topic_and_the_evaluator_counts_it(tmp_path):
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    schema = new_schema()
    (tmp_path / "kafka").mkdir()
    with (
        broker(tmp_path / "kafka") as kafka,
        container(tmp_path / "evaluator", "evaluator", kafka, schema) as evaluator,
        container(tmp_path / "worker0", "worker", kafka, schema) as first,
        container(tmp_path / "worker1", "worker", kafka, schema) as second,
    ):
        evaluator.wait_active()
        workers = (first, second)
        eventually(
            lambda: [each.total("ragmon_shard_owned") for each in workers] == [4, 4],
            "each has half of the partitions", 240,
        )  # fmt: skip
        send(kafka, "ragmon", [(f"q{n}", query(f"q{n}"), "") for n in range(50)])
        eventually(lambda: evaluator.total("ragmon_queries_total") == 50, "it is counted", 180)


def test_nothing_is_open_to_the_network_and_no_secret_stands_in_the_file():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    passwords = re.findall(r"PASSWORD: (.*)", FILE.read_text(encoding="utf-8"))
    assert len(passwords) == 2
    assert all(each.startswith("${POSTGRES_PASSWORD:?") for each in passwords)
