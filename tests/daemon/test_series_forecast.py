"""The series that settings come to for the traffic in a store, before they are in force."""

import asyncio
import json
import re
from collections import Counter

import pytest

from ragmon.cli import main
from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.alerting.build import build_detection
from ragmon.daemon.build import build_engine
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.series_forecast import OWN, OWN_SERIES, forecast
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.records import Chunk, Feedback, Latency, QueryRecord
from ragmon.sources import Submission
from ragmon.stores import Restatement
from ragmon.windows.observations import unpack
from tests.support.daemons import running

NOW = 1_750_000_000.0
CHOICES = {
    "default": {},
    "all": {"metrics.intervals": "all", "metrics.slice_metrics": ("*",)},
    "few": {
        "metrics.exclude": "ragmon_failure_mode_ratio,ragmon_slice_latency_*",
        "metrics.windows": "1h",
        "metrics.intervals": "none",
    },
    "of slices": {"metrics.include": "ragmon_slice_*", "metrics.slice_windows": "5m,1h"},
}


def settings_of(folder, **flags):
    return load(None, {"data_dir": str(folder), "slices": "tenant", **flags}, {}).settings


def query(at: int) -> QueryRecord:
    return QueryRecord(
        query_id=f"q-{at}",
        timestamp=NOW - at % 3_000,
        pipeline=f"p{at % 3}",
        version=f"v{at % 2}",
        tags={"tenant": f"t{at % 7}"},
        query=f"How much is {at}?",  # no two are the same, so none is a repeat
        answer="Ten.",
        error="timed out" if at % 11 == 0 else None,
        chunks=[Chunk("a", 0.9), Chunk("b", 0.1)] if at % 5 else [],
        citations=["a"],
        relevant_ids=["b"],
        latency_ms=Latency(total=100.0 + at, retrieval=20.0, generation=80.0),
    )


def committed(engine, **records) -> None:
    submission = Submission("test", 1, lambda _: None, **records)
    engine.writer.commits.commit([submission], NOW)


@pytest.fixture
def stored(tmp_path):
    """An engine whose store has a snapshot, queries after it, and one that was restated."""
    engine = build_engine(settings_of(tmp_path), ManualClock(NOW))
    committed(engine, records=[query(at) for at in range(300)])
    engine.snapshot()
    committed(engine, records=[query(at) for at in range(300, 400)])
    committed(engine, changes=[Feedback(query_id="q-1", rating=1.0, timestamp=NOW)])
    yield engine
    engine.writer.stop(5)
    engine.store.close()


def scraped(engine, settings) -> Counter:
    """Series of each name in a scrape."""
    engine.writer.start()
    clock = ManualClock(NOW)
    monitor = LiveMonitor(
        engine, settings, OwnMetrics(), clock, lambda _: [], supervisor=Supervisor()
    )
    monitor.evaluate()
    parts, _ = asyncio.run(monitor.metrics("text/plain", ""))
    body = b"".join(parts)
    lines = (line for line in body.decode().splitlines() if not line.startswith("#"))
    return Counter(re.split("[{ ]", line)[0] for line in lines)


@pytest.mark.parametrize("flags", CHOICES.values(), ids=CHOICES)
def test_each_metric_has_as_many_series_as_a_scrape_would_show(stored, tmp_path, flags):
    settings = settings_of(tmp_path, **flags)
    with stored.store.reader() as reader:
        counted = forecast(reader, settings)
    assert (counted.newest, counted.pipelines, counted.slices) == (NOW, 3, 3 * (7 + 2))
    assert counted.series == counted.shown
    names = scraped(stored, settings)
    for family in counted.families:
        if family.metric != OWN:
            stem = re.escape(family.metric)
            of_metric = re.compile(f"{stem}(_lower|_upper|_samples|_bucket|_sum|_count)?")
            there = sum(size for name, size in names.items() if of_metric.fullmatch(name))
            assert family.series == there, family


def test_what_the_budget_withholds_is_told_by_metric(stored, tmp_path):
    with stored.store.reader() as reader:
        counted = forecast(reader, settings_of(tmp_path, **{"metrics.max_series": 1_000}))
    assert counted.shown <= 1_000 < counted.series
    withheld = {family.metric: family.withheld for family in counted.families}
    assert withheld["ragmon_slice_hit_ratio"] > 0
    assert withheld[OWN] == withheld["ragmon_queries_total"] == 0


