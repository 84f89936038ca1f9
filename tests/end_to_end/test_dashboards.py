"""Every query of every dashboard, asked of a real Prometheus that scrapes the demo."""

import math
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.end_to_end.test_prometheus import Prometheus, scraping
from tests.support.boards import PENDING, Asked, asked
from tests.support.http import Site
from tests.support.promql import reads
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

EMPTY = PENDING | {
    "ragmon_scheduled_runs_skipped_total": "no run is skipped while the machine keeps up",
}
"""Metrics that a healthy demo does not show, each with the reason."""

CHOSEN = {"__rate_interval": "20s", "compare": "2s"}  # Prometheus has seen no more


@contextmanager
def demo(folder):
    """The demo on a free port, when it is live."""
    output = folder / "output"
    with output.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragmon", "demo", "--port", "0", "--queries", "1200",
             "--rate", "20", "--sinks", "[{kind: stdout}]"],
            stdout=written, stderr=subprocess.STDOUT, cwd=folder,
            env={**os.environ, "COLUMNS": "200", "TMPDIR": str(folder)},
        )  # fmt: skip
    try:
        eventually(lambda: "Ctrl-C ends it" in output.read_text(), "the demo is live", 60)
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


def answers(prometheus: Prometheus, each: Asked) -> bool:
    """Whether there is a number, not only NaN."""
    found = prometheus.ask("query", query=each.expression)["result"]
    return any(not math.isnan(float(series["value"][1])) for series in found)


def test_every_query_of_every_dashboard_finds_data(tmp_path):
    every = asked(**CHOSEN)
    expected = [each for each in every if not EMPTY.keys() & {r.metric for r in reads(each[2])}]
    assert len(expected) > 80
    with demo(tmp_path) as site, scraping(tmp_path, site.url.removeprefix("http://")) as prometheus:
        labelled(site)

        def without_data() -> list[str]:
            return [str(each) for each in expected if not answers(prometheus, each)]

        try:
            eventually(lambda: not without_data(), "every query finds data", 60)
        except AssertionError:
            assert without_data() == []
        landed = [str(each) for each in every if each not in expected and answers(prometheus, each)]
        assert landed == [], "take the metrics off the list"
