"""The shipped rules in a real Prometheus: they fire and resolve through a real Alertmanager."""

import re
from pathlib import Path

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import Process
from tests.support.paths import ROOT
from tests.support.prometheus import run_alertmanager, run_prometheus
from tests.support.receiver import Receiver, receiving
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

RULES = ROOT / "deploy/prometheus/rules"

PROMETHEUS = """
global: {{scrape_interval: 200ms, scrape_timeout: 150ms, evaluation_interval: 200ms}}
rule_files: [{rules}/*.yaml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs:
  - job_name: ragmon
    static_configs: [{{targets: ["{ragmon}"]}}]
"""
ALERTMANAGER = """
route: {{receiver: test, group_by: [alertname], group_wait: 10ms, group_interval: 200ms}}
receivers: [{{name: test, webhook_configs: [{{url: "{receiver}", send_resolved: true}}]}}]
"""


def hastened(folder: Path) -> Path:
    """A copy of the rules that waits seconds where they wait minutes."""
    folder.mkdir()
    for path in RULES.glob("*.yaml"):
        text = re.sub(r"\[(\d+)[mhd]\]", "[4s]", path.read_text(encoding="utf-8"))
        text = re.sub(r"(?m)^( +for): .+$", r"\1: 400ms", text)
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder


class Told:
    """What reached the receiver, by alert."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def alerts(self, name: str) -> list[dict]:
        found = [each for post in self._receiver.posts for each in post.json["alerts"]]
        return [each for each in found if each["labels"]["alertname"] == name]

    def await_status(self, name: str, status: str) -> dict:
        def last() -> dict | None:
            found = self.alerts(name)
            return found[-1] if found and found[-1]["status"] == status else None

        return eventually(last, f"{name} is {status}", 20)


def good(number: int) -> dict:
    return {"query_id": f"q-{number}", "timestamp": SystemClock().now(), "chunks": []}


def check_refusals(site: Process, told: Told) -> None:
    """Bad records raise an alert, and good ones end it."""
    numbers = iter(range(1_000_000))

    def bad_then_good() -> bool:
        site.post("/v1/queries", [good(next(numbers)), *[{"query_id": 7}] * 5])
        return bool(told.alerts("RagmonRejectedRising"))

    eventually(bad_then_good, "it is told of refusals", 20)
    fired = told.await_status("RagmonRejectedRising", "firing")
    assert fired["labels"]["severity"] == "warning"
    assert fired["labels"]["job"] == "ragmon"
    assert re.search(
        r"refuses 8\d(\.\d+)?% of the records it receives", fired["annotations"]["description"]
    )
    assert fired["annotations"]["runbook_url"].endswith("/runbooks/RagmonRejectedRising")

    def only_good() -> bool:
        site.post("/v1/queries", [good(next(numbers))])
        return told.alerts("RagmonRejectedRising")[-1]["status"] == "resolved"

    eventually(only_good, "it is told that this is over", 20)


def test_rules_fire_and_resolve_through_alertmanager(tmp_path):
    rules = hastened(tmp_path / "rules")
    with receiving() as receiver, Process(tmp_path / "data") as site:
        told = Told(receiver)
        config = tmp_path / "alertmanager.yml"
        config.write_text(ALERTMANAGER.format(receiver=receiver.url), encoding="utf-8")
        with run_alertmanager(tmp_path, config) as alertmanager:
            config = tmp_path / "prometheus.yml"
            target = site.url.removeprefix("http://")
            config.write_text(
                PROMETHEUS.format(rules=rules, alertmanager=alertmanager, ragmon=target),
                encoding="utf-8",
            )
            hurry = "--rules.alert.resend-delay=500ms"
            with run_prometheus(tmp_path, config, hurry) as prometheus:
                check_refusals(site, told)
                evaluated = prometheus.rules()
                assert len(evaluated) > 70
                assert {rule["health"] for rule in evaluated} == {"ok"}

                site.kill()
                assert told.await_status("RagmonDown", "firing")["labels"]["severity"] == "critical"
                port = site.url.rsplit(":", 1)[1]
                with Process(tmp_path / "data", "--port", port):
                    told.await_status("RagmonDown", "resolved")
