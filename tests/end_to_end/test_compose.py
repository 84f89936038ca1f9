"""What compose starts, started by hand: the same commands and mounted files, other ports."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml

from tests.support.paths import ROOT
from tests.support.prometheus import Prometheus, running
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

DEPLOY = ROOT / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]

QUERIES = "6000"
"""A quarter of the demo's day. A twentieth is quicker, but in every other run the bad release then
gets too few of them to be surely worse, and no alert is open when live traffic begins."""


def mapped(text: str, service: str, folder: Path) -> str:
    """Paths of the container as paths of this machine; named volumes are folders of the test."""
    ours = {}
    for volume in SERVICES[service]["volumes"]:
        here, there = volume.split(":")[:2]
        ours[there] = str((DEPLOY / here).resolve() if here.startswith(".") else folder / here)
    paths = "|".join(map(re.escape, ours))
    return re.sub(rf"(?<![\w.])({paths})\b", lambda found: ours[found[1]], text)


def arguments(service: str, folder: Path, **addresses: str) -> list[str]:
    """A container's arguments; its configuration is a copy with addresses of this machine."""
    given = [mapped(each, service, folder) for each in SERVICES[service]["command"]]
    (config,) = (each for each in given if each.startswith("--config.file="))
    text = Path(config.partition("=")[2]).read_text(encoding="utf-8")
    for name, address in addresses.items():
        assert re.search(rf"\b{name}:\d+", text)
        text = re.sub(rf"\b{name}:\d+", address, text)
    copy = folder / f"{service}.yml"
    text = re.sub(r"_interval: \d+s", "_interval: 1s", mapped(text, service, folder))
    copy.write_text(text, encoding="utf-8")
    return [f"--config.file={copy}" if each == config else each for each in given]


@contextmanager
def demo(folder: Path, alertmanager: str):
    """ragmon's container; its address once traffic is live."""
    said = {key: str(value) for key, value in SERVICES["ragmon"]["environment"].items()}
    said["RAGMON_SINKS"] = said["RAGMON_SINKS"].replace("alertmanager:9093", alertmanager)
    output = folder / "demo.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragmon", *SERVICES["ragmon"]["command"],
             "--port", "0", "--queries", QUERIES],
            stdout=log, stderr=log, cwd=folder,
            env={**os.environ, **said, "COLUMNS": "200", "TMPDIR": str(folder)},
        )  # fmt: skip
    try:
        eventually(lambda: "Ctrl-C stops it" in output.read_text(), "the demo is live", 150)
        port = re.search(r"http://0\.0\.0\.0:(\d+)", output.read_text())[1]
        yield f"127.0.0.1:{port}"
        process.terminate()  # as `docker compose down` does
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)


def told_once(url: str) -> bool:
    """True once Alertmanager has an alert of ragmon itself; Prometheus must not tell it again."""
    alerts = requests.get(f"{url}/api/v2/alerts", timeout=10).json()
    assert "RagmonAlertFiring" not in {each["labels"]["alertname"] for each in alerts}
    return any("type" in each["labels"] for each in alerts)


def test_the_services_of_compose_find_each_other(tmp_path):
    given = [*arguments("alertmanager", tmp_path), "--cluster.listen-address="]
    with running(tmp_path, "prometheus-alertmanager", given) as url:
        alertmanager = url.removeprefix("http://")
        with demo(tmp_path, alertmanager) as ragmon:
            given = arguments("prometheus", tmp_path, alertmanager=alertmanager, ragmon=ragmon)
            with running(tmp_path, "prometheus", given) as address:
                prometheus = Prometheus(address)
                rising = "sum(increase(ragmon_queries_total[10s])) > 0"
                eventually(lambda: prometheus.value(rising), "live traffic is scraped", 30)
                eventually(
                    lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"},
                    "every rule is evaluated",
                )
                known = prometheus.ask("alertmanagers")["activeAlertmanagers"]
                assert [each["url"] for each in known] == [f"{url}/api/v2/alerts"]
                eventually(lambda: told_once(url), "ragmon's alert is shown, and once", 150)
