"""Windows longer than memory: the hours on disk take over where the rings have forgotten."""

import asyncio

import pytest

from ragmon.daemon.monitor import LiveMonitor
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from tests.support.hourly import DAY, NOW, forty_days


@pytest.fixture(scope="module")
def monitor(tmp_path_factory):
    """One query an hour, every tenth without a chunk."""
    folder = tmp_path_factory.mktemp("data")
    with forty_days(folder, lambda day, hour: (24 * day + hour) % 10 == 0) as hourly:
        engine, settings, clock = hourly
        yield LiveMonitor(
            engine, settings, OwnMetrics(), clock, lambda _pipeline: [], supervisor=Supervisor()
        )


@pytest.mark.parametrize(
    ("window", "end", "queries"),
    [
        pytest.param("7d", None, 7 * 24, id="from memory alone"),
        pytest.param("30d", None, 30 * 24, id="memory and disk, no hour twice or missing"),
        pytest.param("60d", None, 40 * 24, id="everything there is"),
        pytest.param("5d", NOW - 20 * DAY, 5 * 24, id="a past stretch from disk alone"),
    ],
)
def test_report_over(monitor, window, end, queries):
    report = asyncio.run(monitor.report(window, "", end))
    assert report.queries == queries
    assert report.metrics["zero_result"].samples == queries // 10


def test_a_pipeline_that_memory_has_forgotten_is_in_the_long_report(monitor):
    report = asyncio.run(monitor.report("60d", "old"))
    assert [pipeline.queries for pipeline in report.pipelines] == [24]


def test_a_window_beyond_retention_is_refused(monitor):
    with pytest.raises(ValueError, match="not between 10s and 90d"):
        asyncio.run(monitor.report("91d", ""))
