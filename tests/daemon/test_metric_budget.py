"""``metrics.max_series`` bounds the whole answer of ``/metrics``, whatever the traffic."""

import asyncio
import contextlib
import random
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.build import build_engine
from ragmon.daemon.monitor import LiveMonitor
from ragmon.errors import SettingsError
from ragmon.exposition.bounded import BoundedFamilies
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.records import Chunk, Latency, QueryRecord
from ragmon.sources import Submission

NOW = 1_750_000_000.0
ODD = 'a"b\\c\nd💥' * 20


def queries(count, pipelines, tenants, names=None):
    """Queries with every field that metrics are made of."""
    rng = random.Random(7)
    names = names or [f"pipeline-{at}" for at in range(pipelines)]
    return [
        QueryRecord(
            query_id=f"q-{at}",
            timestamp=NOW - rng.random() * 3_000.0,
            pipeline=names[at % len(names)],
            version=f"v{rng.randrange(2)}",
            tags={"tenant": f"t{rng.randrange(tenants)}", "channel": f"c{rng.randrange(3)}"},
            query="How much is the fee?",
            answer="The fee is due on Monday.",
            error="timed out" if rng.random() < 0.1 else None,
            chunks=[Chunk("a", 0.9), Chunk("b", 0.1)] if rng.random() < 0.9 else [],
            citations=["a"],
            relevant_ids=["b"],
            latency_ms=Latency(total=100.0, retrieval=20.0, generation=80.0),
            feedback=rng.choice((1.0, -1.0)),
        )
        for at in range(count)
    ]


@pytest.fixture
def monitored(tmp_path):
    """A monitor over the queries, by the flags of its settings."""
    engines = []

    def make(records, **flags):
        given = {"data_dir": str(tmp_path), "slices": "tenant,channel"}
        given |= {name.replace("__", "."): value for name, value in flags.items()}
        settings = load(None, given, {}).settings
        clock = ManualClock(NOW)
        engine = build_engine(settings, clock)
        group = [Submission("test", 1, lambda _: None, records=records)]
        engine.writer.commits.commit(group, NOW)
        engine.writer.start()
        engines.append(engine)
        return LiveMonitor(
            engine, settings, OwnMetrics(), clock, lambda _: [], supervisor=Supervisor()
        )

    yield make
    for engine in engines:
        engine.writer.stop(5)
        engine.store.close()


def scraped(monitor):
    """The samples of one scrape."""
    monitor.evaluate()
    parts, _ = asyncio.run(monitor.metrics("text/plain", ""))
    body = b"".join(parts)
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


def withheld(samples):
    found = re.compile(r'ragmon_series_withheld\{kind="(\w+)"\} (\d+)')
    return {match[1]: int(match[2]) for line in samples if (match := found.match(line))}


@pytest.mark.parametrize("most", [1_000, 3_000, 10_000])
def test_no_scrape_has_more(monitored, most):
    samples = scraped(monitored(queries(6_000, 20, 10), metrics__max_series=most))
    assert len(samples) <= most
    assert len(samples) > 0.5 * most
    assert withheld(samples)["slices"] > 0
    assert len(set(samples)) == len(samples)


def test_everything_is_shown_where_it_fits(monitored):
    samples = scraped(monitored(queries(400, 2, 3)))
    assert set(withheld(samples).values()) == {0}
    assert any(line.startswith("ragmon_slice_hit_ratio{") for line in samples)


def test_a_tag_with_a_value_a_query_shows_the_busiest(monitored):
    records = queries(3_000, 2, 100_000)
    samples = scraped(monitored(records, metrics__max_series=2_000))
    assert len(samples) <= 2_000
    assert withheld(samples)["slices"] > 0


def test_odd_names_are_escaped(monitored):
    samples = scraped(monitored(queries(50, 1, 2, names=[ODD[:256]])))
    assert any(r"a\"b\\c\nd💥" in line for line in samples)
    assert all(re.fullmatch(r"[a-z_]+(\{.*\})? [-+.\deEinfNa]+", line) for line in samples)


@pytest.mark.parametrize(
    ("most", "words"),
    [(0, "is too few"), (50, "is too few"), (10**8, "less than or equal to 10000000")],
)
def test_a_budget_that_cannot_hold_is_refused(most, words):
    with pytest.raises(SettingsError, match=words):
        load(None, {"metrics.max_series": most}, {})


def test_what_is_shown_survives_a_restart(monitored):
    monitor = monitored(queries(3_000, 20, 10), metrics__max_series=3_000)
    shown = {line.split(" ")[0] for line in scraped(monitor) if "ragmon_slice_" in line}
    engine = monitor._engine
    again = LiveMonitor(
        engine,
        monitor._settings,
        OwnMetrics(),
        ManualClock(NOW),
        lambda _: [],
        supervisor=Supervisor(),
    )
    again.begin()
    late = queries(900, 20, 10)  # the busiest are others from now on
    rare = [
        replace(query, query_id=f"late-{at}", tags={"tenant": f"t{at % 4}"})
        for at, query in enumerate(late)
    ]
    engine.thread.ask(lambda: engine.windows.fold(engine.pipeline.observe(rare)))
    assert shown
    assert shown <= {line.split(" ")[0] for line in scraped(again)}


def test_two_scrapers_at_once_get_the_same(monitored):
    monitor = monitored(queries(400, 2, 3))

    async def both():
        return await asyncio.gather(
            monitor.metrics("text/plain", ""), monitor.metrics("text/plain", "")
        )

    (first, _), (second, _) = asyncio.run(both())
    assert first == second


def test_globs_choose_and_those_that_match_nothing_are_named(monitored):
    monitor = monitored(
        queries(100, 1, 2),
        metrics__include=("ragmon_*queries_total", "ragmon_hit_ratio*", "nothing_*"),
        metrics__exclude=("ragmon_slice_*",),
    )
    with capture_logs() as logs:
        monitor.begin()
    named = [entry["setting"] for entry in logs if entry["event"] == "no_metric_matches"]
    assert named == ["metrics.include: 'nothing_*'"]
    names = {re.split("[{ ]", line)[0] for line in scraped(monitor)}
    assert {"ragmon_queries_total", "ragmon_hit_ratio", "ragmon_hit_ratio_lower"} <= names
    assert not [name for name in names if name.startswith("ragmon_slice_")]
    assert "ragmon_error_ratio" not in names


def test_no_interval_is_shown_where_none_is_wanted(monitored):
    samples = scraped(monitored(queries(100, 1, 2), metrics__intervals="none"))
    assert not [line for line in samples if re.match(r"ragmon_\w+_(lower|upper)[{ ]", line)]
    assert [line for line in samples if line.startswith("ragmon_hit_ratio_samples{")]


def test_pages_are_put_together_one_at_a_time(monitored, monkeypatch):
    monitor = monitored(queries(400, 2, 3))
    gate, overlaps, real = threading.Lock(), [], BoundedFamilies.families

    def families(self, *given):
        overlaps.append(not gate.acquire(blocking=False))
        try:
            return [real(self, *given) for _ in range(20)][-1]  # long enough to be met
        finally:
            if not overlaps[-1]:
                gate.release()

    monkeypatch.setattr(BoundedFamilies, "families", families)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns all the time
    with contextlib.ExitStack() as stack:
        stack.callback(sys.setswitchinterval, interval)
        pool = stack.enter_context(ThreadPoolExecutor(4))
        for done in [pool.submit(monitor.evaluate) for _ in range(40)]:
            done.result()
    assert len(overlaps) == 40
    assert not any(overlaps)
