"""What does a scrape cost, with 20 pipelines and the tags tenant (10 values) and channel (3)?"""

import dataclasses
import gzip
import os
import random
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

from harness import Daemon, daemon, post_all

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.build import build_engine
from ragmon.daemon.metric_choice import metric_choice, shown_windows
from ragmon.exposition.bounded import BoundedFamilies
from ragmon.records import Chunk, Latency, QueryRecord
from ragmon.sources import Submission

PIPELINES = (20, 7, 2)
RECORDS_OF_ONE = int(os.environ.get("BENCH_RECORDS", "3000"))
DAYS_S = 6 * 86_400.0
SCRAPES = 10  # of a round
ROUNDS = 6  # of which the least counts: other work on the machine only adds
GROUP = 2_000
BUSY = 10  # records a pipeline
CODINGS = ("identity", "gzip")
FLAGS = {
    "slices": "tenant,channel",
    "retrieval.relevant_score": "0.5",
    "retrieval.low_score": "0.2",
    "judge.grounding.enabled": "false",
}


@dataclasses.dataclass
class Cost:
    """Of one scrape: samples, bytes, bytes of gzip, and milliseconds of CPU.

    Pairs are of an answer as it is, and of one with gzip, connection included.
    """

    series: int
    size: int
    gzipped: int
    cold_ms: tuple[float, float]  # one record after the scrape before
    busy_ms: float  # records in every pipeline and most slices after it
    writer_ms: float  # of a cold one, on the writer's thread
    unchanged_ms: tuple[float, float]
    idle_percent: float
    memory_mb: float


def record(at: int, rng: random.Random, pipelines: int, moment: float) -> QueryRecord:
    """A query with all fields that metrics are made of."""
    ids = rng.sample(range(5_000), 5)
    chunks = [
        Chunk(id=f"doc-{number}", score=round(1 - 0.2 * rank * rng.random(), 4))
        for rank, number in enumerate(ids)
    ]
    return QueryRecord(
        query_id=uuid.UUID(int=rng.getrandbits(128)).hex,
        timestamp=moment,
        pipeline=f"pipeline-{at % pipelines}",
        version="v1",
        tags={"tenant": f"t{rng.randrange(10)}", "channel": f"c{rng.randrange(3)}"},
        query="How much is the fee?",
        answer="The fee is due on Monday.",
        error="timed out" if rng.random() < 0.02 else None,
        chunks=chunks if rng.random() > 0.05 else [],
        citations=[chunk.id for chunk in chunks[: rng.randrange(4)]],
        relevant_ids=[f"doc-{number}" for number in rng.sample(ids, 2)],
        latency_ms=Latency(
            total=rng.lognormvariate(6.5, 0.5),
            retrieval=rng.lognormvariate(4, 0.5),
            generation=rng.lognormvariate(6.3, 0.5),
        ),
        feedback=rng.choice((1.0, -1.0, None)),
    )


def fill(folder: Path, pipelines: int) -> None:
    """Commit records, half of them over six days and half in the last hour."""
    settings = load(None, FLAGS | {"data_dir": str(folder)}, {}).settings
    engine = build_engine(settings, SystemClock())
    engine.restore()
    rng, now = random.Random(1), time.time()
    count = RECORDS_OF_ONE * pipelines
    moments = sorted(now - 1 - rng.random() * (DAYS_S if at % 2 else 3_000) for at in range(count))
    for first in range(0, count, GROUP):
        part = enumerate(moments[first : first + GROUP], first)
        records = [record(at, rng, pipelines, moment) for at, moment in part]
        engine.writer.commits.commit([Submission("bench", 0, lambda _: None, records=records)], now)
    engine.snapshot()
    engine.store.close()


def cpu_s(running: Daemon) -> float:
    """CPU of all threads so far, finer than the ticks of /proc/PID/stat."""
    tasks = Path(f"/proc/{running.process.pid}/task")
    return sum(int(each.read_text().split()[0]) for each in tasks.glob("*/schedstat")) / 1e9


