"""Every query of every dashboard and rule, asked of a real Prometheus that scrapes the demo."""

import json
import math
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
import yaml

from ragmon.demo.application import STABLE
from tests.end_to_end.test_prometheus import Prometheus, scraping
from tests.support import llm_server
from tests.support.boards import BOARDS, Asked, asked
from tests.support.http import Site
from tests.support.paths import ROOT
from tests.support.promql import Read, reads
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

RULES = ROOT / "deploy/prometheus/rules"
EMPTY = {
    "ragmon_probe_": "the demo has no probe; tests/daemon/probes/test_probes.py runs one",
    "ragmon_scheduled_runs_skipped_total": "no run is skipped while the machine keeps up",
    "ragmon_judge_failures_total": "the model answers each time",
    "ragmon_kafka_": "the demo reads no topic; tests/sources/kafka/test_rebalance.py does",
    "ragmon_log_": "likewise",
    "ragmon_shard": "likewise",
    "ragmon_complete_until_": "likewise",
    "ragmon_bodies_": "the store is embedded; tests/end_to_end/test_bodies.py moves bodies",
}
"""How metrics begin that a healthy demo need not show, each with the reason."""

CHOSEN = {
    "__rate_interval": "30s",  # Prometheus has seen no more
    "compare": "5s",
    "k": "5",  # slices have the headline k alone
}
UNSEEN = {
    'ragmon_tls_certificate_expiry_timestamp_seconds{job="ragmon"}': "it has no certificate",
    'ragmon_rejected_total{reason="connections"}': "no connection is refused",
    'ragmon_limit_bytes{job="ragmon",limit="max_disk"}': "retention.max_disk is not set",
    'ragmon_judged_total{job="ragmon",judge!="grounding",outcome!="scored"}': "the model answers",
    'ragmon_notifications_total{job="ragmon",outcome="dead"}': "every notification arrives",
    'ragmon_secret_files_usable{job="ragmon"}': "it reads no secret from a file",
    'ragmon_kafka_lag_seconds{job="ragmon"}': "no source reads Kafka",
    'ragmon_lease_epoch{job="ragmon"}': "the store is embedded",
    'ragmon_limit_bytes{job="ragmon",limit="bodies_pending"}': "the store is embedded",
    'ragmon_log_lost_total{job="ragmon"}': "no source reads Kafka",
    'ragmon_log_stopped_partitions{job="ragmon"}': "no source reads Kafka",
    'ragmon_token_expiry_timestamp_seconds{job="ragmon"}': "it has no token",
    "ragmon_backup_last_success_timestamp_seconds{}": "it makes no backup",
    "ragmon_backup_interval_seconds{}": "it makes no backup",
    'ragmon_topic_growth_ratio{job="ragmon"}': "growth takes several days, the demo has one",
}
"""What alerts read that a healthy demo does not show, each with the reason."""


@contextmanager
def demo(folder, model: str):
    """The demo on a free port, when it is live; answers are judged by a model at this URL."""
    llm = {"base_url": model, "prices": {"tiny": {"prompt": 1.0, "completion": 1.0}}}
    missed = {"kind": "threshold", "metric": "hit", "limit": 0.01, "min_samples": 1}  # it fires
    output = folder / "output"
    with output.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragmon", "demo", "--port", "0", "--queries", "1200",
             "--rate", "10", "--sinks", "[{kind: stdout}]",
             "--detectors.rules", json.dumps([missed]),
             "--judge.llm", json.dumps(llm), "--judge.every", "1s",
             "--sampling.judgements_per_hour", "2000", "--sampling.judgements_per_day", "20000"],
            stdout=written, stderr=subprocess.STDOUT, cwd=folder,
            env={**os.environ, "COLUMNS": "200", "TMPDIR": str(folder)},
        )  # fmt: skip
    try:
        eventually(lambda: "Ctrl-C stops it" in output.read_text(), "the demo is live", 180)
        url = re.search(r"http://127\.0\.0\.1:\d+", output.read_text())
        yield Site(url[0])
    finally:
        process.kill()
        process.wait(10)


def labelled(site: Site) -> None:
    """People label a few answers, as the demo's users do not."""
    found = site.get("/v1/queries?limit=20").json["queries"]
    labels = [
        {"query_id": each["record"]["query_id"], "faithful": at % 4 / 3, "labeller": "test"}
        for at, each in enumerate(found)
    ]
    assert site.post("/v1/labels", labels).json["accepted"] == len(found) == 20


def compared(site: Site) -> None:
    """With a baseline out of the demo's day."""
    wanted = json.dumps({"from": "20h", "promote": True}).encode()
    answer = site.request("PUT", "/v1/baselines/live", wanted)
    assert answer.status in (200, 201), answer


def linked(site: Site) -> None:
    """Every link into ragmon leads somewhere."""
    values = {
        "ragmon": site.url,
        "window": "1h",
        "__data.fields.Pipeline:percentencode": "python-docs",
        "__data.fields.Mode:percentencode": "retrieval",
        "__data.fields.Alert:percentencode": "RagmonHitRate",
        "__data.fields.Slice:percentencode": STABLE,
        "dimension": "version",
    }
    links = set(re.findall(r'"(\$\{ragmon\}[^"]*)"', json.dumps(BOARDS)))
    assert len(links) >= 3
    for link in links:
        url = re.sub(r"\$\{([^}]+)\}", lambda found: values[found[1]], link)
        assert site.get(url.removeprefix(site.url)).status == 200, link


def of_rules() -> list[Asked]:
    """What recording rules compute, and every series that alerts compare with a limit."""
    every = []
    for path in sorted(RULES.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                name = rule.get("record", path.stem)
                texts = [rule["expr"]] if "record" in rule else selectors(rule["expr"])
                every += [Asked("rules", name, text) for text in texts]
    return every


def selectors(expression: str) -> list[str]:
    """The series that an expression reads, whatever it compares them with."""
    return [f"{read.metric}{{{_matchers(read)}}}" for read in reads(expression)]


def _matchers(read: Read) -> str:
    return ",".join(f"{label}{op}{json.dumps(value)}" for label, op, value in read.matchers)


def answers(prometheus: Prometheus, each: Asked) -> bool:
    """Whether there is a number, not only NaN."""
    found = prometheus.ask("query", query=each.expression)["result"]
    return any(not math.isnan(float(series["value"][1])) for series in found)


def test_every_query_of_every_dashboard_and_rule_finds_data(tmp_path):
    every = [
        *(each for by in ("tenant", "version") for each in asked(dimension=by, **CHOSEN)),
        *of_rules(),
    ]
    absent = tuple(EMPTY)
    expected = [
        each
        for each in every
        if each.expression not in UNSEEN
        and not any(read.metric.startswith(absent) for read in reads(each.expression))
    ]
    assert UNSEEN.keys() <= {each.expression for each in every}
    assert len(expected) > 250
    with (
        llm_server.serving() as model,
        demo(tmp_path, model.url) as site,
        scraping(
            tmp_path, site.url.removeprefix("http://"), every_ms=5_000, rules=f"{RULES}/*.yaml"
        ) as prometheus,
    ):
        # A counter that begins after the first scrape is seen to grow.
        eventually(lambda: prometheus.value("ragmon_queries_total"), "it is scraped", 60)
        labelled(site)
        compared(site)
        linked(site)

        def without_data() -> list[str]:
            return [str(each) for each in expected if not answers(prometheus, each)]

        try:
            eventually(lambda: not without_data(), "every query finds data", 180)
        except AssertionError:
            assert without_data() == []
