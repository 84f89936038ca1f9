"""Links of alerts lead to the queries that the alert is about, and to no others."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from msgspec.structs import replace

from ragmon.clock import SystemClock
from tests.scenarios.story import START, STORIES, Incident, Story, load, log
from tests.support.daemons import Process
from tests.support.http import Site
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

BATCH = 2_000
FLAGS = (
    "--judge.grounding.enabled", "false", "--slices", "tenant",
    "--detectors.first_days", "0", "--detectors.lag", "0",
)  # fmt: skip
ODD = '"it\'s" + 100 %\n🇩🇪 & é=' + "é" * 50

Bad = Callable[[dict[str, Any]], bool]
BAD: dict[str, Bad] = {
    "error": lambda query: "error" in query["record"],
    "zero_result": lambda query: query["record"]["chunks"] == [],
    "hit": lambda query: next(_hits(query["signals"])) == 0.0,
    "slow": lambda query: query["record"]["latency_ms"]["total"] > 5_000.0,
    "positive_feedback": lambda query: query["signals"]["negative_feedback"] == 1.0,
}
"""By metric: what a query behind an alert has in common with the others, in its own words."""


def _hits(signals: dict[str, float]) -> Iterator[float]:
    """By the best evidence first, at the k that detectors watch."""
    for evidence in ("label", "judge", "score", "citation"):
        if (name := f"hit@5/{evidence}") in signals:
            yield signals[name]


def story(name: str, rate: float, **changes: Any) -> Story:
    """A scenario with less traffic than it was written for."""
    return replace(load(STORIES / f"{name}.yaml"), rate=rate, **changes)


def records(of: Story, now: float, tenants: bool) -> Iterator[dict[str, Any]]:
    """Its queries, the last of them now; what retrieves nothing is mostly one tenant's."""
    ended = (START + of.history + of.lasts) * 60
    for number, line in enumerate(log(of)):
        record = msgspec.json.decode(line)
        record["timestamp"] += now // 60 * 60 - ended
        if tenants:
            others = ("acme", "globex", ODD)
            record["tags"] = {"tenant": others[number % 3] if record["chunks"] else ODD}
        yield record


def judged(site: Site, until: float) -> list[dict[str, Any]]:
    """Every alert that fired, once all is judged."""

    def answer() -> list[dict[str, Any]] | None:
        listed = site.get("/v1/alerts?limit=1000").json
        return listed["alerts"] if (listed["judged_until"] or 0.0) >= until else None

    alerts = eventually(answer, "everything is judged", 120)
    return [each for each in alerts if each["evidence"] is not None]


def follow(site: Site, alert: dict[str, Any]) -> None:
    """Follow every link of an alert: there are queries, each of them its own."""
    evidence = alert["evidence"]
    queries = [site.get(_path(each["url"])).json for each in evidence["worst"]]
    if alert["type"] == "no_data":
        assert evidence["failing_queries"] is None
        return
    path = _path(evidence["failing_queries"])
    asked = parse_qs(urlsplit(path).query, keep_blank_values=True)
    assert {"pipeline", "since", "until"} <= asked.keys()
    answer = site.get(f"{path}&limit=1000")
    assert answer.status == 200, answer.text
    listed = answer.json["queries"]
    assert listed, f"{alert['name']} leads nowhere: {path}"
    for query in [*listed, *queries]:
        record = query["record"]
        assert record["pipeline"] == alert["pipeline"]
        if alert["dimension"]:
            own = record.get("tags", {}) | {"version": record.get("version", "")}
            assert own[alert["dimension"]] == alert["value"]
        assert float(asked["since"][0]) <= record["timestamp"] < float(asked["until"][0])
        assert BAD.get(alert["metric"], lambda _: True)(query), alert["name"]


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


WORSE = (Incident(at=30, lasts=570, version="v2", loss={"hit": 0.5}),)


@pytest.mark.parametrize(
    ("of", "tenants", "names", "dimensions"),
    [
        pytest.param(
            story("zero_results", 0.2), True, {"RagmonZeroResults", "RagmonHitRate"},
            {"", "tenant"}, id="an index that vanished for a tenant with an odd name",
        ),
        pytest.param(
            story("canary", 0.1, incidents=WORSE), False, {"RagmonHitRate"},
            {"", "version"}, id="a version that is worse",
        ),
        pytest.param(
            story("latency_step", 0.1), False, {"RagmonLatency", "RagmonLatencyMedian"},
            {""}, id="slow answers",
        ),
    ],
)  # fmt: skip
def test_links_of_alerts_lead_to_members_only(tmp_path, of, tenants, names, dimensions):
    now = SystemClock().now()
    batch = list(records(of, now, tenants))
    with Process(tmp_path / "data", *FLAGS) as site:
        for at in range(0, len(batch), BATCH):
            assert site.post("/v1/queries", batch[at : at + BATCH]).status == 200
        alerts = judged(site, now // 60 * 60)
        assert names <= {each["name"] for each in alerts}
        assert dimensions <= {each["dimension"] for each in alerts}
        for each in alerts:
            follow(site, each)


def test_links_of_the_demo_lead_to_members_only(tmp_path):
    output = tmp_path / "output"
    command = [sys.executable, "-m", "ragmon", "demo", "--port", "0", "--queries", "12000"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=tmp_path, start_new_session=True
        )
    try:
        eventually(lambda: "Ctrl-C stops it" in output.read_text(), "the report is printed", 120)
        (url,) = re.findall("on top: (http://[^/]+)/", output.read_text())
        site = Site(url)
        alerts = judged(site, 0.0)
        assert {"RagmonZeroResults"} <= {each["name"] for each in alerts}
        assert any(each["dimension"] == "version" for each in alerts)
        for each in alerts:
            follow(site, each)
        for path in re.findall(rf"{re.escape(url)}(/\S*)", output.read_text()):
            assert site.get(path).status == 200, path
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