def test_a_daemon_has_no_more_of_its_own_than_is_reserved(tmp_path):
    with running(
        tmp_path / "data", sinks=[{"kind": "stdout"}], judge__grounding__enabled=True
    ) as site:
        own = [line for line in site.page().splitlines() if not line.startswith("#")]
    assert OWN_SERIES / 2 < len(own) < OWN_SERIES


def test_check_config_prints_it_beside_a_running_daemon(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "data"
    with running(folder, slices="tenant") as site:
        site.post("/v1/queries", [{"pipeline": "docs", "tags": {"tenant": "a"}, "error": "x"}])
        capsys.readouterr()
        assert main(["check-config", f"--data_dir={folder}", "--slices=tenant"]) == 0
        printed = capsys.readouterr().out
    assert "for the traffic in the store: 1 pipelines, 1 slices, as of 20" in printed
    assert re.search(r"ragmon_error_ratio +16 +16 +0\b", printed)
    assert re.search(r"ragmon_slice_query_errors_total +1 +1 +0\b", printed)
    assert "All fit into metrics.max_series, 10,000." in printed
    assert "All fit into detectors.max_streams, 2,000." in printed


def test_streams_are_forecast_as_detection_makes_them(stored, tmp_path):
    settings = settings_of(tmp_path)
    detection = build_detection(settings, stored.pipeline.columns)
    for entry in stored.store.state.follow({}):
        if isinstance(entry.change, Restatement):
            detection.restate(*(unpack(body, stored.pipeline.columns) for body in entry.change))
        else:
            detection.fold(unpack(entry.change, stored.pipeline.columns))
    with stored.store.reader() as reader:
        counted = forecast(reader, settings)
    latencies = counted.pipelines + counted.slices  # detection knows what is usual an hour later
    assert counted.streams - 2 * latencies == len(detection.streams.rows) > 50


def test_check_config_names_the_streams_without_room_and_the_remedy(stored, tmp_path, capsys):
    stored.snapshot()
    flags = [f"--data_dir={tmp_path}", "--slices=tenant", "--detectors.max_streams=100"]
    assert main(["check-config", *flags]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    found = re.search(r"have ([\d,]+) streams to watch: .* ([\d,]+) do not fit into", printed)
    assert found is not None
    streams, unwatched = (int(number.replace(",", "")) for number in found.groups())
    assert streams - unwatched == 100
    assert "Raise detectors.max_streams (14 to 45 kB of memory each)" in printed
    assert main(["check-config", "--json", *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["streams"] == {"total": streams, "limit": 100}


def test_check_config_for_programs_says_what_the_tables_say(stored, tmp_path, capsys):
    assert main(["check-config", "--json", f"--data_dir={tmp_path / 'none'}"]) == 0
    document = json.loads(capsys.readouterr().out)
    settings = {row["setting"]: row for row in document["settings"]}
    assert settings["data_dir"]["from"] == "--data-dir"
    assert settings["metrics.max_series"]["value"] == "10000"
    assert settings["metrics.max_series"]["meaning"]
    assert document["series"] is None
    assert document["not_counted"] == f"{tmp_path / 'none'}/ragmon.sqlite does not exist"
    assert main(["check-config", "--json", f"--data_dir={tmp_path}", "--slices=tenant"]) == 0
    series = json.loads(capsys.readouterr().out)["series"]
    assert series["total"] == sum(row["series"] for row in series["metrics"]) > 500
    assert series["shown"] == series["total"] <= series["limit"] == 10_000
    assert (series["pipelines"], series["as_of"]) == (3, NOW)


def test_check_config_says_why_nothing_is_counted(tmp_path, capsys):
    assert main(["check-config", f"--data_dir={tmp_path}"]) == 0
    assert f"{tmp_path}/ragmon.sqlite does not exist" in capsys.readouterr().out
    (tmp_path / "ragmon.sqlite").write_bytes(b"no database" * 100)
    assert main(["check-config", f"--data_dir={tmp_path}"]) == 0
    assert "No series are counted: " in capsys.readouterr().out
    (tmp_path / "ragmon.sqlite").unlink()
    build_engine(settings_of(tmp_path), ManualClock(NOW)).store.close()
    assert main(["check-config", f"--data_dir={tmp_path}"]) == 0
    assert "has no queries yet" in capsys.readouterr().out
