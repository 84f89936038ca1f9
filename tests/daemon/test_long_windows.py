"""Windows longer than memory: the hours on disk take over where the rings have forgotten."""

import asyncio

import pytest

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.build import build_engine
from ragmon.daemon.monitor import LiveMonitor
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.records import QueryRecord
from ragmon.sources import Submission

HOUR = 3_600.0
DAY = 24 * HOUR
NOW = 1_750_000_000.0 // HOUR * HOUR


@pytest.fixture(scope="module")
def monitor(tmp_path_factory):
    """Forty days with one query an hour, every tenth without a chunk, counted day by day."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"))
    clock = ManualClock(NOW - 40 * DAY)
    engine = build_engine(settings, clock)
    for day in range(40):
        records = [
            QueryRecord(
                query_id=f"q{day}-{hour}",
                timestamp=clock.now() + hour * HOUR + 1.0,
                pipeline="docs" if day else "old",
                chunks=None if (24 * day + hour) % 10 else [],
            )
            for hour in range(24)
        ]
        clock.sleep(DAY)
        group = [Submission("test", 1, lambda _: None, records=records)]
        engine.writer.commits.commit(group, clock.now())
        engine.snapshot()
        engine.expire(clock.now())
    engine.writer.start()
    yield LiveMonitor(
        engine, settings, OwnMetrics(), clock, lambda _pipeline: [], supervisor=Supervisor()
    )
    engine.writer.stop(5)
    engine.store.close()


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