def measure(pipelines: int) -> Cost:
    """The figures for that many pipelines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        fill(folder, pipelines)
        flags = [part for key, value in FLAGS.items() for part in (f"--{key}", value)]
        with daemon(folder, *flags) as running:
            for _ in range(3):
                page = running.get("/metrics")
            settle(running)
            idle = of_idling(running)
            posting = of_each(running, pipelines, 1, None)
            cold = [of_each(running, pipelines, 1, each) - posting for each in CODINGS]
            posting = of_each(running, pipelines, BUSY * pipelines, None)
            busy = of_each(running, pipelines, BUSY * pipelines, "identity") - posting
            unchanged = [of_unchanged(running, each) for each in CODINGS]
            memory = running.memory_mb()
        writer = of_writer(folder)
    samples = sum(bool(line) and not line.startswith(b"#") for line in page.splitlines())
    gzipped = len(gzip.compress(page, 6))
    return Cost(
        samples,
        len(page),
        gzipped,
        (cold[0], cold[1]),
        busy,
        writer,
        (unchanged[0], unchanged[1]),
        100 * idle,
        memory,
    )


def settle(running: Daemon) -> None:
    """Wait until detection has caught up: two seconds in a row without much CPU."""
    quiet = 0
    for _ in range(480):
        before = cpu_s(running)
        time.sleep(0.5)
        quiet = quiet + 1 if cpu_s(running) - before < 0.05 else 0
        if quiet == 4:
            return


def of_idling(running: Daemon, seconds: float = 20.0) -> float:
    """CPU of a daemon that nothing asks and nothing is sent to, in cores."""
    before = cpu_s(running)
    time.sleep(seconds)
    return (cpu_s(running) - before) / seconds


def scrape(running: Daemon, coding: str) -> None:
    """One scrape, on a connection of its own."""
    headers = {"Accept-Encoding": coding}
    request = urllib.request.Request(running.url + "/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def of_unchanged(running: Daemon, coding: str) -> float:
    """Milliseconds of CPU for a scrape after which nothing happened."""
    scrape(running, coding)
    rounds = []
    for _ in range(ROUNDS):
        started = cpu_s(running)
        for _ in range(SCRAPES):
            scrape(running, coding)
        rounds.append(cpu_s(running) - started)
    return 1e3 * min(rounds) / SCRAPES


def of_each(running: Daemon, pipelines: int, records: int, coding: str | None) -> float:
    """Milliseconds of CPU for some records and the scrape after them; or for the records alone."""
    rounds, rng = [0.0] * ROUNDS, random.Random(2)
    for turn in range(SCRAPES * ROUNDS):
        body = "\n".join(
            f'{{"pipeline": "pipeline-{(turn + at) % pipelines}", "version": "v1",'
            f' "tags": {{"tenant": "t{rng.randrange(10)}"}}, "latency_ms": 100}}'
            for at in range(records)
        )
        before = cpu_s(running)
        post_all(running.url, [body.encode()], connections=1)
        if coding is not None:
            scrape(running, coding)
        rounds[turn // SCRAPES] += cpu_s(running) - before
        time.sleep(0.02)
    return 1e3 * min(rounds) / SCRAPES


def of_writer(folder: Path) -> float:
    """Milliseconds of CPU for which a scrape after a record keeps the writer's thread."""
    settings = load(None, FLAGS | {"data_dir": str(folder)}, {}).settings
    engine = build_engine(settings, SystemClock())
    engine.restore()
    limit = settings.metrics.max_series
    bounded = BoundedFamilies(
        engine.windows, metric_choice(settings), shown_windows(settings), limit
    )
    rng, total = random.Random(3), 0.0
    for turn in range(SCRAPES + 1):
        group = [record(turn, rng, 2, time.time())]
        submission = Submission("bench", 0, lambda _: None, records=group)
        engine.writer.commits.commit([submission], time.time())
        engine.windows.settle()  # not the scrape's: whoever reads first counts what waits
        before = time.thread_time()
        copied = bounded.collect({}, time.time())
        total += (time.thread_time() - before) * (turn > 0)
        bounded.families(copied, 0)
    engine.store.close()
    return 1e3 * total / SCRAPES


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rows = []
    for pipelines in PIPELINES:
        cost = measure(pipelines)
        goal = pipelines == PIPELINES[0]
        of = f"{pipelines} pipelines x (10 + 3) slices: "
        rows += [
            (of + "series of a scrape", f"{cost.series:,}", "<= 10,000" if goal else ""),
            (
                of + "bytes, identity / gzip",
                f"{cost.size / 1e6:.2f} MB / {cost.gzipped / 1e3:.0f} KB",
                "<= 1.1 MB / <= 120 KB" if goal else "",
            ),
            (
                of + "CPU of a scrape, cold / unchanged",
                f"{cost.cold_ms[0]:.1f} ms / {cost.unchanged_ms[0]:.2f} ms",
                "<= 25 ms / <= 2 ms" if goal else "",
            ),
            (
                of + "the same with gzip",
                f"{cost.cold_ms[1]:.1f} ms / {cost.unchanged_ms[1]:.2f} ms",
                "",
            ),
            (
                of + "a scrape after records in most slices",
                f"{cost.busy_ms:.1f} ms",
                "",
            ),
            (of + "of a cold one, writer's thread", f"{cost.writer_ms:.1f} ms", ""),
            (
                of + "CPU of an idle daemon",
                f"{cost.idle_percent:.1f} % of a core",
                "<= 2 %" if goal else "",
            ),
            (of + "resident memory", f"{cost.memory_mb:.0f} MB", ""),
        ]
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:62} {row[1]:28} {row[2]}")
